import { createHash } from 'node:crypto';

/** Longer keys are hashed, which bounds the length of a Redis key. */
const LONGEST = 128;

/**
 * Makes any string safe inside a hash tag. Two different strings stay different. Braces, percent signs and control characters are
 * percent-encoded. Strings that are long or not well-formed Unicode are hashed (SHA-256) and marked by `%#`, which the encoding never
 * produces.
 */
export function escapeKey(key: string): string {
  let isPlain = key.length <= LONGEST;
  // For short keys a loop is faster than a regular expression.
  for (let i = 0; isPlain && i < key.length; i++) {
    const unit = key.charCodeAt(i);
    // Accept printable ASCII except for % { }.
    isPlain = unit > 0x20 && unit < 0x7f && unit !== 0x25 && unit !== 0x7b && unit !== 0x7d;
  }
  if (isPlain) return key;
  const encoded = key.replace(
    // eslint-disable-next-line no-control-regex -- control characters are what this is about
    /[\x00-\x20%{}\x7f]/g,
    (character) => `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
  if (Buffer.byteLength(encoded) <= LONGEST && key.isWellFormed()) return encoded;
  return hashedText(createHash('sha256').update(Buffer.from(key, 'utf16le')).digest('base64url'));
}

/** A hash as it is written in a key. */
export function hashedText(hash: string): string {
  return `%#${hash}`;
}
