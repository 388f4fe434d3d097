import { createHash, randomInt } from 'node:crypto';

const PRIME = 2 ** 31 - 1;

/** Each term is less than 2^47, and so the sum of this many is an exact integer. */
const TERMS = 64;

/** The first term is the tag, each other one a pair of characters. */
const LONGEST = 2 * (TERMS - 1);

/** Tags are the text's length, and tell what it is made of. */
const WIDE = 128;
const HASHED = 255;

const HASH_BYTES = 32;

/** Random, of this process. */
const factors = Float64Array.from({ length: TERMS + 3 }, () => randomInt(PRIME));

/** The fingerprint that was taken last: four integers from 0 to 2^31 - 2. */
export const fingerprint = new Int32Array(4);

/** Stands in a record where a fingerprint begins: no key has it. */
export const VACANT = -1;

/** Whether a record has the fingerprint that was taken last, from `at` on. */
export function hasFingerprint(records: Int32Array, at: number): boolean {
  return (
    records[at] === fingerprint[0] &&
    records[at + 1] === fingerprint[1] &&
    records[at + 2] === fingerprint[2] &&
    records[at + 3] === fingerprint[3]
  );
}

/**
 * Takes 124 bits that stand for a key. Each of the four integers is a sum modulo a prime: of the key's length and its pairs of
 * characters, each times a secret random factor; the next integer takes the next factor for each (a Toeplitz matrix). Two
 * different keys, whoever chose them, agree in one sum with a probability of 1/PRIME (Carter and Wegman: universal hashing),
 * and in all four with 2^-124, as the last pair in which they differ meets a factor that no sum before has met with it: less
 * than one in 10^18 that a million keys and a billion others ever meet.
 */
export function takeFingerprint(key: string): void {
  const { length } = key;
  if (length <= LONGEST && add(key, length, length)) return;
  // The bytes of UTF-16, so that lone surrogates stay different.
  const bytes = Buffer.from(key, 'utf16le');
  if (bytes.length <= LONGEST) add(bytes.toString('latin1'), bytes.length, WIDE + bytes.length);
  else add(createHash('sha256').update(bytes).digest('binary'), HASH_BYTES, HASHED);
}

/** V8 has a hidden class for each of the many ways to store a string, and looks up a method anew for each. */
const charCodeAt = Function.prototype.call.bind(String.prototype.charCodeAt) as (
  text: string,
  i: number,
) => number;

/** False, and it is no fingerprint, if there are characters of more than 8 bits. */
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

/** `sum % PRIME`, but quick: 2^31 is 1 modulo this prime. */
function modulo(sum: number): number {
  const high = Math.floor(sum / 2 ** 31);
  const folded = sum - high * PRIME;
  return folded >= PRIME ? folded - PRIME : folded;
}
