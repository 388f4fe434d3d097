import { usageError } from '../errors.js';
import type { LoggedRequest } from './logged-request.js';

/** The parts of a request by which a filter may select. */
export type MatchedPart = 'path' | 'method' | 'status';

/** Selects the requests that count. */
export interface Match {
  readonly parts: ReadonlySet<MatchedPart>;
  matches(request: LoggedRequest): boolean;
}

type Matches = Match['matches'];

/**
 * Reads a filter: any number of paths by prefix (`/api`), methods (`POST`) and statuses (`404`, `5xx`), separated by spaces or commas. A
 * `!` before a word excludes it. Of each kind, one word must match.
 *
 * @throws CliError `USAGE`
 */
export function parseMatch(texts: readonly string[]): Match | undefined {
  const words = texts.flatMap((text) => text.split(/[\s,]+/)).filter((word) => word !== '');
  if (words.length === 0) return undefined;
  const wanted: Matches[] = [];
  const byPart = new Map<MatchedPart, Matches[]>();
  const parts = new Set<MatchedPart>();
  for (const word of words) {
    const not = word.startsWith('!');
    const { part, matches } = parseWord(not ? word.slice(1) : word);
    parts.add(part);
    if (not) wanted.push((request) => !matches(request));
    else byPart.set(part, [...(byPart.get(part) ?? []), matches]);
  }
  for (const any of byPart.values()) wanted.push((request) => any.some((matches) => matches(request)));
  return { parts, matches: (request) => wanted.every((matches) => matches(request)) };
}

function parseWord(word: string): { part: MatchedPart; matches: Matches } {
  if (word.startsWith('/'))
    return { part: 'path', matches: (request) => request.part('path')?.startsWith(word) ?? false };
  if (/^[a-z]+$/i.test(word)) {
    const method = word.toUpperCase();
    return { part: 'method', matches: (request) => request.part('method') === method };
  }
  if (/^\d\d\d$/.test(word))
    return { part: 'status', matches: (request) => statusOf(request) === Number(word) };
  if (/^\dxx$/i.test(word)) {
    const first = Number(word[0]);
    return { part: 'status', matches: (request) => Math.floor((statusOf(request) ?? NaN) / 100) === first };
  }
  throw usageError(
    `--match: ${JSON.stringify(word)} is not a path, a method or a status. Write for example '/api', 'POST', '5xx', or '!/health'.`,
  );
}

export function statusOf(request: LoggedRequest): number | undefined {
  const text = request.part('status');
  const status = Number(text);
  return text !== undefined && Number.isInteger(status) ? status : undefined;
}
