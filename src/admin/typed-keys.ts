import ipaddr from 'ipaddr.js';
import { HeadgateError, withoutPage } from '../common/errors.js';
import { checkDimension, DEFAULT_DIMENSION } from '../contract/key.js';
import { clientKeys, DEFAULT_SUBNET } from '../http/client-key.js';
import { parseEntry, type Network } from '../http/lists.js';
import { checkInteger } from '../common/validate.js';
import { shownHash } from '../stores/keys.js';

/** The interpretation of a key that an operator types. */
export interface KeyOptions {
  /** The dimension of the key, for policies with `by`. @default 'key' */
  dimension?: string | undefined;
  /** Whether to take the key literally, even if it looks like an address or a network. @default false */
  raw?: boolean | undefined;
  /** The prefix length that makes an IPv6 address a key, 1 to 128. @default the published length of the limiter, or 56 */
  ipv6Subnet?: number | undefined;
}

/** A typed key. The limiter's keys for an address are not yet known. */
export interface TypedKey {
  readonly given: string;
  readonly entry: Network | string;
  /** The typed prefix length, or `undefined` for the limiter's. */
  readonly subnet: number | undefined;
  /** The dimension of the key. */
  readonly dimension: string;
  /** Whether the text has the form in which views show hashed keys, and is not meant literally. */
  readonly isHash: boolean;
}

/** The keys that a typed text stands for. */
export interface Subject {
  /** The typed text. */
  readonly given: string;
  /** The limiter's keys: one key, or all keys of a network's clients. */
  readonly keys: readonly string[];
  /** The dimension of the keys. */
  readonly dimension: string;
}

/** The maximum number of keys of a network. Larger networks are refused. */
const MAX_KEYS_PER_NETWORK = 65_536;

const RAW = 'Set `raw: true` to take the key literally.';

export function wrongArgument(message: string): HeadgateError {
  return new HeadgateError('HEADGATE_INVALID_ARGUMENT', message);
}

export function hashOnly(): HeadgateError {
  return wrongArgument('key: this store needs the key itself, not its hash.');
}

/** The error for one item of a list. */
export class ItemError extends HeadgateError {
  /** The position of the item in the list. */
  readonly index: number;
  /** The error without the position. */
  override readonly cause: HeadgateError;

  constructor(index: number, cause: HeadgateError) {
    super(cause.code, `[${index}]: ${withoutPage(cause.message)}`);
    this.index = index;
    this.cause = cause;
  }
}

function itemError(index: number, error: unknown): unknown {
  return error instanceof HeadgateError ? new ItemError(index, error) : error;
}

/** Uses an item. An error gets the position of the item. */
export function inItem<T>(index: number, use: () => T): T {
  try {
    return use();
  } catch (error) {
    throw itemError(index, error);
  }
}

/** An item of a list that is refused. */
export interface Refused {
  /** The reason, for people. */
  readonly error: string;
}

/** Uses an item, or returns the reason why it is refused. */
export function refusalOf<T extends object>(use: () => T): T | Refused {
  try {
    return use();
  } catch (error) {
    if (error instanceof HeadgateError) return { error: withoutPage(error.message) };
    throw error;
  }
}

/** Checks that a list consists of objects. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` */
export function checkList(what: string, list: unknown): void {
  if (!Array.isArray(list))
    throw wrongArgument(`${what}: the first argument is not an array. Pass an array.`);
  const at = list.findIndex((each) => typeof each !== 'object' || each === null || Array.isArray(each));
  if (at !== -1) throw itemError(at, wrongArgument(`${what}: this entry is not an object. Pass an object.`));
}

