import { createHash } from 'node:crypto';
import type { PolicySet } from './store.js';

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
  return `%#${createHash('sha256').update(Buffer.from(key, 'utf16le')).digest('base64url')}`;
}

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

/**
 * The Redis keys of a query: `prefix:{name:key}tag`, one per policy and one for the ban, in one cluster slot. The tag names
 * the layout and the policy, so that neither versions nor policies read each other's state.
 */
export class KeyMaker {
  readonly #head: string;
  readonly #tails: readonly string[];
  readonly #ban: string | undefined;

  constructor(prefix: string, set: PolicySet) {
    this.#head = `${prefix}:{${escapeName(set.name)}:`;
    this.#tails = set.policies.map(({ id }) => `}${id}`);
    this.#ban = set.ban && `}${BAN_TAG}`;
  }

  /** Appends the keys of all policies, after that of the ban if the set has one. */
  push(to: string[], key: string): void {
    const head = this.#head + escapeKey(key);
    if (this.#ban) to.push(head + this.#ban);
    for (const tail of this.#tails) to.push(head + tail);
  }

  /** The key of the ban. */
  ban(key: string): string {
    return this.#head + escapeKey(key) + this.#ban;
  }

  /** The keys of all policies; `histories`: then those of what was given back of them. */
  policies(key: string, histories = false): string[] {
    const head = this.#head + escapeKey(key);
    const keys = this.#tails.map((tail) => head + tail);
    return histories
      ? [...keys, ...this.#tails.map((tail) => `${head}}${RESET_TAG}:${tail.slice(1)}`)]
      : keys;
  }
}

/** What a Redis key of ours says about the state that it holds. */
export interface StateKey {
  /** The limiter's name as it stands in the key; see {@link escapeName}. */
  readonly scope: string;
  /** The limiter's name, and whose state it is; hashed names and keys cannot be read back. */
  readonly name: string | Hash;
  readonly key: string | Hash;
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

/** What is left of a string that was too long to be part of a Redis key. */
export interface Hash {
  /** SHA-256 of its UTF-16 code units, base64url. */
  readonly hash: string;
}

const STATE_KEY = /^\{([^{}:]*):([^{}]*)\}([a-z]\d+(?:@[^:{}]+)?(?::[\x20-\x7e]+)?)$/;

/** Reads a Redis key back; undefined for what `KeyMaker` does not make. */
export function parseStateKey(prefix: string, redisKey: string): StateKey | undefined {
  if (!redisKey.startsWith(`${prefix}:`)) return undefined;
  const [, name, key, id] = STATE_KEY.exec(redisKey.slice(prefix.length + 1)) ?? [];
  if (name === undefined || key === undefined || id === undefined) return undefined;
  const state: StateKey = {
    scope: name,
    name: readBack(name),
    key: readBack(key),
    head: redisKey.slice(0, -id.length - 1),
    id,
  };
  const ours = isMadeBy(escapeName, state.name, name) && isMadeBy(escapeKey, state.key, key);
  return ours ? state : undefined;
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
  return typeof read === 'string' ? escape(read) === escaped : /^[\w-]{43}$/.test(read.hash);
}

/** A pattern for SCAN that matches the state of one scope, or of one key in it; of all by default. */
export function statePattern(prefix: string, name?: string, key?: string, id = '*'): string {
  const literal = (text: string): string => text.replace(/[*?[\]\\^]/g, '\\$&');
  if (name === undefined) return `${literal(prefix)}:{*}${id}`;
  const scope = `${literal(prefix)}:{${literal(escapeName(name))}:`;
  return `${scope}${key === undefined ? '*' : literal(escapeKey(key))}}${id}`;
}
