import { createHash } from 'node:crypto';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { limitDimension } from '../features/shares/contract/shares.js';
import { setsByDimension } from '../contract/dimension-sets.js';
import type { Keys, PolicySet, Subject } from '../contract/store.js';
import type { Heads, Tag } from '../features/feature.js';

/** The longest key that is not hashed, which bounds the length of a Redis key. */
const MAX_PLAIN_LENGTH = 128;

/**
 * Makes any string safe inside a hash tag. Two different strings stay different. Braces, percent signs and control characters are
 * percent-encoded. Strings that are long or not well-formed Unicode are hashed (SHA-256) and marked by `%#`, which the encoding never
 * produces.
 */
export function escapeKey(key: string): string {
  let isPlain = key.length <= MAX_PLAIN_LENGTH;
  // For short keys a loop is faster than a regular expression.
  for (let i = 0; isPlain && i < key.length; i++) {
    const unit = key.charCodeAt(i);
    // Accept printable ASCII except for % { }.
    isPlain = unit > 0x20 && unit < 0x7f && unit !== 0x25 && unit !== 0x7b && unit !== 0x7d;
  }
  if (isPlain) return key;
  const encoded = key.replace(
    // eslint-disable-next-line no-control-regex -- the expression is about control characters
    /[\x00-\x20%{}\x7f]/g,
    (character) => `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
  if (Buffer.byteLength(encoded) <= MAX_PLAIN_LENGTH && key.isWellFormed()) return encoded;
  return hashedText(createHash('sha256').update(Buffer.from(key, 'utf16le')).digest('base64url'));
}

export function hashedText(hash: string): string {
  return `%#${hash}`;
}

/** A function that writes a key between the braces: {@link escapeKey}, or a hash with a secret. */
export type KeyText = (key: string) => string;

/** The notation of a limiter's name in a key. */
export function escapeName(name: string): string {
  return escapeKey(name).replaceAll(':', '%3a');
}

export const BAN_TAG = 'b1';

/** The tag of a key's history: the resets and refunds of a policy's state. See adjust.lua. */
const RESET_TAG = 'r2';

/** The tag of the history of a policy's state. */
export function historyTag(id: string): string {
  return `${RESET_TAG}:${id}`;
}

/** The tag of the line of the processes that wait for slots: see algorithms/line.lua. */
export const LINE_TAG = 'w2';

/** The prefix of keys of named dimensions. No escaped key begins with it. */
const MARK = '%@';

/** The prefix of a key between the braces. For all dimensions except the default dimension the prefix contains the dimension's name. */
function markOf(dimension: string): string {
  return dimension === DEFAULT_DIMENSION ? '' : `${MARK}${dimension}=`;
}

/** The notation of a key between the braces. If only the key's hash is known, it takes the key's place. */
export function keyTextOf(dimension: string, key: string | Hash, text: KeyText): string {
  return markOf(dimension) + (typeof key === 'string' ? text(key) : hashedText(key.hash));
}

/**
 * The notation of a tenant within the key whose limit it shares.
 *
 * @param dimension as of `tenantDimension` @param tenant as of `tenantKey`
 */
export function tenantTextOf(dimension: string, limitKey: string, tenant: string, text: KeyText): string {
  const by = limitDimension(dimension)!;
  const share = dimension.slice(by.length + 1);
  return `${keyTextOf(by, limitKey, text)}}${MARK}${share}${tenant && `=${text(tenant.slice(1))}`}`;
}

/**
 * The notation of a key of a part: see `DimensionSet.keyOf`.
 *
 * @param scope as of `DimensionSet`
 */
export function partTextOf(scope: string, key: string, text: KeyText): string {
  const [, length] = (scope.includes('/') && /^(\d*):/.exec(key)) || [];
  if (length === undefined) return keyTextOf(scope, key, text);
  const at = length.length + 1;
  // Requests without a key of the slot's dimension share a slot.
  if (length === '') return `${MARK}${scope.replace('/', `}${MARK}`)}=${text(key.slice(at))}`;
  return tenantTextOf(scope, key.slice(at, at + Number(length)), key.slice(at + Number(length)), text);
}

/** The notation of a limiter's name in a key. If only the name's hash is known, it takes the name's place. */
export function escapeScope(name: string | Hash): string {
  return typeof name === 'string' ? escapeName(name) : hashedText(name.hash);
}

/** The text between the braces after the scope, for each of a set's dimensions. */
function keyTextsOf({ dimensions }: PolicySet, key: Keys, text: KeyText): string[] {
  const { names = [DEFAULT_DIMENSION], slotBy } = dimensions ?? {};
  if (typeof key === 'string') return [keyTextOf(names[0] ?? DEFAULT_DIMENSION, key, text)];
  if (slotBy === undefined) {
    return names.map((name, i) => {
      const of = limitDimension(name);
      if (of === undefined) return keyTextOf(name, key[i]!, text);
      return tenantTextOf(name, key[names.indexOf(of)]!, key[i]!, text);
    });
  }
  const at = names.indexOf(slotBy);
  // Requests without a key of the dimension share a slot.
  const slot = at < 0 ? MARK + slotBy : keyTextOf(slotBy, key[at]!, text);
  return names.map((name, i) => (i === at ? slot : `${slot}}${MARK}${name}=${text(key[i]!)}`));
}

