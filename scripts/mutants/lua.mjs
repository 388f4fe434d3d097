// The mutants of a Lua file: the kinds of change that Stryker makes of TypeScript, which does not know Lua.
import luaparse from 'luaparse';

/**
 * One change of one file.
 *
 * @typedef {object} Mutant
 * @property {string} file its path from the root
 * @property {number} line where what is replaced begins, counted from 1
 * @property {string} operator the kind of change
 * @property {number} start the offset of what is replaced
 * @property {number} end
 * @property {string} to what takes its place
 */
/** @typedef {import('luaparse').Node} Node */

/** @type {Readonly<Record<string, string>>} */
const swappedOperators = {
  ...{ '<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '~=', '~=': '==' },
  ...{ '+': '-', '-': '+', '*': '/', '/': '*', '%': '*', '^': '*', and: 'or', or: 'and' },
};

/** @type {Readonly<Record<string, string>>} */
const swappedFunctions = { min: 'max', max: 'min', floor: 'ceil', ceil: 'floor' };

const comparisons = new Set(['<', '<=', '>', '>=', '==', '~=']);

/**
 * @param {string} file its path from the root
 * @param {string} text
 * @returns {Mutant[]} in the order of the text
 */
export function mutateLua(file, text) {
  /** @type {Map<string, Mutant>} two operators may come to the same change */
  const found = new Map();
  /**
   * @param {string} operator
   * @param {number} start
   * @param {number} end
   * @param {string} to
   */
  const change = (operator, start, end, to) => {
    const line = text.slice(0, start).split('\n').length;
    found.set(`${start} ${end} ${to}`, { file, line, operator, start, end, to });
  };
  /** @param {Node} node */
  const textOf = (node) => text.slice(...rangeOf(node));
  /**
   * @param {string} operator
   * @param {Node} node
   * @param {string} replacement
   */
  const replace = (operator, node, replacement) => change(operator, ...rangeOf(node), replacement);

  /** @param {Node} node */
  function mutate(node) {
    switch (node.type) {
      case 'BinaryExpression':
        return swapOperator(node);
      case 'LogicalExpression':
        swapOperator(node);
        // The tree has no parentheses: an operand that stood in some may need them still.
        replace('operand', node, `(${textOf(node.left)})`);
        return replace('operand', node, `(${textOf(node.right)})`);
      case 'UnaryExpression':
        if (node.operator === 'not') replace('negation', node, `(${textOf(node.argument)})`);
        if (node.operator === '-') replace('sign', node, `(${textOf(node.argument)})`);
        return;
      case 'NumericLiteral':
        for (const next of [node.value + 1, node.value - 1])
          replace('constant', node, next < 0 ? `(${next})` : String(next));
        return;
      case 'BooleanLiteral':
        return replace('boolean', node, String(!node.value));
      case 'MemberExpression': {
        const other = swappedFunctions[node.identifier.name];
        if (other && textOf(node.base) === 'math') replace('method', node.identifier, other);
        return;
      }
      case 'IfStatement':
        return node.clauses.length === 1 ? replace('removed statement', node, '') : undefined;
      case 'IfClause':
      case 'ElseifClause':
      case 'WhileStatement':
      case 'RepeatStatement':
        return negate(node.condition);
      case 'CallStatement':
        return replace('removed call', node, '');
      case 'AssignmentStatement':
      case 'BreakStatement':
        return replace('removed statement', node, '');
      case 'ReturnStatement':
        return node.arguments.forEach(mutateResult);
      default:
    }
  }

  /** @param {import('luaparse').BinaryExpression | import('luaparse').LogicalExpression} node */
  function swapOperator({ left, operator, right }) {
    const other = swappedOperators[operator];
    if (other === undefined) return;
    // Between the operands there are only parentheses and space beside it.
    const from = rangeOf(left)[1];
    const at = text.slice(from, rangeOf(right)[0]).indexOf(operator) + from;
    change('operator', at, at + operator.length, other);
  }

  /** @param {Node} condition */
  function negate(condition) {
    // These have a mutant of their own that does the same.
    if ('operator' in condition && /^(not|==|~=)$/.test(condition.operator)) return;
    replace('condition', condition, `not (${textOf(condition)})`);
  }

  /** @param {Node} node */
  function mutateResult(node) {
    if ('operator' in node && comparisons.has(node.operator))
      replace('returned value', node, `not (${textOf(node)})`);
    else if (/^(Identifier|IndexExpression|CallExpression|BinaryExpression)$/.test(node.type))
      replace('returned value', node, `(${textOf(node)}) + 1`);
  }

  /** @param {unknown} node */
  function visit(node) {
    if (Array.isArray(node)) node.forEach(visit);
    else if (isNode(node)) {
      mutate(node);
      Object.values(node).forEach(visit);
    }
  }

  visit(luaparse.parse(text, { ranges: true, luaVersion: '5.1' }).body);
  return [...found.values()].sort((a, b) => a.start - b.start || a.end - b.end);
}

/**
 * @param {string} text of the mutant's file
 * @param {Mutant} mutant
 */
export const applied = (text, { start, end, to }) => text.slice(0, start) + to + text.slice(end);

/**
 * Where a node is: the types of luaparse do not tell that it may be asked to say so.
 * @param {Node} node
 */
const rangeOf = (node) => /** @type {Node & { range: [number, number] }} */ (node).range;

/**
 * @param {unknown} value
 * @returns {value is Node}
 */
function isNode(value) {
  return typeof value === 'object' && value !== null && 'type' in value;
}
