import ipaddr from 'ipaddr.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { clientKeys } from '../http/client-key.js';
import { parseEntry, type Network } from '../http/lists.js';
import { bookEntry } from '../stores/redis/operators/ban-book.js';
import {
  ALL_KEYS,
  escapeName,
  kindOfHash,
  parseOwnerText,
  type Hash,
  type KeyText,
  type StateKey,
} from '../stores/keys.js';
import type { Options } from './command.js';
import { orUsage, usageError } from './errors.js';
import { count, many, printable } from './format.js';
import type { Bans } from './redis/bans.js';

export type KeyOptions = Pick<Options, 'raw' | 'dimension' | 'ipv6Subnet'>;

/** A typed key. The limiter's keys for an address are not yet known. */
export interface TypedKey {
  readonly given: string;
  readonly entry: Network | string;
  /** The typed prefix length, or `undefined` for the limiter's. */
  readonly subnet: number | undefined;
  /** The dimension of the key. */
  readonly dimension: string;
}

/** The subject of a command. */
export interface Subject {
  /** The typed text. */
  readonly given: string;
  /** The limiter's keys: one key, or all keys of a network's clients. */
  readonly keys: readonly string[];
  /** The dimension of the keys. */
  readonly dimension: string;
}

/** The prefixes of the state's keys in Redis, for a subject's keys. */
export const headsOf = (bans: Pick<Bans, 'head'>, name: string, { keys, dimension }: Subject): string[] =>
  keys.map((key) => bans.head(name, key, dimension));

/** The maximum number of keys of a network. Larger networks are refused. */
const MAX_KEYS_PER_NETWORK = 65_536;

/** @throws CliError `USAGE` if the text is empty, or looks like an address without being valid */
export function typedKey(given: string, options: KeyOptions): TypedKey {
  const { raw, dimension = DEFAULT_DIMENSION, ipv6Subnet: subnet } = options;
  if (raw) return { given, entry: given, subnet, dimension };
  if (given.trim() === '') throw usageError(`The key is empty. Write whose state you mean. ${RAW}`);
  // Only keys of the default dimension are addresses.
  return { given, entry: dimension === DEFAULT_DIMENSION ? read(given) : given, subnet, dimension };
}

/**
 * The limiters' keys for a typed text: for an address, the client's key; for a network, the keys of all clients in it; otherwise the text
 * itself.
 *
 * @throws CliError `USAGE` for a network that is smaller than a key, or that has too many keys
 */
export function subjectOf({ given, entry, subnet, dimension }: TypedKey, told: number): Subject {
  const keys = typeof entry === 'string' ? [entry] : keysOf(given, entry, subnet ?? told);
  return { given, keys, dimension };
}

/** The prefix of a shown key, for any dimension except the default dimension. */
export function prefixOf(dimension: string): string {
  return dimension === DEFAULT_DIMENSION ? '' : `${dimension} `;
}

/** The key of a command that supports a single key only. @throws CliError `USAGE` for a network of several keys */
export function keyOf({ given, keys }: Subject): string {
  if (keys.length > 1) {
    throw usageError(
      `${given} has ${many(keys.length, 'key')}. Write an address, or --raw for a key of this name.`,
    );
  }
  return keys[0]!;
}

/** Whether the key depends on the limiter's prefix length for IPv6. */
export function isOfIpv6({ entry, subnet }: TypedKey): boolean {
  return typeof entry !== 'string' && subnet === undefined && entry.address.kind() === 'ipv6';
}

/** The key for people, with the text that the key was derived from. */
export function show({ given, keys, dimension }: Subject): string {
  const [key] = keys;
  if (keys.length > 1) return `${many(keys.length, 'key')} of ${printable(given)}`;
  return key === given
    ? prefixOf(dimension) + printable(given)
    : `${printable(key!)} (the key of ${printable(given)})`;
}

/** The text in the log of bans. A whole network is one entry. */
export function loggedOf(
  name: string,
  { given, keys, dimension }: Subject,
  text: KeyText,
): { readonly who: string; readonly keys: number } {
  const key = keys.length === 1 ? keys[0]! : given;
  return { who: bookEntry(name, key, dimension, text), keys: keys.length };
}

/** The fields of the keys in the JSON output. */
export function subjectJson({ given, keys, dimension }: Subject): object {
  return keys.length === 1
    ? { key: keys[0], given, ...dimensionJson(dimension) }
    : { network: given, keys: keys.length };
}

