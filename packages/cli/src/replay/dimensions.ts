import type { Key, Policy } from 'headgate';
import { DEFAULT_DIMENSION } from 'headgate/admin';
import { dimensionOf } from '../command.js';
import { usageError } from '../errors.js';
import { prefixOf } from '../keys.js';

/** The fields of a log that make the key of a dimension. */
export interface LoggedKey {
  readonly dimension: string;
  /** The parts of the key: `ip`, `user`, `path`, `method`, or named fields. */
  readonly parts: readonly string[];
}

/** Reads `--key ip --key account=user`. @throws CliError `USAGE` */
export function loggedKeys(texts: readonly string[] = ['ip']): LoggedKey[] {
  const keys = texts.map((text): LoggedKey => {
    const [, named, rest = text] = /^([A-Za-z][\w-]*)=(.*)$/s.exec(text) ?? [];
    const parts = rest.split(/[\s,]+/).filter((part) => part !== '');
    if (parts.length === 0)
      throw usageError(
        "--key: empty. Pass the parts of the key, such as 'ip', 'user', 'ip path' or 'account=user'.",
      );
    return { dimension: named === undefined ? DEFAULT_DIMENSION : dimensionOf('--key', named), parts };
  });
  const names = keys.map(({ dimension }) => dimension);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) {
    throw usageError(
      `--key: passed twice for ${twice}. Pass the parts of one key together, as in --key 'ip path', and name other dimensions: ` +
        '--key account=user.',
    );
  }
  return keys;
}

export const dimensionsOf = (policies: readonly Policy[]): string[] => [
  ...new Set(policies.map(({ by = DEFAULT_DIMENSION }) => by)),
];

/**
 * Checks that the log has a key for each dimension of each set of policies, and no other. A single key without a dimension serves whatever
 * single dimension there is.
 *
 * @throws CliError `USAGE`
 */
export function checkKeys(keys: readonly LoggedKey[], sets: readonly (readonly Policy[])[]): void {
  const known = keys.map(({ dimension }) => dimension);
  const isSole = known.length === 1 && known[0] === DEFAULT_DIMENSION;
  for (const dimensions of sets.map(dimensionsOf)) {
    if (isSole && dimensions.length === 1) continue;
    const missing = dimensions.find((name) => !known.includes(name));
    if (missing === undefined) continue;
    const field = missing === DEFAULT_DIMENSION ? 'ip' : `${missing}=user`;
    throw usageError(
      `The policies count by ${dimensions.join(', ')}. Also pass the field of the ${missing}, such as --key ${field}.`,
    );
  }
  const used = sets.flatMap(dimensionsOf);
  const extra = known.find((name) => !used.includes(name));
  if (extra !== undefined && !isSole)
    throw usageError(
      `--key ${extra}=...: no policy counts by ${extra}. Omit this key, or add \`by ${extra}\` to a policy.`,
    );
}

/** For people: a request's keys, each with its dimension unless it is the default one. */
export function shownKeys(key: Key): string[] {
  if (typeof key === 'string') return [key];
  return Object.entries(key).map(([dimension, text]) => `${prefixOf(dimension)}${text}`);
}
