import { createHash, randomInt } from 'node:crypto';

const PRIME = 2 ** 31 - 1;

/** Longer keys are hashed first (SHA-256). With so many terms of less than 2^47 a sum is an exact integer. */
const LONGEST = 63;

/** Random, of this process: four for the length, then four for each character. */
const factors = Float64Array.from({ length: 4 * (LONGEST + 1) }, () => randomInt(PRIME));

/** The fingerprint that was taken last: four integers from 0 to 2^31 - 2. */
export const fingerprint = new Int32Array(4);

/**
 * Takes 124 bits that stand for a key. Each of the four integers is the sum of the key's length and characters, each times
 * its own secret random factor, modulo a prime. Two different keys, whoever chose them, agree in one of these sums with a
 * probability of 1/PRIME (Carter and Wegman: universal hashing), and in all four with 2^-124: less than one in 10^18 that a
 * million keys and a billion others ever meet. It takes less time than looking a string up in a Map.
 */
export function takeFingerprint(key: string): void {
  let text = key;
  let { length } = key;
  if (length > LONGEST) {
    // The bytes of UTF-16, so that lone surrogates stay different. A length of its own keeps them apart from short keys.
    text = createHash('sha256').update(Buffer.from(key, 'utf16le')).digest('binary');
    length = LONGEST + 1;
  }
  let a = factors[0]! * length;
  let b = factors[1]! * length;
  let c = factors[2]! * length;
  let d = factors[3]! * length;
  for (let i = 0, at = 4; i < text.length; i++, at += 4) {
    const unit = text.charCodeAt(i);
    a += factors[at]! * unit;
    b += factors[at + 1]! * unit;
    c += factors[at + 2]! * unit;
    d += factors[at + 3]! * unit;
  }
  fingerprint[0] = modulo(a);
  fingerprint[1] = modulo(b);
  fingerprint[2] = modulo(c);
  fingerprint[3] = modulo(d);
}

/** `sum % PRIME`, but quick: 2^31 is 1 modulo this prime. */
function modulo(sum: number): number {
  const high = Math.floor(sum / 2 ** 31);
  const folded = sum - high * PRIME;
  return folded >= PRIME ? folded - PRIME : folded;
}