/** The field of the dimension in the JSON output. Absent for the default dimension. */
export function dimensionJson(dimension: string): { dimension?: string } {
  return dimension === DEFAULT_DIMENSION ? {} : { dimension };
}

const RAW = 'Write --raw to take the key as it is.';

const read = (given: string): Network | string =>
  orUsage(
    () => parseEntry('key', given),
    (message) => `${message} ${RAW}`,
  );

function keysOf(given: string, { address, prefix }: Network, subnet: number): string[] {
  const clientKey = clientKeys(subnet);
  if (!given.includes('/')) return [clientKey(address.toString())];
  const bytes = address.toByteArray();
  const width = 8 * bytes.length;
  const unit = width === 32 ? 32 : subnet;
  if (prefix > unit) {
    const key = clientKey(address.toString());
    throw usageError(`${given} is a part of the key ${key}. Write that, or other --ipv6-subnet. ${RAW}`);
  }
  const keys = 2 ** (unit - prefix);
  if (keys > MAX_KEYS_PER_NETWORK) {
    throw usageError(
      `${given} has ${many(keys, 'key')}, and more than ${count(MAX_KEYS_PER_NETWORK)} are refused. A ` +
        "limiter's option denyList takes networks of any size.",
    );
  }
  const step = 1n << BigInt(width - unit);
  const first = (numberOf(bytes) >> BigInt(width - prefix)) << BigInt(width - prefix);
  return Array.from({ length: keys }, (_, i) =>
    clientKey(ipaddr.fromByteArray(bytesOf(first + BigInt(i) * step, bytes.length)).toString()),
  );
}

const numberOf = (bytes: readonly number[]): bigint =>
  bytes.reduce((number, byte) => (number << 8n) + BigInt(byte), 0n);

const bytesOf = (number: bigint, length: number): number[] =>
  Array.from({ length }, (_, i) => Number((number >> BigInt(8 * (length - 1 - i))) & 0xffn));

/** The owner of a record. Of a name or a key, possibly only the hash is known. */
export interface Whose {
  readonly name: string | Hash;
  /** The key, or `undefined` for all keys. */
  readonly key: string | Hash | undefined;
  readonly by: string;
  /** With `slotBy`: the key within which this key is counted. */
  readonly slot?: StateKey['slot'];
}

/** Parses the text between the braces of a key in Redis. Returns `undefined` for another name. */
export function whoseOf(who: string, name: string | undefined): Whose | undefined {
  const isAll = who.endsWith(`:${ALL_KEYS}`);
  const whose = parseOwnerText(isAll ? who.slice(0, -ALL_KEYS.length) : who);
  if (!whose || (name !== undefined && whose.scope !== escapeName(name))) return undefined;
  const { key, by, slot } = whose;
  return { name: name ?? whose.name, key: isAll ? undefined : key, by, ...(slot && { slot }) };
}

/** A key for people, with the dimension unless it is the default dimension, and with the key within which it is counted. */
export function showKeyOf({ key, by, slot }: Pick<Whose, 'key' | 'by' | 'slot'>): string {
  if (key === undefined) return 'all keys';
  const within = slot && ` in ${prefixOf(slot.by)}${slot.key === undefined ? '-' : showText(slot.key)}`;
  return prefixOf(by) + showText(key) + (within ?? '');
}

/** The fields of the key for programs. */
export const keyJson = ({ key, by, slot }: Pick<Whose, 'key' | 'by' | 'slot'>): object =>
  key === undefined
    ? { all: true }
    : { ...textOrHash('key', key), ...dimensionJson(by), ...withinJson(slot) };

/** The field for the key within which another key is counted. Present only for limiters with `slotBy`. */
export function withinJson(slot: StateKey['slot']): { within?: string } {
  if (!slot) return {};
  const { by, key = '-' } = slot;
  return { within: `${by} ${typeof key === 'string' ? key : showText(key)}` };
}

/** A text for people, or its hash. */
export function showText(text: string | Hash): string {
  return typeof text === 'string' ? printable(text) : `${kindOfHash(text.hash)}:${text.hash}`;
}

/** A field for programs, or the field of its hash. */
export function textOrHash(field: string, value: string | Hash): object {
  return typeof value === 'string' ? { [field]: value } : { [`${field}Hash`]: value.hash };
}
