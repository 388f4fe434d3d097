import { policyText } from 'headgate';
import { count, duration, many, printable, share } from '../format.js';
import type { Io } from '../io.js';
import { REORDER, type LogSummary } from './log-file.js';
import type { ClientResult, ReplayResult, Results } from './replay.js';

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

const POLICY_HEAD = 'policy, limit, denied, of requests, clients, of clients, first (UTC), last (UTC)';

export function policyTable({ policies, requests }: ReplayResult): [head: string[], rows: string[][]] {
  const rows = policies.map((each) => {
    const { name: _, ...policy } = each.policy;
    return [
      policy.shadow ? `${each.name} (would have)` : each.name,
      policyText(policy),
      count(each.denied),
      share(each.denied, requests),
      count(each.clients),
      share(each.clients, each.of),
      moment(each.first),
      moment(each.last),
    ];
  });
  return [POLICY_HEAD.split(', '), rows];
}

/** The facts about the logs that do not depend on the policies. */
export interface Found {
  readonly requests: number;
  readonly clients: number;
  readonly busiest: { readonly key: string; readonly value: number };
  readonly first: number;
  readonly last: number;
}

/** A log with fewer requests is hardly more than a test. */
const FEW = 10;

/** The signs that logs were not read as they were meant, one line each. */
export const doubtsOf = (logs: readonly LogSummary[]): string[] =>
  logs.flatMap(({ name, notes }) => notes.map((note) => `${printable(name)}: ${printable(note, 400)}.`));

export function logNotes(logs: readonly LogSummary[], found: Found): string[] {
  const notes: string[] = [];
  for (const { name, lines, requests, joined, skipped, malformed, samples, late, warning } of logs) {
    const parts = [many(lines, 'line'), many(requests, 'request')];
    if (joined > 0) parts.push(`${count(joined)} joined to another line of their request`);
    if (skipped > 0) parts.push(`${count(skipped)} skipped (no request, no key, or not matched)`);
    parts.push(
      malformed > 0 ? `${count(malformed)} malformed (${share(malformed, lines)})` : 'none malformed',
    );
    notes.push(`${printable(name)}: ${parts.join(', ')}`);
    for (const { line, problem, text } of samples) {
      notes.push(`  line ${count(line)}: ${printable(problem, 160)}: ${printable(text, 70)}`);
    }
    if (late > 0) {
      notes.push(
        `  ${many(late, 'line')} came more than ${count(REORDER)} lines late; counted at the time of the line before`,
      );
    }
    if (warning !== undefined) notes.push(`  ${warning}`);
  }
  return [...notes, ...requestNotes(found)];
}

export function requestNotes({ requests, busiest, first, last }: Found): string[] {
  const notes: string[] = [];
  if (last > first && first % 1000 === 0 && last % 1000 === 0) {
    notes.push(
      'The log has whole seconds, so all requests of a second count at once, and windows of a few seconds look fuller than they were.',
    );
  }
  if (requests >= FEW && busiest.value > requests / 2) {
    notes.push(
      `${printable(busiest.key)} sent ${share(busiest.value, requests)} of the requests. If this client is your proxy, log the ` +
        'addresses of its clients, or pass another --key.',
    );
  }
  return notes;
}

export const replayNotes = (results: Results): string[] => [...doubtsOf(results.logs), ...notesOf(results)];

/** The notes on a replay: on policies that are not replayed, then on the logs. */
export function notesOf({ result, logs, left, compared }: Results): string[] {
  const all = [...left, ...(compared?.left ?? [])];
  const notes = all.map(
    (policy) =>
      `${printable(policy)} is not replayed, because an access log lacks the duration of each request`,
  );
  return [...notes, ...logNotes(logs, result)];
}

/** The times at which the logs begin and end. */
export const spanText = ({ first, last }: Pick<Found, 'first' | 'last'>): string =>
  `${moment(first)} to ${moment(last)} UTC, ${duration(Math.max(1, last - first))}`;

/** The numbers of requests and clients, and the time span, for a terminal. */
export const foundText = (found: Found, { bold }: Io['colors']): string =>
  `${bold(many(found.requests, 'request'))} of ${bold(many(found.clients, 'client'))}, ${spanText(found)}`;
