import { toMilliseconds } from '../duration.js';
import { ALGORITHMS, compilePolicies, type Algorithm, type Policy } from '../policy.js';
import { usageError, type CliError } from './errors.js';

/** What the grammar is said to be, in help and errors. */
export const POLICY_GRAMMAR =
  '[name=][algorithm ]limit/window [burst n] [segments n] [max-delay time] [attempts] [shadow]';

/** Options after the quota: the policy's field, what it takes. */
const WORDS: Readonly<
  Record<string, { field: string; takes: 'number' | 'time' | 'nothing'; value?: unknown }>
> = {
  burst: { field: 'burst', takes: 'number' },
  segments: { field: 'segments', takes: 'number' },
  'max-delay': { field: 'maxDelay', takes: 'time' },
  attempts: { field: 'count', takes: 'nothing', value: 'attempts' },
  shadow: { field: 'shadow', takes: 'nothing', value: true },
};

interface Token {
  readonly text: string;
  /** Where it begins, from 1. */
  readonly at: number;
}

/**
 * Reads policies as they are written on a command line: `100/1m`, `burst=token-bucket 20/1s burst 40`; or, in JSON, as they are
 * written in a program: one, or an array of them. A concurrency policy's window is its lease.
 *
 * @throws CliError `USAGE`: what is wrong, where, and what to write instead
 */
export function parsePolicies(texts: readonly string[], what = '--policy'): Policy[] {
  const policies = texts.flatMap((text) => (/^\s*[[{]/.test(text) ? parseJson(text) : [parsePolicy(text)]));
  compilePolicies(what, policies);
  return policies;
}

function parseJson(text: string): Policy[] {
  try {
    const value = JSON.parse(text) as Policy | Policy[];
    return Array.isArray(value) ? value : [value];
  } catch (error) {
    throw usageError(
      `--policy: the JSON cannot be read: ${(error as Error).message}. Write '{"limit":100,"window":"1m"}', or simply '100/1m'.`,
    );
  }
}

function parsePolicy(text: string): Policy {
  const tokens = tokensOf(text);
  const name = takeName(tokens);
  const algorithm = takeAlgorithm(text, tokens);
  const policy: Record<string, unknown> = { ...name, ...algorithm, ...takeQuota(text, tokens, algorithm) };
  for (let token = tokens.shift(); token; token = tokens.shift()) {
    const word = WORDS[token.text];
    if (!word) {
      throw problem(
        text,
        token,
        `is not known here. After the quota come: ${Object.keys(WORDS).join(', ')}.`,
      );
    }
    if (word.field in policy) throw problem(text, token, 'stands there twice. Write it once.');
    policy[word.field] = word.takes === 'nothing' ? word.value : takeValue(text, token, tokens, word.takes);
  }
  return policy as unknown as Policy;
}

/** Words; a slash between spaces belongs to both neighbours, and `burst=40` is `burst 40`. */
function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  for (const { 0: word, index } of text.matchAll(/\S+(\s*\/\s*\S+)?/g)) {
    tokens.push({ text: word.replace(/\s*\/\s*/, '/'), at: index + 1 });
  }
  return tokens.flatMap((token, i) => {
    const [, word, value] = /^([a-z-]+)=(.+)$/.exec(token.text) ?? [];
    if (i === 0 || word === undefined || value === undefined) return [token];
    return [
      { text: word, at: token.at },
      { text: value, at: token.at + word.length + 1 },
    ];
  });
}

function takeName(tokens: Token[]): { name?: string } {
  const first = tokens[0];
  const end = first ? first.text.indexOf('=') : -1;
  if (!first || end <= 0) return {};
  const rest = { text: first.text.slice(end + 1), at: first.at + end + 1 };
  if (rest.text === '') tokens.shift();
  else tokens[0] = rest;
  return { name: first.text.slice(0, end) };
}

function takeAlgorithm(text: string, tokens: Token[]): { algorithm?: Algorithm } {
  const first = tokens[0];
  if (!first || !/^[a-z]/i.test(first.text)) return {};
  const algorithm = ALGORITHMS.find((known) => known === first.text.toLowerCase().replaceAll('_', '-'));
  if (!algorithm) {
    throw problem(
      text,
      first,
      `is not an algorithm. Write one of ${ALGORITHMS.join(', ')}; or none: sliding-window.`,
    );
  }
  tokens.shift();
  return { algorithm };
}

function takeQuota(
  text: string,
  tokens: Token[],
  { algorithm }: { algorithm?: Algorithm },
): Record<string, unknown> {
  const token = tokens.shift();
  if (!token) {
    throw usageError(`--policy ${JSON.stringify(text)}: the quota is missing: ${example()}`);
  }
  const [limit = '', window, ...more] = token.text.split('/');
  if (window === undefined || more.length > 0) {
    throw problem(text, token, `is not a quota. Write the limit, a slash and the window: ${example()}`);
  }
  const span = algorithm === 'concurrency' ? 'lease' : 'window';
  const windowAt = { text: window, at: token.at + token.text.length - window.length };
  return { limit: numberOf(text, { text: limit, at: token.at }), [span]: timeOf(text, windowAt) };
}

function takeValue(text: string, word: Token, tokens: Token[], takes: 'number' | 'time'): unknown {
  const token = tokens.shift();
  if (!token) {
    const right = takes === 'number' ? `${word.text} 40` : `${word.text} 2s`;
    throw problem(text, word, `needs a value: '${right}'.`);
  }
  return takes === 'number' ? numberOf(text, token) : timeOf(text, token);
}

/** Digits, with `_` or `,` between them for the eye. */
function numberOf(text: string, token: Token): number {
  if (!/^\d+([_,]\d+)*$/.test(token.text)) {
    throw problem(text, token, `is not a whole number: ${example()}`);
  }
  return Number(token.text.replace(/[_,]/g, ''));
}

function timeOf(text: string, token: Token): string {
  const bare = /^[a-z]+$/i.test(token.text) ? `1${token.text}` : token.text;
  try {
    if (/^\d+$/.test(token.text)) throw new Error('no unit');
    toMilliseconds('window', bare, 0);
    return bare;
  } catch {
    throw problem(
      text,
      token,
      "is not a length of time. Write a number with a unit: '500ms', '10s', '15m', '1h', '30d'.",
    );
  }
}

function problem(text: string, token: Token, what: string): CliError {
  return usageError(
    `--policy ${JSON.stringify(text)}, at character ${token.at}: ${JSON.stringify(token.text)} ${what}`,
  );
}

function example(): string {
  return "'100/1m', 'burst=token-bucket 20/1s burst 40'.";
}
