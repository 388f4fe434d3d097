import { createHash, randomInt } from 'node:crypto';

const PRIME = 2 ** 31 - 1;

/** The most terms of a sum. Each is less than 2^47, so the sum is still an exact integer. */
const TERMS = 64;

/** The longest key without a hash. The first term is the tag, and each other term is a pair of characters. */
const MAX_UNHASHED_LENGTH = 2 * (TERMS - 1);

/** A tag contains the text's length and its form: bytes, UTF-16 (from `WIDE` on), or hashed. */
const WIDE = 128;
const HASHED = 255;

const HASH_BYTES = 32;

/** Random factors of this process. Cloudflare Workers refuse random numbers until the first request, so the first key draws the factors. */
const factors = new Float64Array(TERMS + 3);
let areDrawn = false;

function drawFactors(): void {
  for (let i = 0; i < factors.length; i++) factors[i] = randomInt(PRIME);
  areDrawn = true;
}

/** The last fingerprint: four integers from 0 to 2^31 - 2. */
export const fingerprint = new Int32Array(4);

/** Marks a record without a fingerprint. A key's fingerprint never has this value. */
export const VACANT = -1;

/** Whether a record contains the last fingerprint, from `at` on. */
export function hasFingerprint(records: Int32Array, at: number): boolean {
  return (
    records[at] === fingerprint[0] &&
    records[at + 1] === fingerprint[1] &&
    records[at + 2] === fingerprint[2] &&
    records[at + 3] === fingerprint[3]
  );
}

/**
 * Computes a key's fingerprint of 124 bits: four sums modulo a prime. The terms are the key's length and its pairs of characters, each
 * times a secret random factor. Each further sum shifts the factors by one (a Toeplitz matrix). Two different keys agree in one sum with a
 * probability of 1/PRIME, even if an attacker chose the keys (Carter and Wegman: universal hashing). The keys agree in all four sums with
 * 2^-124, because the last differing pair of characters meets a new factor in each sum. The probability that a million keys and a billion
 * further keys ever collide is below one in 10^18.
 */
export function takeFingerprint(key: string): void {
  if (!areDrawn) drawFactors();
  const { length } = key;
  if (length <= MAX_UNHASHED_LENGTH && add(key, length, length)) return;
  // Use the bytes of UTF-16, so that different lone surrogates stay different.
  const bytes = Buffer.from(key, 'utf16le');
  if (bytes.length <= MAX_UNHASHED_LENGTH) add(bytes.toString('latin1'), bytes.length, WIDE + bytes.length);
  else add(createHash('sha256').update(bytes).digest('binary'), HASH_BYTES, HASHED);
}

/** Avoids a method lookup, which V8 would repeat for each of its many representations of strings. */
const charCodeAt = Function.prototype.call.bind(String.prototype.charCodeAt) as (
  text: string,
  i: number,
) => number;

/** Returns false, and leaves no valid fingerprint, if a character has more than 8 bits. */
function add(text: string, length: number, tag: number): boolean {
  let first = factors[0]!;
  let second = factors[1]!;
  let third = factors[2]!;
  let fourth = factors[3]!;
  let a = first * tag;
  let b = second * tag;
  let c = third * tag;
  let d = fourth * tag;
  let bits = 0;
  for (let i = 0, at = 4; i < length; i += 2, at++) {
    const low = charCodeAt(text, i);
    const high = i + 1 < length ? charCodeAt(text, i + 1) : 0;
    const pair = (high << 8) + low;
    bits |= low | high;
    first = second;
    second = third;
    third = fourth;
    fourth = factors[at]!;
    a += first * pair;
    b += second * pair;
    c += third * pair;
    d += fourth * pair;
  }
  fingerprint[0] = modulo(a);
  fingerprint[1] = modulo(b);
  fingerprint[2] = modulo(c);
  fingerprint[3] = modulo(d);
  return bits < 256;
}

/** Computes `sum % PRIME` quickly: 2^31 is 1 modulo this prime. */
function modulo(sum: number): number {
  const high = Math.floor(sum / 2 ** 31);
  const folded = sum - high * PRIME;
  return folded >= PRIME ? folded - PRIME : folded;
}
