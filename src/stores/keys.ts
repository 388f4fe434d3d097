import { createHash } from 'node:crypto';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { Keys, PolicySet } from '../contract/store.js';

/** Longer keys are hashed: a Redis key's length is bounded whatever the user's key is. */
const LONGEST = 128;

/**
 * Makes any string safe within a hash tag, such that two different strings never become one: braces, percent signs and
 * control characters are percent-encoded; what is long or not well-formed Unicode is hashed (SHA-256), marked by `%#`,
 * which no encoding yields.
 */
export function escapeKey(key: string): string {
  if (isPlain(key)) return key;
  const encoded = key.replace(
    // eslint-disable-next-line no-control-regex -- control characters are what this is about
    /[\x00-\x20%{}\x7f]/g,
    (character) => `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
  if (Buffer.byteLength(encoded) <= LONGEST && key.isWellFormed()) return encoded;
  return hashedText(createHash('sha256').update(Buffer.from(key, 'utf16le')).digest('base64url'));
}

/** A hash, as it stands in a key. */
export function hashedText(hash: string): string {
  return `%#${hash}`;
}

/** How a store writes a key between the braces: {@link escapeKey}, or hashed with a secret. */
export type KeyText = (key: string) => string;

/** Whether a key stands for itself. For short keys a loop is faster than a regular expression. */
function isPlain(key: string): boolean {
  if (key.length > LONGEST) return false;
  for (let i = 0; i < key.length; i++) {
    const unit = key.charCodeAt(i);
    // Printable ASCII but for % { }.
    if (unit <= 0x20 || unit >= 0x7f || unit === 0x25 || unit === 0x7b || unit === 0x7d) return false;
  }
  return true;
}

/** A limiter's name, as it stands in a key. */
export function escapeName(name: string): string {
  return escapeKey(name).replaceAll(':', '%3a');
}

/** The tag of bans. */
export const BAN_TAG = 'b1';

/** The tag of what was reset or given back of a policy's state of a key: see adjust.lua. */
const RESET_TAG = 'r1';

/** What a key of a dimension begins with. No escaped key does. */
const MARK = '%@';

/** What stands before a key between the braces: that of another dimension than the default one begins with its name. */
function markOf(dimension: string): string {
  return dimension === DEFAULT_DIMENSION ? '' : `${MARK}${dimension}=`;
}

/** A key as it stands between the braces. One whose hash alone is known stands there by it. */
export function escapeWho(dimension: string, key: string | Hash, text: KeyText): string {
  return markOf(dimension) + (typeof key === 'string' ? text(key) : hashedText(key.hash));
}

/** A limiter's name as it stands in a key, also one whose hash alone is known. */
export function escapeScope(name: string | Hash): string {
  return typeof name === 'string' ? escapeName(name) : hashedText(name.hash);
}

/** Whose state it is in a scope: one text for each of a set's dimensions. */
function whosOf({ dimensions }: PolicySet, key: Keys, text: KeyText): string[] {
  const { names = [DEFAULT_DIMENSION], slotBy } = dimensions ?? {};
  if (typeof key === 'string') return [escapeWho(names[0] ?? DEFAULT_DIMENSION, key, text)];
  if (slotBy === undefined) return names.map((name, i) => escapeWho(name, key[i]!, text));
  const at = names.indexOf(slotBy);
  // Requests without a key of the dimension share a slot.
  const slot = at < 0 ? MARK + slotBy : escapeWho(slotBy, key[at]!, text);
  return names.map((name, i) => (i === at ? slot : `${slot}}${MARK}${name}=${text(key[i]!)}`));
}

/** Whose state it is, with the scope: what the Redis keys of one part of a set have in common between the first brace and the last. */
export function whoOf(set: PolicySet, key: Keys, dimension: string, text = escapeKey): string {
  const at = set.dimensions?.names.indexOf(dimension) ?? 0;
  return `${escapeName(set.name)}:${whosOf(set, key, text)[at]}`;
}

/**
 * The Redis keys of a query: `prefix:{name:key}tag`, one per policy and one for the ban. The tag names the layout and the policy, so that
 * neither versions nor policies read each other's state. A key of another dimension is `prefix:{name:%@account=key}tag`; with `slotBy`
 * it follows the one in whose slot it lies: `prefix:{name:%@org=acme}%@account=key}tag`.
 */
export class KeyMaker {
  readonly #set: PolicySet;
  readonly #text: KeyText;
  readonly #scope: string;
  /** What a sole key begins with. */
  readonly #head: string;
  /** For each policy, and for the ban, the number of its dimension. */
  readonly #at: readonly number[];
  readonly #banAt: number;
  readonly #tails: readonly string[];
  readonly #ban: string | undefined;

  constructor(prefix: string, set: PolicySet, text: KeyText = escapeKey) {
    const { names = [DEFAULT_DIMENSION], banBy = DEFAULT_DIMENSION } = set.dimensions ?? {};
    this.#set = set;
    this.#text = text;
    this.#scope = `${prefix}:{${escapeName(set.name)}:`;
    this.#head = this.#scope + markOf(names[0] ?? DEFAULT_DIMENSION);
    this.#at = set.policies.map(({ by }) => names.indexOf(by));
    this.#banAt = names.indexOf(banBy);
    this.#tails = set.policies.map(({ id }) => `}${id}`);
    this.#ban = set.ban && `}${BAN_TAG}`;
  }

  /** Appends the keys of all policies, after that of the ban if the set has one. */
  push(to: string[], key: Keys): void {
    if (typeof key === 'string') {
      const head = this.#head + this.#text(key);
      if (this.#ban) to.push(head + this.#ban);
      for (const tail of this.#tails) to.push(head + tail);
      return;
    }
    const heads = this.#heads(key);
    if (this.#ban) to.push(heads[this.#banAt]! + this.#ban);
    this.#tails.forEach((tail, i) => to.push(heads[this.#at[i]!]! + tail));
  }

  /** The key of the ban. */
  ban(key: Keys): string {
    return this.#heads(key)[this.#banAt]! + this.#ban;
  }

  /** The keys of all policies; `histories`: then those of what was given back of them. */
  policies(key: Keys, histories = false): string[] {
    const heads = this.#heads(key);
    const own = this.#at.map((at) => heads[at]!);
    const keys = this.#tails.map((tail, i) => own[i]! + tail);
    return histories
      ? [...keys, ...this.#tails.map((tail, i) => `${own[i]!}}${RESET_TAG}:${tail.slice(1)}`)]
      : keys;
  }

  #heads(key: Keys): string[] {
    return whosOf(this.#set, key, this.#text).map((who) => this.#scope + who);
  }
}

/** What a Redis key of ours says about the state that it holds. */
export interface StateKey {
  /** The limiter's name as it stands in the key; see {@link escapeName}. */
  readonly scope: string;
  /** The limiter's name, and whose state it is; hashed names and keys cannot be read back. */
  readonly name: string | Hash;
  readonly key: string | Hash;
  /** The dimension of the key. */
  readonly by: string;
  /** Of a limiter with `slotBy`: in whose slot it lies. Without a key: in that of all requests which have none. */
  readonly slot?: { readonly by: string; readonly key: string | Hash | undefined };
  /** All of the Redis key before the tag: what the state of one key in one scope has in common. */
  readonly head: string;
  /** As `CompiledPolicy.id`; or {@link BAN_TAG}; or {@link RESET_TAG}, a colon and a policy's. */
  readonly id: string;
}

/** Whether a key tells of a policy's last reset. */
export function isReset({ id }: StateKey): boolean {
  return id.startsWith(`${RESET_TAG}:`);
}

/** The key that tells of the last reset of a state. */
export function resetKey({ head, id }: StateKey): string {
  return `${head}}${RESET_TAG}:${id}`;
}

/** What is left of a string that was too long to be part of a Redis key, or is not to be read there. */
export interface Hash {
  /** Of its UTF-16 code units, base64url: SHA-256, or with a secret the first 16 bytes of HMAC-SHA256. */
  readonly hash: string;
}

/** `hmac` if it was made with a secret; undefined for what is no hash. */
export function kindOfHash(hash: string): 'sha256' | 'hmac' | undefined {
  if (!/^[\w-]*$/.test(hash)) return undefined;
  return hash.length === 43 ? 'sha256' : hash.length === 22 ? 'hmac' : undefined;
}

const STATE_KEY = /^\{([^{}:]*):([^{}]*)(?:\}(%@[^{}]*))?\}([a-z]\d+(?:@[^:{}]+)?(?::[\x20-\x7e]+)?)$/;

/** Reads a Redis key back; undefined for what `KeyMaker` does not make. */
export function parseStateKey(prefix: string, redisKey: string): StateKey | undefined {
  if (!redisKey.startsWith(`${prefix}:`)) return undefined;
  const [, name, first, second, id] = STATE_KEY.exec(redisKey.slice(prefix.length + 1)) ?? [];
  if (name === undefined || first === undefined || id === undefined) return undefined;
  const slot = readWho(first);
  const whose = second === undefined ? slot : readWho(second);
  const scope = readBack(name);
  if (!slot || !whose || whose.key === undefined || !isMadeBy(escapeName, scope, name)) return undefined;
  return {
    scope: name,
    name: scope,
    key: whose.key,
    by: whose.by,
    ...(whose !== slot && { slot }),
    head: redisKey.slice(0, -id.length - 1),
    id,
  };
}

/** Reads back what `escapeWho` made; without a key if it is that of requests which have none. */
function readWho(who: string): { by: string; key: string | Hash | undefined } | undefined {
  const [, by, ofDimension] = /^%@([A-Za-z][\w-]*)(?:=(.*))?$/s.exec(who) ?? [];
  if (by !== undefined && ofDimension === undefined) return { by, key: undefined };
  const escaped = ofDimension ?? who;
  const key = readBack(escaped);
  return isMadeBy(escapeKey, key, escaped) ? { by: by ?? DEFAULT_DIMENSION, key } : undefined;
}

/** Reads back what stands between the braces of a Redis key; undefined for what is none of ours. */
export function parseWho(who: string): Omit<StateKey, 'head' | 'id'> | undefined {
  return parseStateKey('x', `x:{${who}}${BAN_TAG}`);
}

function readBack(escaped: string): string | Hash {
  if (escaped.startsWith('%#')) return { hash: escaped.slice(2) };
  return escaped.replace(/%([0-9a-f]{2})/g, (_, code: string) => String.fromCharCode(parseInt(code, 16)));
}

function isMadeBy(escape: (text: string) => string, read: string | Hash, escaped: string): boolean {
  return typeof read === 'string' ? escape(read) === escaped : kindOfHash(read.hash) !== undefined;
}

/** A pattern for SCAN that matches the state of one scope, or of one key in it, as it stands there; of all by default. */
export function statePattern(prefix: string, name?: string, key?: string, id = '*'): string {
  const literal = (text: string): string => text.replace(/[*?[\]\\^]/g, '\\$&');
  if (name === undefined) return `${literal(prefix)}:{*}${id}`;
  return `${literal(prefix)}:{${literal(escapeName(name))}:${key === undefined ? '*' : literal(key)}}${id}`;
}
