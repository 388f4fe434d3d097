import { createHash } from 'node:crypto';
import type { PolicySet } from './store.js';

/** Longer keys are hashed: a Redis key's length is bounded whatever the user's key is. */
const LONGEST = 128;

const PLAIN = /^[\x21-\x24\x26-\x7a\x7c\x7e]{0,128}$/;

/**
 * Makes any string safe within a hash tag, such that two different strings never become one: braces, percent signs and
 * control characters are percent-encoded; what is long or not well-formed Unicode is hashed (SHA-256), marked by `%#`,
 * which no encoding yields.
 */
function escapeKey(key: string): string {
  if (PLAIN.test(key)) return key;
  const encoded = key.replace(
    // eslint-disable-next-line no-control-regex -- control characters are what this is about
    /[\x00-\x20%{}\x7f]/g,
    (character) => `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
  if (Buffer.byteLength(encoded) <= LONGEST && key.isWellFormed()) return encoded;
  return `%#${createHash('sha256').update(Buffer.from(key, 'utf16le')).digest('base64url')}`;
}

/**
 * The Redis keys of a query: `prefix:{name:key}tag`, one per policy and one for the ban, in one cluster slot. The tag names
 * the layout and the policy, so that neither versions nor policies read each other's state.
 */
export class KeyMaker {
  readonly #head: string;
  readonly #tails: readonly string[];
  readonly #ban: string | undefined;

  constructor(prefix: string, set: PolicySet) {
    this.#head = `${prefix}:{${escapeKey(set.name).replaceAll(':', '%3a')}:`;
    this.#tails = set.policies.map(({ id }) => `}${id}`);
    this.#ban = set.ban && '}b1';
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

  /** The keys of the policies whose kernel is `kernel`, or of all. */
  policies(key: string, chosen: readonly number[]): string[] {
    const head = this.#head + escapeKey(key);
    return chosen.map((i) => head + this.#tails[i]!);
  }
}
