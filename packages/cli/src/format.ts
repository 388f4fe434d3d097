import stringWidth from 'string-width';
import { printable as escaped, shortText } from 'headgate/admin';
import { write, writeJsonLine, type Io } from './io.js';

/** A duration for people. */
export { shortText as duration };

/** `1234567` as `1,234,567`. */
export const count = (n: number): string => n.toLocaleString('en-US');

/** `1 client`, `2 clients`, `2 processes`. */
export const many = (n: number, thing: string): string =>
  `${count(n)} ${thing}${n === 1 ? '' : thing.endsWith('s') ? 'es' : 's'}`;

/** The end of a denial for which a slot is missing. @param ms the time until a lease ends, unless its process renews it */
export const untilSlot = (ms: number | null): string =>
  `until a slot is returned${ms === null ? '' : `, in ${shortText(ms)} at the latest if its process died`}`;

/** Makes a user's text safe for a terminal: one line of at most `longest` characters. An empty text becomes two quotes. */
export function printable(text: string, longest = 60): string {
  if (text === '') return "''";
  const safe = escaped(text);
  const characters = [...safe];
  return characters.length > longest ? `${characters.slice(0, longest - 1).join('')}…` : safe;
}

/** The author and the reason of a change by hand, as far as they are known. */
export const noteText = (by: string | null, reason: string | null): string =>
  [by, reason].flatMap((text) => (text === null ? [] : [printable(text)])).join(': ');

/** Columns without borders, which are easy to cut and search. The text ends with a line feed. */
export function columns(
  { colors }: Io,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const lines = [head.map((title) => colors.dim(title)), ...rows];
  const widths = head.map((_, i) => lines.reduce((most, line) => Math.max(most, stringWidth(line[i]!)), 0));
  const padded = (cell: string, i: number): string => cell + ' '.repeat(widths[i]! + 2 - stringWidth(cell));
  return lines.map((line) => `${line.map(padded).join('').trimEnd()}\n`).join('');
}

/** The beginning of a line that fits into a number of columns. Colours and wide characters count as a terminal shows them. */
export function cut(line: string, width: number): string {
  if (stringWidth(line) <= width) return line;
  let kept = '';
  // eslint-disable-next-line no-control-regex -- escape sequences have no width
  for (const part of line.match(/\u001b\[[\d;]*m|./gsu) ?? []) {
    if (!part.startsWith('\u001b') && stringWidth(kept + part) > width - 1) continue;
    kept += part;
  }
  return `${kept}…`;
}

/** The columns of a table: the cell of a row, by the title. */
export type Table<T> = Readonly<Record<string, (row: T) => string>>;

export function table<T>(io: Io, of: Table<T>, rows: readonly T[]): string {
  const cells = Object.values(of);
  return columns(
    io,
    Object.keys(of),
    rows.map((row) => cells.map((cell) => cell(row))),
  );
}

/** A list of items: lines of JSON for programs; for people a table, or a sentence if the list is empty. */
export interface Listing<T> {
  readonly json: (item: T) => object;
  readonly table: Table<T>;
  readonly none: string;
}

export async function writeListing<T>(
  io: Io,
  most: number,
  items: AsyncIterable<T>,
  { json, table: of, none }: Listing<T>,
): Promise<void> {
  const rows: T[] = [];
  let told = 0;
  for await (const item of items) {
    if (told++ === most) break;
    if (io.json) await writeJsonLine(io, json(item));
    else rows.push(item);
  }
  if (!io.json) await write(io, rows.length === 0 ? `${none}\n` : table(io, of, rows));
}

/** Quotes a word for a shell. */
export const quoted = (word: string): string =>
  /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** A share in percent. Rounding never gives 0 % or 100 %. */
export function share(part: number, whole: number): string {
  if (part === 0) return '0 %';
  if (part === whole) return '100 %';
  const percent = (100 * part) / whole;
  if (percent < 0.01) return '< 0.01 %';
  const text = percent.toPrecision(percent < 1 ? 1 : percent < 99 ? 2 : 4);
  return percent > 99.99 ? '> 99.99 %' : `${Number(text)} %`;
}
