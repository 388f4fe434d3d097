import type { Policy } from 'headgate';
import { parseLimits } from 'headgate/admin';
import { orUsage } from './errors.js';

/**
 * Parses policies of a command line: as text, `100/1m`, or as JSON, one policy or an array of them.
 *
 * @throws CliError `USAGE` with the mistake, its position and the correction
 */
export function parsePolicies(texts: readonly string[], what = '--policy'): Policy[] {
  const given = texts.flatMap((text) => (/^\s*[[{]/.test(text) ? parseJson(text, what) : [text]));
  return orUsage(() => [...parseLimits(what, given).policies]);
}

function parseJson(text: string, what: string): (Policy | string)[] {
  const value = orUsage(
    () => JSON.parse(text) as Policy | (Policy | string)[],
    (message) =>
      `${what}: the JSON cannot be read: ${message}. Pass '{"limit":100,"window":"1m"}', or '100/1m'.`,
  );
  return Array.isArray(value) ? value : [value];
}
