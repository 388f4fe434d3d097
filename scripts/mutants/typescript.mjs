// The mutants of a TypeScript file: each is one small change of what it does. What changes only types or wording is left out.
import ts from 'typescript';
import { changesOf } from './changes.mjs';

/** @typedef {import('./changes.mjs').Mutant} Mutant */

/** @type {Readonly<Record<string, string>>} */
const swappedOperators = {
  ...{ '<': '<=', '<=': '<', '>': '>=', '>=': '>' },
  ...{ '===': '!==', '!==': '===', '==': '!=', '!=': '==' },
  ...{ '+': '-', '-': '+', '*': '/', '/': '*', '%': '*', '**': '*' },
  ...{ '&': '|', '|': '&', '^': '&', '<<': '>>', '>>': '<<', '>>>': '<<' },
  ...{ '+=': '-=', '-=': '+=', '*=': '/=', '/=': '*=', '|=': '&=', '&=': '|=', '<<=': '>>=', '>>=': '<<=' },
  ...{ '??=': '=', '||=': '=', '&&=': '=', '&&': '||', '||': '&&' },
};

/** @type {Readonly<Record<string, string>>} */
const swappedMethods = {
  ...{ min: 'max', max: 'min', floor: 'ceil', ceil: 'floor', round: 'floor', trunc: 'ceil' },
  ...{ some: 'every', every: 'some', startsWith: 'endsWith', endsWith: 'startsWith' },
  ...{ push: 'unshift', unshift: 'push', shift: 'pop', pop: 'shift', indexOf: 'lastIndexOf' },
  ...{ toLowerCase: 'toUpperCase', toUpperCase: 'toLowerCase' },
};

const logical = new Set(['&&', '||', '??']);
const equalities = new Set(['===', '!==', '==', '!=']);

/**
 * @param {string} file its path from the root
 * @param {string} text
 * @returns {Mutant[]} in the order of the text
 */
export function mutateTypeScript(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const { mutants, change } = changesOf(file, text);

  /**
   * @param {string} operator
   * @param {ts.Node} node
   * @param {string} replacement
   */
  const replace = (operator, node, replacement) =>
    change(operator, node.getStart(source), node.getEnd(), replacement);
  /** @param {ts.Node} node */
  const textOf = (node) => node.getText(source);

  /** @param {ts.Node} node */
  function visit(node) {
    if (ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return;
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return;
    visitExpression(node);
    visitStatement(node);
    ts.forEachChild(node, visit);
  }

  /** @param {ts.Node} node */
  function visitExpression(node) {
    if (ts.isBinaryExpression(node)) visitBinary(node);
    else if (ts.isPrefixUnaryExpression(node)) visitPrefix(node);
    else if (ts.isPostfixUnaryExpression(node))
      replace('update', node, `${textOf(node.operand)}${textOf(node).endsWith('++') ? '--' : '++'}`);
    else if (ts.isNumericLiteral(node) || ts.isBigIntLiteral(node)) visitNumber(node);
    else if (node.kind === ts.SyntaxKind.TrueKeyword) replace('boolean', node, 'false');
    else if (node.kind === ts.SyntaxKind.FalseKeyword) replace('boolean', node, 'true');
    else if (ts.isConditionalExpression(node)) negate(node.condition);
    else if (ts.isAwaitExpression(node)) replace('await', node, textOf(node.expression));
    else if (ts.isVoidExpression(node)) replace('removed call', node, 'undefined');
    else if (ts.isArrowFunction(node) && !ts.isBlock(node.body)) visitResult(node.body);
    else if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const { name } = node.expression;
      const other = Object.hasOwn(swappedMethods, name.text) ? swappedMethods[name.text] : undefined;
      if (other) replace('method', name, other);
    }
  }

  /** @param {ts.BinaryExpression} node */
  function visitBinary({ left, operatorToken, right, parent }) {
    const operator = textOf(operatorToken);
    const other = swappedOperators[operator];
    if (other) replace('operator', operatorToken, other);
    if (!logical.has(operator)) return;
    replace('operand', operatorToken.parent, textOf(left));
    replace('operand', operatorToken.parent, bare(right, parent));
  }

  /**
   * What takes a logical expression's place, in parentheses where it may begin a statement or hold a weaker operator.
   * @param {ts.Expression} node
   * @param {ts.Node} parent
   */
  function bare(node, parent) {
    return ts.isBinaryExpression(parent) && ts.isBinaryExpression(node) ? `(${textOf(node)})` : textOf(node);
  }

  /** @param {ts.PrefixUnaryExpression} node */
  function visitPrefix(node) {
    const { operator, operand } = node;
    if (operator === ts.SyntaxKind.ExclamationToken) replace('negation', node, textOf(operand));
    else if (operator === ts.SyntaxKind.MinusToken) replace('sign', node, textOf(operand));
    else if (operator === ts.SyntaxKind.TildeToken) replace('sign', node, textOf(operand));
    else if (operator === ts.SyntaxKind.PlusPlusToken) replace('update', node, `--${textOf(operand)}`);
    else if (operator === ts.SyntaxKind.MinusMinusToken) replace('update', node, `++${textOf(operand)}`);
  }

  /** @param {ts.NumericLiteral | ts.BigIntLiteral} node */
  function visitNumber(node) {
    // The name of a property, not a number that is computed with.
    if (ts.isPropertyAssignment(node.parent) && node.parent.name === node) return;
    const big = ts.isBigIntLiteral(node);
    const value = big ? BigInt(node.text.slice(0, -1)) : Number(node.text);
    for (const next of typeof value === 'bigint' ? [value + 1n, value - 1n] : [value + 1, value - 1]) {
      const written = `${next}${big ? 'n' : ''}`;
      replace('constant', node, next < 0 ? `(${written})` : written);
    }
  }

  /** @param {ts.Expression} condition */
  function negate(condition) {
    // These have a mutant of their own that does the same.
    if (ts.isPrefixUnaryExpression(condition)) return;
    if (ts.isBinaryExpression(condition) && equalities.has(textOf(condition.operatorToken))) return;
    replace('condition', condition, `!(${textOf(condition)})`);
  }

  /**
   * What a function returns.
   * @param {ts.Expression} node
   */
  function visitResult(node) {
    // Literals have mutants of their own.
    if (ts.isLiteralExpression(node) || /^(true|false|undefined|null)$/.test(textOf(node))) return;
    if (!ts.isPrefixUnaryExpression(node)) replace('returned value', node, `!(${textOf(node)})`);
    replace('returned value', node, `(${textOf(node)}) + 1`);
    replace('returned value', node, 'undefined');
  }

  /** @param {ts.Node} node */
  function visitStatement(node) {
    if (ts.isIfStatement(node) || ts.isWhileStatement(node) || ts.isDoStatement(node))
      negate(node.expression);
    if (ts.isForStatement(node) && node.condition) negate(node.condition);
    if (ts.isReturnStatement(node) && node.expression) visitResult(node.expression);
    const isGuard = ts.isIfStatement(node) && !node.elseStatement;
    const isLeaf =
      ts.isExpressionStatement(node) ||
      ts.isThrowStatement(node) ||
      ts.isBreakOrContinueStatement(node) ||
      (ts.isReturnStatement(node) && !node.expression);
    // Every constructor of a subclass has to call super: that mutant says nothing.
    if ((isGuard || isLeaf) && !textOf(node).startsWith('super(')) replace('removed statement', node, '{}');
  }

  visit(source);
  return mutants();
}
