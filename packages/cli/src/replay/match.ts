import { usageError } from '../errors.js';
import type { LoggedRequest } from './logged-request.js';

/** The parts of a request by which a filter may select. */
export type MatchedPart = 'path' | 'method' | 'status';

/** Selects the requests that count. */
export interface Match {
  readonly parts: readonly MatchedPart[];
  matches(request: LoggedRequest): boolean;
}

/** The kinds of words, and a test of the part that they select by. */
const WORDS: readonly (readonly [RegExp, MatchedPart, (word: string, part: string) => boolean])[] = [
  [/^\//, 'path', (word, path) => path.startsWith(word)],
  [/^[a-z]+$/i, 'method', (word, method) => method === word.toUpperCase()],
  [/^\d\d\d$/, 'status', (word, status) => status === word],
  [/^\dxx$/i, 'status', (word, status) => /^\d\d\d$/.test(status) && status[0] === word[0]],
];

/**
 * Reads a filter: any number of paths by prefix (`/api`), methods (`POST`) and statuses (`404`, `5xx`), separated by spaces or commas. A
 * `!` before a word excludes it. Of each kind, one word must match.
 *
 * @throws CliError `USAGE`
 */
export function parseMatch(texts: readonly string[]): Match | undefined {
  const words = texts.flatMap((text) => text.split(/[\s,]+/)).filter((word) => word !== '');
  if (words.length === 0) return undefined;
  const tests = words.map(parseWord);
  const parts = [...new Set(tests.map(({ part }) => part))];
  const wanted = parts
    .map((part) => tests.filter((test) => test.part === part && !test.not))
    .filter((any) => any.length > 0);
  const unwanted = tests.filter(({ not }) => not);
  return {
    parts,
    matches: (request) =>
      wanted.every((any) => any.some(({ matches }) => matches(request))) &&
      !unwanted.some(({ matches }) => matches(request)),
  };
}

function parseWord(text: string): { part: MatchedPart; not: boolean; matches: Match['matches'] } {
  const not = text.startsWith('!');
  const word = not ? text.slice(1) : text;
  const [, part, test] = WORDS.find(([kind]) => kind.test(word)) ?? [];
  if (part === undefined) {
    throw usageError(
      `--match: ${JSON.stringify(word)} is not a path, a method or a status. Pass for example '/api', 'POST', '5xx', or '!/health'.`,
    );
  }
  const matches = (request: LoggedRequest): boolean => {
    const found = request.part(part);
    return found !== undefined && test!(word, found);
  };
  return { part, not, matches };
}

export function statusOf(request: LoggedRequest): number | undefined {
  const text = request.part('status');
  const status = Number(text);
  return text !== undefined && Number.isInteger(status) ? status : undefined;
}
