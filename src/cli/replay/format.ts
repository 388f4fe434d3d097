import { count, printable } from '../format.js';
import type { ClientResult } from './replay.js';

/** A share in percent. It is never rounded to none or all. */
export function share(part: number, whole: number): string {
  if (part === 0) return '0 %';
  if (part === whole) return '100 %';
  const percent = (100 * part) / whole;
  if (percent < 0.01) return '< 0.01 %';
  const text = percent.toPrecision(percent < 1 ? 1 : percent < 99 ? 2 : 4);
  return percent > 99.99 ? '> 99.99 %' : `${Number(text)} %`;
}

/** For example `2026-10-05 06:00:00`, in UTC, with milliseconds if there are any. */
export function moment(time: number | undefined): string {
  if (time === undefined) return '-';
  return new Date(time)
    .toISOString()
    .replace('T', ' ')
    .replace('Z', '')
    .replace(/\.000$/, '');
}

/**
 * A row of the table of the clients denied most.
 *
 * @param longest how many characters of the key are shown
 * @param since shows when the longest streak began
 */
export function cellsOf(client: ClientResult, longest: number, since: (time: number) => string): string[] {
  return [
    printable(client.key, longest),
    count(client.requests),
    count(client.denied),
    share(client.denied, client.requests),
    moment(client.first),
    moment(client.last),
    `${count(client.streak)} from ${since(client.streakAt)}`,
    client.policies.join(', '),
  ];
}