/** The owner text: the text between the first brace and the last in the Redis keys of one part of a set, with the scope and the key. */
export function ownerText(set: PolicySet, key: Keys, dimension: string, text = escapeKey): string {
  const at = set.dimensions?.names.indexOf(dimension) ?? 0;
  return `${escapeName(set.name)}:${keyTextsOf(set, key, text)[at]}`;
}

export function ownerTexts({ set, key }: Subject, text: KeyText = escapeKey): string[] {
  return setsByDimension(set).map(({ name }) => ownerText(set, key, name, text));
}

/**
 * The Redis keys of a query: `prefix:{name:key}tag`, one per policy and those of features. The tag names the layout and the policy, so that
 * neither versions nor policies read each other's state. A key of a named dimension is `prefix:{name:%@account=key}tag`. With `slotBy`, the
 * key of the slot comes first: `prefix:{name:%@org=acme}%@account=key}tag`.
 */
export class KeyMaker {
  readonly #set: PolicySet;
  readonly #text: KeyText;
  readonly #scope: string;
  /** The beginning of the Redis keys of sets with one dimension. */
  readonly #head: string;
  readonly #names: readonly string[];
  /** The index of the dimension for each policy. */
  readonly #at: readonly number[];
  /** The index of the dimension of the set's first part. */
  readonly #idAt: number;
  readonly #tails: readonly string[];
  /** The ends of the keys of features that only decisions read, with the indices of their dimensions. */
  readonly #own: readonly { readonly tail: string; readonly at: number }[];

  constructor(prefix: string, set: PolicySet, text: KeyText = escapeKey, tags: readonly Tag[] = []) {
    const { names = [DEFAULT_DIMENSION] } = set.dimensions ?? {};
    this.#names = names;
    this.#set = set;
    this.#text = text;
    this.#scope = `${prefix}:{${escapeName(set.name)}:`;
    this.#head = this.#scope + markOf(names[0] ?? DEFAULT_DIMENSION);
    this.#at = set.policies.map(({ by }) => names.indexOf(by));
    this.#idAt = Math.max(0, names.indexOf(setsByDimension(set)[0]?.name ?? ''));
    this.#tails = set.policies.map(({ id }) => `}${id}`);
    this.#own = tags.map(({ tag, by }) => ({ tail: `}${tag}`, at: names.indexOf(by) }));
  }

