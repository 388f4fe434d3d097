import { HeadgateError } from '../common/errors.js';
import { compilePolicies } from '../contract/compile-policies.js';
import type { Policy } from '../contract/policy.js';
import { usageError } from './errors.js';

/**
 * Reads policies from a command line: as text, `100/1m`, or as JSON, one or an array of them.
 *
 * @throws CliError `USAGE`: what is wrong, where, and what to write instead
 */
export function parsePolicies(texts: readonly string[], what = '--policy'): Policy[] {
  const given = texts.flatMap((text) => (/^\s*[[{]/.test(text) ? parseJson(text, what) : [text]));
  try {
    return compilePolicies(what, given).map(({ source }) => source);
  } catch (error) {
    throw error instanceof HeadgateError ? usageError(error.message) : error;
  }
}

function parseJson(text: string, what: string): (Policy | string)[] {
  try {
    const value = JSON.parse(text) as Policy | (Policy | string)[];
    return Array.isArray(value) ? value : [value];
  } catch (error) {
    throw usageError(
      `${what}: the JSON cannot be read: ${(error as Error).message}. Write '{"limit":100,"window":"1m"}', or simply '100/1m'.`,
    );
  }
}