/** Checks a typed key. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` if it is empty, or looks like an address without being valid */
export function typedKey(given: string, options: KeyOptions): TypedKey {
  const { raw = false, ipv6Subnet } = options;
  const dimension =
    options.dimension === undefined ? DEFAULT_DIMENSION : checkDimension('dimension', options.dimension);
  const subnet = ipv6Subnet === undefined ? undefined : checkInteger('ipv6Subnet', ipv6Subnet, 1, 128);
  if (typeof given !== 'string') throw wrongArgument("key: pass a string, such as 'user:42'.");
  if (raw) return { given, entry: given, subnet, dimension, isHash: false };
  if (given.trim() === '')
    throw wrongArgument(`key: ${JSON.stringify(given)} is empty. Pass a key, such as 'user:42'. ${RAW}`);
  const entry = read(given, dimension);
  return { given, entry, subnet, dimension, isHash: shownHash(given) !== undefined };
}

/**
 * The limiters' keys for a typed text: for an address, the client's key; for a network, the keys of all clients in it; otherwise the text
 * itself.
 *
 * @param published the prefix length of the limiter
 * @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` for a network that is smaller than a key, or that has too many keys
 */
export function subjectOf(
  { given, entry, subnet, dimension }: TypedKey,
  published = DEFAULT_SUBNET,
): Subject {
  const keys = typeof entry === 'string' ? [entry] : keysOf(given, entry, subnet ?? published);
  return { given, keys, dimension };
}

/** The key of an operation that supports a single key only. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` for a network of several keys */
export function soleKey({ given, keys }: Subject): string {
  if (keys.length > 1)
    throw wrongArgument(`key: ${given} has ${countOf(keys.length)} keys. Pass an address. ${RAW}`);
  return keys[0]!;
}

/** Whether the key depends on the limiter's prefix length for IPv6. */
export function isOfIpv6({ entry, subnet }: TypedKey): boolean {
  return typeof entry !== 'string' && subnet === undefined && entry.address.kind() === 'ipv6';
}

/** Whether a literal key could be an address, such as with `raw`. */
export function isAddress(given: string): boolean {
  return ipaddr.isValid(given.replace(/\/\d+$/, ''));
}

/** Keys of any dimension may be addresses. Only those of the default dimension are refused if they are nearly addresses. */
function read(given: string, dimension: string): Network | string {
  try {
    return parseEntry('key', given);
  } catch (error) {
    if (dimension !== DEFAULT_DIMENSION) return given;
    throw wrongArgument(`${withoutPage((error as Error).message)} ${RAW}`);
  }
}

function keysOf(given: string, { address, prefix }: Network, subnet: number): string[] {
  const clientKey = clientKeys(subnet);
  if (!given.includes('/')) return [clientKey(address.toString())];
  const bytes = address.toByteArray();
  const width = 8 * bytes.length;
  const unit = width === 32 ? 32 : subnet;
  if (prefix > unit) {
    const key = clientKey(address.toString());
    throw wrongArgument(
      `key: ${given} is a part of the key ${key}. Pass that key, or another \`ipv6Subnet\`. ${RAW}`,
    );
  }
  const keys = 2 ** (unit - prefix);
  if (keys > MAX_KEYS_PER_NETWORK) {
    throw wrongArgument(
      `key: ${given} has ${countOf(keys)} keys, and more than ${countOf(MAX_KEYS_PER_NETWORK)} are refused. The limiter's option ` +
        'denyList takes networks of any size.',
    );
  }
  const step = 1n << BigInt(width - unit);
  const first = (numberOf(bytes) >> BigInt(width - prefix)) << BigInt(width - prefix);
  return Array.from({ length: keys }, (_, i) =>
    clientKey(ipaddr.fromByteArray(bytesOf(first + BigInt(i) * step, bytes.length)).toString()),
  );
}

const countOf = (n: number): string => n.toLocaleString('en-US');

const numberOf = (bytes: readonly number[]): bigint =>
  bytes.reduce((number, byte) => (number << 8n) + BigInt(byte), 0n);

const bytesOf = (number: bigint, length: number): number[] =>
  Array.from({ length }, (_, i) => Number((number >> BigInt(8 * (length - 1 - i))) & 0xffn));
