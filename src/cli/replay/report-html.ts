import { printableJson, printableLines } from '../../common/printable.js';
import type { Tally } from './denied.js';
import { count } from '../format.js';
import { share } from './format.js';

// Texts of a log may come from anyone, so they must never become markup.
export const escape = (text: string): string =>
  printableLines(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

/** JSON that cannot end the script that contains it. */
export const jsonInHtml = (value: unknown): string =>
  printableJson(JSON.stringify(value)).replaceAll('<', '\\u003c');

export function figure(value: string, label: string, bad = false): string {
  return `<div><b${bad ? ' class="out"' : ''}>${value}</b>${label}</div>`;
}

const NUMBER = /^([<>] )?[\d,]+(\.\d+)?( %)?$/;

/** A table. The page makes it sortable, and offers its rows as CSV under this name. */
export function table(name: string, head: readonly string[], rows: readonly (readonly string[])[]): string {
  const numeric = head.map((_, i) => rows.every((row) => NUMBER.test(row[i]!)));
  const line = (cells: readonly string[], cell: (text: string, attributes: string) => string): string => {
    const all = cells.map((text, i) => cell(escape(text), numeric[i] ? ' class="number"' : ''));
    return `<tr>${all.join('')}</tr>`;
  };
  const heads = line(head, (text, attributes) => `<th scope="col"${attributes}>${text}</th>`);
  const body = rows.map((row) => line(row, (text, attributes) => `<td${attributes}>${text}</td>`));
  return `<div class="scroll"><table data-name="${escape(name)}"><thead>${heads}</thead><tbody>
${body.join('\n')}
</tbody></table></div>`;
}

/** One bar per row: its label, its value, and whether it is bad. */
export function bars(rows: readonly (readonly [label: string, value: number, bad: boolean])[]): string {
  const most = Math.max(1, ...rows.map(([, value]) => value));
  const lines = rows.map(([label, value, bad]) => {
    const filled = value === 0 ? '' : `<i style="width: ${((100 * value) / most).toFixed(2)}%"></i>`;
    const bar = `<span class="bar${bad ? ' bad' : ''}">${filled}</span>`;
    return `<span class="label">${escape(label)}</span>${bar}<span>${count(value)}</span>`;
  });
  return `<div class="bars">${lines.join('\n')}</div>`;
}

/** Bars for how often each name occurred. */
export function tallyBars({ rows, others }: Tally, of: number): string {
  const named = rows.map(([name, times]) => [`${name} (${share(times, of)})`, times, true] as const);
  return bars(others > 0 ? [...named, [`others (${share(others, of)})`, others, true]] : named);
}

/** A plot of the page. The label is for readers who cannot see it. */
export function plot(id: string, label: string): string {
  return `<div id="${id}" class="plot" role="img" aria-label="${escape(label)}"></div>`;
}
