import { checkDimension, DEFAULT_DIMENSION } from '../../contract/key.js';
import type { Override, OverrideChange } from '../../limiter/overrides/override.js';
import type { Json } from '../lines.js';
import type { OverrideWish } from './override-scope.js';
import { wrongArgument } from '../typed-keys.js';

/** Defaults for a line: the limiter's name, and the dimension of a key without one. */
export interface OverrideLineDefaults {
  /** The limiter of the keys. */
  readonly name: string;
  /** The dimension of the keys. @default 'key' */
  readonly dimension?: string | undefined;
}

/** An override for programs. Absent values are null. */
export function overrideJson({ change, since, until, by, reason }: Override) {
  const ends = until?.toISOString() ?? null;
  return { change, since: since.toISOString(), until: ends, by: by ?? null, reason: reason ?? null };
}

/**
 * Reads a line of a file of overrides: JSON as `overrides --json` writes it, or a key and its policies: `customer:42 minute=1000/1m`.
 *
 * @param line the content of the line
 * @throws HeadgateError or SyntaxError with the fault
 */
export function readOverrideLine(line: string, defaults: OverrideLineDefaults): OverrideWish {
  if (line.startsWith('{')) return readJson(line, defaults);
  const [key, ...words] = line.split(/\s+/);
  return { key, dimension: defaults.dimension ?? DEFAULT_DIMENSION, change: readChange(words) };
}

function readJson(line: string, defaults: OverrideLineDefaults): OverrideWish {
  const { name, nameHash, key, all, dimension, within, ...rest } = JSON.parse(line) as Json;
  // Without this check, the lines of all limiters would become overrides of one limiter.
  if ((name ?? nameHash ?? defaults.name) !== defaults.name)
    throw wrongArgument(
      `the line is of the limiter ${JSON.stringify(name ?? nameHash)}. Remove the line, or set \`name\` to that limiter.`,
    );
  if (typeof key !== 'string' && (all !== true || key !== undefined))
    throw wrongArgument('the line has no key. Use {"key":"customer:42","change":"1000/1m"}.');
  if (within !== undefined)
    throw wrongArgument(
      'the override is of a limiter with `slotBy`, and only its program can make such overrides.',
    );
  const { change, until, by, reason } = rest;
  return {
    key,
    dimension:
      dimension === undefined
        ? (defaults.dimension ?? DEFAULT_DIMENSION)
        : checkDimension('dimension', dimension),
    change: change as OverrideChange | undefined,
    ...(typeof until === 'string' && { until }),
    ...(typeof by === 'string' && { by }),
    ...(typeof reason === 'string' && { reason }),
  };
}

/** Reads the policies of a change as words: `1000/1m`, or by name `minute=1000/1m day=false`. @throws HeadgateError or SyntaxError */
export function readChange(words: readonly string[]): OverrideChange {
  const [first] = words;
  if (first === undefined)
    throw wrongArgument('the policy is missing. Pass a policy after the key, such as 1000/1m.');
  if (words.length === 1 && first.startsWith('{')) {
    try {
      return JSON.parse(first) as OverrideChange;
    } catch (error) {
      throw wrongArgument(`the JSON cannot be read: ${(error as Error).message}.`);
    }
  }
  if (!/^[^=\s]+=./.test(first)) return words.join(' ');
  const parts = words.join(' ').split(/\s+(?=[^=\s]+=.)/);
  const byName = parts.map((part) => /^(.+?)=(.*)$/s.exec(part)!.slice(1) as [name: string, policy: string]);
  const names = byName.map(([name]) => name);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) throw wrongArgument(`${JSON.stringify(twice)} appears twice.`);
  return Object.fromEntries(
    byName.map(([name, policy]) => [name, policy === 'false' || policy === 'off' ? false : policy]),
  );
}
