// The mutants of a Lua file: the same kinds of change that Stryker makes in TypeScript, because Stryker does not know Lua.
import luaparse, { type BinaryExpression, type LogicalExpression, type Node } from 'luaparse';

/** A change of a file. */
export interface Mutant {
  /** The path of the file from the root. */
  readonly file: string;
  /** The line of the replaced text, counted from 1. */
  readonly line: number;
  /** The kind of change. */
  readonly operator: string;
  /** The offset of the replaced text. */
  readonly start: number;
  readonly end: number;
  /** The replacement. */
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

/** The mutants of a file, in the order of the text. */
export function mutateLua(file: string, text: string): Mutant[] {
  // Two operators may produce the same change.
  const mutants = new Map<string, Mutant>();
  const change = (operator: string, start: number, end: number, to: string): void => {
    const line = text.slice(0, start).split('\n').length;
    mutants.set(`${start} ${end} ${to}`, { file, line, operator, start, end, to });
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
        // The tree has no parentheses, and an operand that had some may still need them.
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
        const swapped = swappedFunctions[node.identifier.name];
        if (swapped && textOf(node.base) === 'math') replace('method', node.identifier, swapped);
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
    const swapped = swappedOperators[operator];
    if (swapped === undefined) return;
    // There are only parentheses and spaces beside the operator.
    const from = rangeOf(left)[1];
    const at = text.slice(from, rangeOf(right)[0]).indexOf(operator) + from;
    change('operator', at, at + operator.length, swapped);
  }

  function negate(condition: Node): void {
    // Conditions with these operators have a mutant of the operator, which does the same.
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

  let start = 0;
  for (const section of text.split(/^(?=--- section )/m)) {
    const named = section.startsWith('--- section ') ? section.indexOf('\n') : 0;
    // A named section may leave a loop of the file that includes it. The loop around it takes the place of the line with its name.
    const opening = named > 0 ? 'repeat ' : '';
    const closing = named > 0 ? ' until true' : '';
    const code = opening.padStart(start + named) + section.slice(named) + closing;
    const { body } = luaparse.parse(code, { ranges: true, luaVersion: '5.1' });
    visit(named > 0 ? (body[0] as luaparse.RepeatStatement).body : body);
    start += section.length;
  }
  return [...mutants.values()].sort((a, b) => a.start - b.start || a.end - b.end);
}

/** The text of the mutant's file with its change. */
export const applied = (text: string, { start, end, to }: Mutant): string =>
  text.slice(0, start) + to + text.slice(end);

/** The range of a node, which the types of luaparse do not include. */
const rangeOf = (node: Node) => (node as Node & { range: [number, number] }).range;

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value;