  /** Appends the keys of all policies, then those of features that only decisions read. @param own an array for the latter, if not `to` */
  push(to: string[], key: Keys, own = to): void {
    if (typeof key === 'string') {
      const head = this.#head + this.#text(key);
      for (const tail of this.#tails) to.push(head + tail);
      for (const { tail } of this.#own) own.push(head + tail);
      return;
    }
    const heads = this.#heads(key);
    this.#tails.forEach((tail, i) => to.push(heads[this.#at[i]!]! + tail));
    for (const { tail, at } of this.#own) own.push(heads[at]! + tail);
  }

  headsOf(key: Keys): Heads {
    const heads = this.#heads(key);
    return {
      policies: this.#at.map((at) => heads[at]!),
      first: heads[this.#idAt]!,
      of: (by) => heads[this.#names.indexOf(by)]!,
      text: this.#text,
    };
  }

  /** Appends keys with a tag, one for each dimension of a policy. */
  pushTagged(to: string[], key: Keys, tag: string): void {
    const heads = this.#heads(key);
    for (const at of new Set(this.#at)) to.push(`${heads[at]!}}${tag}`);
  }

  policies(key: Keys): string[] {
    const heads = this.#heads(key);
    return this.#tails.map((tail, i) => heads[this.#at[i]!]! + tail);
  }

  histories(key: Keys): string[] {
    const heads = this.#heads(key);
    return this.#tails.map((tail, i) => `${heads[this.#at[i]!]!}}${historyTag(tail.slice(1))}`);
  }

  #heads(key: Keys): string[] {
    return keyTextsOf(this.#set, key, this.#text).map((text) => this.#scope + text);
  }
}

export interface StateKey {
  /** The limiter's name in the notation of keys: see {@link escapeName}. */
  readonly scope: string;
  /** The limiter's name, and the key that owns the state. Hashed names and keys cannot be read back. */
  readonly name: string | Hash;
  readonly key: string | Hash;
  readonly by: string;
  /** The key of the slot, for limiters with `slotBy`. Its `key` is undefined in the common slot of requests without such a key. */
  readonly slot?: { readonly by: string; readonly key: string | Hash | undefined };
  /** The Redis key up to the tag: the common part of all state of a key in a scope. */
  readonly head: string;
  /** Either `CompiledPolicy.id`; or {@link BAN_TAG}; or {@link RESET_TAG} or {@link LINE_TAG}, a colon and the policy's id. */
  readonly id: string;
}

export function isReset({ id }: Pick<StateKey, 'id'>): boolean {
  return id.startsWith(`${RESET_TAG}:`);
}

/** Whether the state of an id is the line of the processes that wait for slots. */
export function isLine(id: string): boolean {
  return id.startsWith(`${LINE_TAG}:`);
}

export function resetKey({ head, id }: Pick<StateKey, 'head' | 'id'>): string {
  return `${head}}${historyTag(id)}`;
}

/** The hash of a string that was too long for a Redis key, or was hashed for secrecy. */
export interface Hash {
  /** The hash of its UTF-16 code units, base64url: SHA-256, or with a secret the first 16 bytes of HMAC-SHA256. */
  readonly hash: string;
}

/** The kind of a hash: `hmac` if it was made with a secret. Undefined if the text is not a hash. */
export function kindOfHash(hash: string): 'sha256' | 'hmac' | undefined {
  if (!/^[\w-]*$/.test(hash)) return undefined;
  return hash.length === 43 ? 'sha256' : hash.length === 22 ? 'hmac' : undefined;
}

const SHOWN_HASH = /^hmac:([\w-]{22})$/;

/** The hash in the form in which views show keys that were hashed with a secret: `hmac:...`. Undefined for all other texts. */
export function shownHash(text: string): string | undefined {
  return SHOWN_HASH.exec(text)?.[1];
}

const STATE_KEY = /^\{([^{}:]*):([^{}]*)(?:\}(%@[^{}]*))?\}([a-z]\d+(?:@[^:{}]+)?(?::[\x20-\x7e]+)?)$/;

/** Represents all keys of a limiter. No escaped key has this text. */
export const ALL_KEYS = '%@*';

/** Parses a Redis key. @returns undefined if `KeyMaker` does not make such keys */
export function parseStateKey(prefix: string, redisKey: string): StateKey | undefined {
  if (!redisKey.startsWith(`${prefix}:`)) return undefined;
  const [, name, first, second, id] = STATE_KEY.exec(redisKey.slice(prefix.length + 1)) ?? [];
  if (name === undefined || first === undefined || id === undefined) return undefined;
  const slot = parseKeyText(first);
  const owner = second === undefined ? slot : parseKeyText(second);
  const scope = readBack(name);
  if (!slot || !owner || owner.key === undefined || !isMadeBy(escapeName, scope, name)) return undefined;
  return {
    scope: name,
    name: scope,
    key: owner.key,
    by: owner.by,
    ...(owner !== slot && { slot }),
    head: redisKey.slice(0, -id.length - 1),
    id,
  };
}

/** Parses the text of `keyTextOf`. The result has no key if the text represents all requests without a key. */
function parseKeyText(text: string): { by: string; key: string | Hash | undefined } | undefined {
  const [, by, ofDimension] = /^%@([A-Za-z][\w-]*)(?:=(.*))?$/s.exec(text) ?? [];
  if (by !== undefined && ofDimension === undefined) return { by, key: undefined };
  const escaped = ofDimension ?? text;
  const key = readBack(escaped);
  return isMadeBy(escapeKey, key, escaped) ? { by: by ?? DEFAULT_DIMENSION, key } : undefined;
}

/** An owner text with its limiter. If the limiter's name is not ASCII, a file has only a hash for the limiter's key. */
export function withScope(scope: string, ownerText: string): string {
  return ownerText.includes(':') ? ownerText : `${scope}:${ownerText}`;
}

/** Parses an owner text. @returns undefined if Headgate does not write such texts */
export function parseOwnerText(text: string): Omit<StateKey, 'head' | 'id'> | undefined {
  return parseStateKey('x', `x:{${text}}${BAN_TAG}`);
}

function readBack(escaped: string): string | Hash {
  if (escaped.startsWith('%#')) return { hash: escaped.slice(2) };
  return escaped.replace(/%([0-9a-f]{2})/g, (_, code: string) => String.fromCharCode(parseInt(code, 16)));
}

function isMadeBy(escape: (text: string) => string, read: string | Hash, escaped: string): boolean {
  return typeof read === 'string' ? escape(read) === escaped : kindOfHash(read.hash) !== undefined;
}

/** A pattern for SCAN: the state of all scopes, of a scope, or of a key in a scope. Name and key are in the notation of keys. */
export function statePattern(prefix: string, name?: string, key?: string, id = '*'): string {
  const literal = (text: string): string => text.replace(/[*?[\]\\^]/g, '\\$&');
  if (name === undefined) return `${literal(prefix)}:{*}${id}`;
  return `${literal(prefix)}:{${literal(escapeName(name))}:${key === undefined ? '*' : literal(key)}}${id}`;
}
