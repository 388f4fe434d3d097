// The mutants of a Lua file: the kinds of change that Stryker makes of TypeScript, which does not know Lua.
import luaparse, { type BinaryExpression, type LogicalExpression, type Node } from 'luaparse';

/** One change of one file. */
export interface Mutant {
  /** Its path from the root. */
  readonly file: string;
  /** Where what is replaced begins, counted from 1. */
  readonly line: number;
  /** The kind of change. */
  readonly operator: string;
  /** The offset of what is replaced. */
  readonly start: number;
  readonly end: number;
  /** What takes its place. */
  readonly to: string;
}

const swappedOperators: Readonly<Record<string, string>> = {
  ...{ '<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '~=', '~=': '==' },
  ...{ '+': '-', '-': '+', '*': '/', '/': '*', '%': '*', '^': '*', and: 'or', or: 'and' },
};

const swappedFunctions: Readonly<Record<string, string>> = {
  min: 'max',
  max: 'min',
  floor: 'ceil',
  ceil: 'floor',
};

const comparisons = new Set(['<', '<=', '>', '>=', '==', '~=']);

/** All mutants of a file, in the order of its text. */
export function mutateLua(file: string, text: string): Mutant[] {
  // Two operators may come to the same change.
  const found = new Map<string, Mutant>();
  const change = (operator: string, start: number, end: number, to: string): void => {
    const line = text.slice(0, start).split('\n').length;
    found.set(`${start} ${end} ${to}`, { file, line, operator, start, end, to });
  };
  const textOf = (node: Node): string => text.slice(...rangeOf(node));
  const replace = (operator: string, node: Node, replacement: string): void =>
    change(operator, ...rangeOf(node), replacement);

  function mutate(node: Node): void {
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

  function swapOperator({ left, operator, right }: BinaryExpression | LogicalExpression): void {
    const other = swappedOperators[operator];
    if (other === undefined) return;
    // Between the operands there are only parentheses and space beside it.
    const from = rangeOf(left)[1];
    const at = text.slice(from, rangeOf(right)[0]).indexOf(operator) + from;
    change('operator', at, at + operator.length, other);
  }

  function negate(condition: Node): void {
    // These have a mutant of their own that does the same.
    if ('operator' in condition && /^(not|==|~=)$/.test(condition.operator)) return;
    replace('condition', condition, `not (${textOf(condition)})`);
  }

  function mutateResult(node: Node): void {
    if ('operator' in node && comparisons.has(node.operator))
      replace('returned value', node, `not (${textOf(node)})`);
    else if (/^(Identifier|IndexExpression|CallExpression|BinaryExpression)$/.test(node.type))
      replace('returned value', node, `(${textOf(node)}) + 1`);
  }

  function visit(node: unknown): void {
    if (Array.isArray(node)) node.forEach(visit);
    else if (isNode(node)) {
      mutate(node);
      Object.values(node).forEach(visit);
    }
  }

  visit(luaparse.parse(text, { ranges: true, luaVersion: '5.1' }).body);
  return [...found.values()].sort((a, b) => a.start - b.start || a.end - b.end);
}

/** The text of the mutant's file with its change. */
export const applied = (text: string, { start, end, to }: Mutant): string =>
  text.slice(0, start) + to + text.slice(end);

/** Where a node is: the types of luaparse do not tell that it may be asked to say so. */
const rangeOf = (node: Node) => (node as Node & { range: [number, number] }).range;

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value;
