import { usageError } from '../errors.js';
import type { LoggedRequest } from './request.js';

/** Whether a request counts. */
export type Match = (request: LoggedRequest) => boolean;

/**
 * Reads a filter: any number of paths by prefix (`/api`), methods (`POST`) and statuses (`404`, `5xx`), separated by spaces or commas. A
 * `!` before a word excludes it. Of each kind, one word must match.
 *
 * @throws CliError `USAGE`
 */
export function parseMatch(texts: readonly string[]): Match | undefined {
  const words = texts.flatMap((text) => text.split(/[\s,]+/)).filter((word) => word !== '');
  if (words.length === 0) return undefined;
  const wanted: Match[] = [];
  const kinds = new Map<string, Match[]>();
  for (const word of words) {
    const not = word.startsWith('!');
    const { kind, matches } = parseWord(not ? word.slice(1) : word);
    if (not) wanted.push((request) => !matches(request));
    else kinds.set(kind, [...(kinds.get(kind) ?? []), matches]);
  }
  for (const any of kinds.values()) wanted.push((request) => any.some((matches) => matches(request)));
  return (request) => wanted.every((matches) => matches(request));
}

function parseWord(word: string): { kind: string; matches: Match } {
  if (word.startsWith('/'))
    return { kind: 'path', matches: ({ path }) => path !== undefined && path.startsWith(word) };
  if (/^[a-z]+$/i.test(word)) {
    const method = word.toUpperCase();
    return { kind: 'method', matches: (request) => request.method === method };
  }
  if (/^\d\d\d$/.test(word)) return { kind: 'status', matches: ({ status }) => status === Number(word) };
  if (/^\dxx$/i.test(word)) {
    const first = Number(word[0]);
    return {
      kind: 'status',
      matches: ({ status }) => status !== undefined && Math.floor(status / 100) === first,
    };
  }
  throw usageError(
    `--match: ${JSON.stringify(word)} is not a path, a method or a status. Write for example '/api', 'POST', '5xx', or '!/health'.`,
  );
}
