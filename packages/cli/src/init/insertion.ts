// The change of a file to which lines are only added.
import { usageError } from '../errors.js';
import type { Framework } from './frameworks.js';

/** Lines that come behind a line of the file. */
interface Insertion {
  /** The number of lines before. */
  readonly after: number;
  readonly lines: readonly string[];
}

const IMPORT =
  /^import\b[^;=]*?from ['"][^'"\n]+['"];?$|^import ['"][^'"\n]+['"];?$|^import \w+ = require\([^\n]*\);?$/gm;
const REQUIRE = /^(?:const|let|var) [^=;]+ = require\([^\n]*\);?$/gm;
const COMMENT = /^[ \t]*(?:\/\*[^]*?\*\/|\/\/.*$)/gm;
/** The lines that only the beginning of a file may have: `#!`, and directives such as 'use strict'. */
const BEGINNING = /^#!.*\n|^\s*(['"])use [a-z]+\1;?[ \t]*(?:\n|$)/;
const CONTEXT = 3;

/** The text with spaces in place of comments, which may contain code. */
const withoutComments = (text: string): string =>
  text.replace(COMMENT, (comment) => comment.replace(/[^\n]/g, ' '));

/** The number of lines that stay first. */
function beginningOf(text: string): number {
  let rest = text;
  for (let found = BEGINNING.exec(rest); found; found = BEGINNING.exec(rest))
    rest = rest.slice(found[0].length);
  return text.slice(0, text.length - rest.length).split('\n').length - 1;
}

/** The number of lines up to the end of the last match. */
function linesUntil(text: string, pattern: RegExp): number {
  const last = [...text.matchAll(pattern)].at(-1);
  return last ? text.slice(0, last.index + last[0].length).split('\n').length : 0;
}

/** Whether the line is in an async function, by the nearest line before it that is less indented. */
function isInAsync(lines: readonly string[], index: number, indent: string): boolean {
  const outer = lines.slice(0, index).findLast((line) => line.trim() !== '' && !line.startsWith(indent));
  return outer !== undefined && /\basync\b/.test(outer);
}

/** @throws CliError `USAGE` if the lines have no place in the text */
export function insertionsOf(file: string, text: string, framework: Framework, policy: string): Insertion[] {
  const { title, creation, name, path, isAwaited, call } = framework;
  const code = withoutComments(text);
  const found = creation.exec(code);
  if (!found)
    throw usageError(
      `${file}: no line makes an application of ${title}, such as 'const app = ${title.toLowerCase()}()'. Pass another file.`,
    );
  const [line, indent = '', app = 'app'] = found;
  const lines = text.split('\n');
  const at = text.slice(0, found.index + line.length).split('\n').length;
  const isModule = linesUntil(code, IMPORT) > 0;
  const semicolon = line.endsWith(';') ? ';' : '';
  if (isAwaited && !(indent === '' ? isModule : isInAsync(lines, at - 1, indent)))
    throw usageError(
      `${file}: ${title} must have loaded the plugin before routes are declared, which needs 'await'. Make the application in an async function, or in an ES module.`,
    );
  const start = linesUntil(code, isModule ? IMPORT : REQUIRE);
  // Modules that are loaded by a statement of several lines are not found, so the line comes behind them, before the application.
  const isOdd = start === 0 && code.slice(0, found.index).includes('require(');
  const first = isOdd ? at - 1 : Math.max(start, beginningOf(code));
  const source = isModule ? `import { ${name} } from '${path}'` : `const { ${name} } = require('${path}')`;
  return [
    { after: Math.min(first, at - 1), lines: [source + semicolon] },
    {
      after: at,
      lines: ['', ...call(app, policy).map((each) => indent + (semicolon ? each : each.replace(/;$/, '')))],
    },
  ];
}

export function inserted(text: string, insertions: readonly Insertion[]): string {
  const lines = text.split('\n');
  for (const { after, lines: added } of insertions.toReversed()) lines.splice(after, 0, ...added);
  return lines.join('\n');
}

/** The difference in the format that `git apply` reads, in one part, because the lines are near each other. */
export function differenceOf(file: string, text: string, insertions: readonly Insertion[]): string {
  const old = text.split('\n');
  const places = insertions.map(({ after }) => after);
  const from = Math.max(0, Math.min(...places) - CONTEXT);
  // The text behind the last newline is not a line.
  const to = Math.min(old.length - (old.at(-1) === '' ? 1 : 0), Math.max(...places) + CONTEXT);
  const addedAt = (after: number): string[] =>
    insertions.flatMap((each) => (each.after === after ? each.lines : [])).map((line) => `+${line}`);
  const lines = [...addedAt(from)];
  for (let i = from; i < to; i++) lines.push(` ${old[i]}`, ...addedAt(i + 1));
  const added = lines.filter((line) => line.startsWith('+')).length;
  const range = `@@ -${from + 1},${to - from} +${from + 1},${to - from + added} @@`;
  return [`--- a/${file}`, `+++ b/${file}`, range, ...lines, ''].join('\n');
}
