// Changes of all keys of a network in several limiters.
import { HeadgateError } from 'headgate';
import { checkKey, dimensionsOfPolicies, type Admin, type KeyOptions, withoutPage } from 'headgate/admin';
import { usageError } from './errors.js';
import { printable } from './format.js';
import type { Warning } from './io.js';

/** Whether a typed text is a network, which stands for several keys, rather than a single address. */
export const isNetwork = (given: string, options: KeyOptions): boolean =>
  typeof checkKey(given, options).entry !== 'string' && given.includes('/');

/** The names of the published limiters that count by a dimension, and the other dimensions of all. @throws CliError `USAGE` if none is published */
export async function limitersBy(
  admin: Admin,
  dimension: string,
): Promise<{ readonly names: readonly string[]; readonly others: readonly string[] }> {
  const { limiters } = await admin.limiters();
  if (limiters.length === 0)
    throw usageError('--all-limiters: no limiter is published. Pass --name with the name of the limiter.');
  const all = limiters.map(({ name, configurations }) => {
    return { name, dimensions: dimensionsOfPolicies(configurations) };
  });
  const own = all.filter(({ dimensions }) => dimensions?.has(dimension) ?? true);
  const others = new Set(all.flatMap(({ dimensions }) => [...(dimensions ?? [])]));
  others.delete(dimension);
  return { names: own.map(({ name }) => name), others: [...others] };
}

interface Changes<T> {
  readonly results: readonly T[];
  readonly refusals: readonly Warning[];
  /** The error that ended the changes before the last limiter, such as of a store that is away. */
  readonly failure?: { readonly error: unknown };
}

/**
 * Changes several limiters one after the other. A limiter that refuses the keys becomes a warning.
 *
 * @throws the error if no limiter was changed: that of the first limiter if all refuse
 */
export async function inEach<T>(
  names: readonly string[],
  change: (name: string) => Promise<T>,
): Promise<Changes<T>> {
  const results: T[] = [];
  const refusals: Warning[] = [];
  let first: HeadgateError | undefined;
  for (const name of names) {
    try {
      results.push(await change(name));
    } catch (error) {
      const isRefusal = error instanceof HeadgateError && error.code === 'HEADGATE_INVALID_ARGUMENT';
      if (!isRefusal && results.length === 0) throw error;
      // The changes before the error are made, so the caller has to report them.
      if (!isRefusal) return { results, refusals, failure: { error } };
      first ??= error;
      refusals.push({ code: 'UNANSWERED', message: `${printable(name)}: ${withoutPage(error.message)}` });
    }
  }
  if (results.length === 0 && first) throw first;
  return { results, refusals };
}
