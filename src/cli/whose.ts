import { ALL_KEYS, escapeName, kindOfHash, parseWho, type Hash } from '../stores/keys.js';
import { printable } from './format.js';
import { dimensionJson, prefixOf } from './keys.js';

/** Whose something is. Of a name or a key, only the hash may be known. */
export interface Whose {
  readonly name: string | Hash;
  /** Undefined: all keys. */
  readonly key: string | Hash | undefined;
  readonly by: string;
}

/** Reads the text between the braces of a key in Redis. Undefined: it is none of this name. */
export function whoseOf(who: string, name: string | undefined): Whose | undefined {
  const isAll = who.endsWith(`:${ALL_KEYS}`);
  const whose = parseWho(isAll ? who.slice(0, -ALL_KEYS.length) : who);
  if (!whose || (name !== undefined && whose.scope !== escapeName(name))) return undefined;
  return { name: name ?? whose.name, key: isAll ? undefined : whose.key, by: whose.by };
}

/** For people: a key, with its dimension unless it is the default one. */
export const showKeyOf = ({ key, by }: Pick<Whose, 'key' | 'by'>): string =>
  key === undefined ? 'all keys' : prefixOf(by) + showText(key);

/** For programs: the fields of the key. */
export const keyJson = ({ key, by }: Pick<Whose, 'key' | 'by'>): object =>
  key === undefined ? { all: true } : { ...textOrHash('key', key), ...dimensionJson(by) };

/** For people: a text, or its hash. */
export function showText(text: string | Hash): string {
  return typeof text === 'string' ? printable(text) : `${kindOfHash(text.hash)}:${text.hash}`;
}

/** For programs: a field, or that of its hash. */
export function textOrHash(field: string, value: string | Hash): object {
  return typeof value === 'string' ? { [field]: value } : { [`${field}Hash`]: value.hash };
}
