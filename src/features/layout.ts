import type { Query } from '../contract/store.js';

/** The options of a Redis store that features read. */
export interface FeatureOptions {
  readonly prefix: string;
  /** Whether crossings of thresholds are appended to a stream. */
  readonly stream: boolean;
}

/** An argument of a script: its kind, and its value. A list has a number for each policy. */
interface Argument<From> {
  readonly kind: keyof typeof READERS;
  readonly of: (from: From, options: FeatureOptions) => string | number | readonly number[];
}

/** The arguments of a feature by the names of their variables in Lua, in their order. Both the sender and the script are made from it. */
export type Layout<From> = Readonly<Record<string, Argument<From>>>;

/** The Lua that reads an argument, by its kind, from ARGV[at] on. */
const READERS = {
  text: (name: string) => `local ${name} = ARGV[at]\nat = at + 1\n`,
  number: (name: string) => `local ${name} = ARGV[at] + 0\nat = at + 1\n`,
  list: (name: string) =>
    `local ${name} = { nil, nil }\nfor i = 1, count do ${name}[i] = ARGV[at + i - 1] + 0 end\nat = at + count\n`,
};

export function argsBy<From>(
  layout: Layout<From> | undefined,
  from: From,
  options: FeatureOptions,
): string[] {
  return Object.values(layout ?? {})
    .flatMap(({ of }) => of(from, options))
    .map(String);
}

export function readersOf(layout: Layout<never> | undefined): string {
  return Object.entries(layout ?? {})
    .map(([name, { kind }]) => READERS[kind](name))
    .join('');
}

/** The Lua of the positions of the arguments of requests: that of the first request. `request` counts from 0. */
export function requestReadersOf(layout: Layout<never> | undefined): string {
  return Object.keys(layout ?? {})
    .map((name) => `local ${name}_at = at\nat = at + requests\n`)
    .join('');
}

/** Appends the arguments of the requests of a call, by the name of the argument. */
export function pushRequestArgs(
  to: string[],
  layout: Layout<Query>,
  queries: readonly Query[],
  options: FeatureOptions,
): void {
  for (const { of } of Object.values(layout))
    for (const query of queries) to.push(String(of(query, options)));
}

export const text = <From>(of: Argument<From>['of']): Argument<From> => ({ kind: 'text', of });
export const number = <From>(of: Argument<From>['of']): Argument<From> => ({ kind: 'number', of });
export const list = <From>(of: Argument<From>['of']): Argument<From> => ({ kind: 'list', of });
