// The mutants of a Lua file: the same kinds of change as those of TypeScript.
import luaparse from 'luaparse';
import { changesOf } from './changes.mjs';

/** @typedef {import('./changes.mjs').Mutant} Mutant */
/** @typedef {{ type: string, range: [number, number] } & Record<string, any>} Node */

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
  const { mutants, change } = changesOf(file, text);
  /** @param {Node} node */
  const textOf = ({ range }) => text.slice(...range);
  /**
   * @param {string} operator
   * @param {Node} node
   * @param {string} replacement
   */
  const replace = (operator, { range }, replacement) => change(operator, ...range, replacement);

  /** @type {Record<string, (node: Node) => void>} */
  const visitors = {
    BinaryExpression: visitOperator,
    LogicalExpression(node) {
      visitOperator(node);
      // The tree has no parentheses: an operand that stood in some may need them still.
      replace('operand', node, `(${textOf(node.left)})`);
      replace('operand', node, `(${textOf(node.right)})`);
    },
    UnaryExpression(node) {
      if (node.operator === 'not') replace('negation', node, `(${textOf(node.argument)})`);
      if (node.operator === '-') replace('sign', node, `(${textOf(node.argument)})`);
    },
    NumericLiteral(node) {
      for (const next of [node.value + 1, node.value - 1])
        replace('constant', node, next < 0 ? `(${next})` : String(next));
    },
    BooleanLiteral(node) {
      replace('boolean', node, String(!node.value));
    },
    MemberExpression({ base, identifier }) {
      const other = base.name === 'math' ? swappedFunctions[identifier.name] : undefined;
      if (other) replace('method', identifier, other);
    },
    IfStatement(node) {
      if (node.clauses.length === 1) replace('removed statement', node, '');
    },
    IfClause: ({ condition }) => negate(condition),
    ElseifClause: ({ condition }) => negate(condition),
    WhileStatement: ({ condition }) => negate(condition),
    RepeatStatement: ({ condition }) => negate(condition),
    CallStatement: (node) => replace('removed call', node, ''),
    AssignmentStatement: (node) => replace('removed statement', node, ''),
    BreakStatement: (node) => replace('removed statement', node, ''),
    ReturnStatement: ({ arguments: results }) => results.forEach(visitResult),
  };

  /** @param {Node} node */
  function visitOperator({ left, operator, right }) {
    const other = swappedOperators[operator];
    if (other === undefined) return;
    // Between the operands there are only parentheses and space beside it.
    const at = text.slice(left.range[1], right.range[0]).indexOf(operator) + left.range[1];
    change('operator', at, at + operator.length, other);
  }

  /** @param {Node} condition */
  function negate(condition) {
    // These have a mutant of their own that does the same.
    if (condition.operator === 'not' || condition.operator === '==' || condition.operator === '~=') return;
    replace('condition', condition, `not (${textOf(condition)})`);
  }

  /** @param {Node} node */
  function visitResult(node) {
    if (comparisons.has(node.operator)) replace('returned value', node, `not (${textOf(node)})`);
    else if (/^(Identifier|IndexExpression|CallExpression|BinaryExpression)$/.test(node.type))
      replace('returned value', node, `(${textOf(node)}) + 1`);
  }

  /** @param {unknown} node */
  function visit(node) {
    if (Array.isArray(node)) node.forEach(visit);
    else if (isNode(node)) {
      visitors[node.type]?.(node);
      Object.values(node).forEach(visit);
    }
  }

  visit(luaparse.parse(text, { ranges: true, luaVersion: '5.1' }).body);
  return mutants();
}

/**
 * @param {unknown} value
 * @returns {value is Node}
 */
function isNode(value) {
  return typeof value === 'object' && value !== null && 'type' in value;
}
