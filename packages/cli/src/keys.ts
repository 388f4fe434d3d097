import {
  DEFAULT_DIMENSION,
  dimensionJson,
  kindOfHash,
  type Hash,
  type KeyRates,
  type Subject,
  type Whose,
} from 'headgate/admin';
import { many, printable } from './format.js';

/** The prefix of a shown key, for any dimension except the default dimension. */
export function prefixOf(dimension: string): string {
  return dimension === DEFAULT_DIMENSION ? '' : `${dimension} `;
}

/** The longest key that tables show whole, because operators copy keys into the next command, characters. */
const MAX_KEY = 140;

const shownKey = (key: string): string => printable(key, MAX_KEY);

/** The key for people, with the text that the key was derived from. */
export function show({ given, keys, dimension }: Subject): string {
  const [key] = keys;
  if (keys.length > 1) return `${many(keys.length, 'key')} of ${printable(given)}`;
  return key === given
    ? prefixOf(dimension) + shownKey(given)
    : `${shownKey(key!)} (the key of ${shownKey(given)})`;
}

export function subjectJson({ given, keys, dimension }: Subject): object {
  return keys.length === 1
    ? { key: keys[0], given, ...dimensionJson(dimension) }
    : { network: given, keys: keys.length };
}

/** A key for people, with its dimension unless it is the default one, and with the key within which it is counted. */
export function showKey({ key, dimension = DEFAULT_DIMENSION, within }: Omit<Whose, 'name'>): string {
  if (key === undefined) return 'all keys';
  return prefixOf(dimension) + showText(key) + (within === undefined ? '' : ` in ${printable(within)}`);
}

/** The policy or the reason that denied a key last, with the other key of the request if the denial was for that. Empty without a denial. */
export function causeText({
  policy,
  reason,
  deniedFor,
}: Pick<KeyRates, 'policy' | 'reason' | 'deniedFor'>): string {
  const cause = policy ?? reason;
  if (cause === undefined) return '';
  if (deniedFor === undefined) return printable(cause);
  const by = deniedFor === DEFAULT_DIMENSION ? '' : ` (its ${printable(deniedFor)})`;
  return `${printable(cause)}, of another key${by}`;
}

export function showText(text: string | Hash): string {
  return typeof text === 'string' ? shownKey(text) : `${kindOfHash(text.hash)}:${text.hash}`;
}
