// SHA-1 and SHA-256 without Node, because Web Crypto answers only later.

/** The first 32 bits of the fractional parts of roots of the first primes. */
function fractions(count: number, root: number): number[] {
  const found: number[] = [];
  for (let n = 2; found.length < count; n++) {
    let isPrime = true;
    for (let by = 2; by * by <= n; by++) isPrime &&= n % by !== 0;
    if (isPrime) found.push((n ** (1 / root) * 2 ** 32) | 0);
  }
  return found;
}

const ROUNDS = fractions(64, 3);
const START = fractions(8, 2);

const rotate = (word: number, by: number): number => (word >>> by) | (word << (32 - by));

type Mix = (state: number[], words: Int32Array) => void;

const mixSha256: Mix = (state, words) => {
  for (let t = 16; t < 64; t++) {
    const [early, late] = [words[t - 15]!, words[t - 2]!];
    const first = rotate(early, 7) ^ rotate(early, 18) ^ (early >>> 3);
    const second = rotate(late, 17) ^ rotate(late, 19) ^ (late >>> 10);
    words[t] = words[t - 16]! + first + words[t - 7]! + second;
  }
  let [a, b, c, d, e, f, g, h] = state as [number, number, number, number, number, number, number, number];
  for (let t = 0; t < 64; t++) {
    const first = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const added = (h + first + ((e & f) ^ (~e & g)) + ROUNDS[t]! + words[t]!) | 0;
    const second = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const sum = (second + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + added) | 0, c, b, a, (added + sum) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] = (state[i]! + word) | 0));
};

const mixSha1: Mix = (state, words) => {
  for (let t = 16; t < 80; t++)
    words[t] = rotate(words[t - 3]! ^ words[t - 8]! ^ words[t - 14]! ^ words[t - 16]!, 31);
  let [a, b, c, d, e] = state as [number, number, number, number, number];
  for (let t = 0; t < 80; t++) {
    const [chosen, constant] =
      t < 20
        ? [(b & c) | (~b & d), 0x5a827999]
        : t >= 40 && t < 60
          ? [(b & c) | (b & d) | (c & d), 0x8f1bbcdc]
          : [b ^ c ^ d, t < 40 ? 0x6ed9eba1 : 0xca62c1d6];
    const next = (rotate(a, 27) + chosen + e + constant + words[t]!) | 0;
    [e, d, c, b, a] = [d, c, rotate(b, 2), a, next];
  }
  [a, b, c, d, e].forEach((word, i) => (state[i] = (state[i]! + word) | 0));
};

const KINDS = {
  sha1: { mix: mixSha1, start: [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0] },
  sha256: { mix: mixSha256, start: START },
};

const BLOCK_BYTES = 64;

export function hashBytes(kind: keyof typeof KINDS, bytes: Uint8Array): Uint8Array {
  const { mix, start } = KINDS[kind];
  const padded = new DataView(new ArrayBuffer(Math.ceil((bytes.length + 9) / BLOCK_BYTES) * BLOCK_BYTES));
  new Uint8Array(padded.buffer).set(bytes);
  padded.setUint8(bytes.length, 0x80);
  padded.setBigUint64(padded.byteLength - 8, BigInt(bytes.length) * 8n);
  const state = [...start];
  const words = new Int32Array(80);
  for (let block = 0; block < padded.byteLength; block += BLOCK_BYTES) {
    for (let t = 0; t < 16; t++) words[t] = padded.getInt32(block + 4 * t);
    mix(state, words);
  }
  const result = new DataView(new ArrayBuffer(4 * state.length));
  state.forEach((word, i) => result.setInt32(4 * i, word));
  return new Uint8Array(result.buffer);
}

/** HMAC with SHA-256. */
export function hmacBytes(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  const padded = new Uint8Array(BLOCK_BYTES);
  padded.set(key.length > BLOCK_BYTES ? hashBytes('sha256', key) : key);
  const behind = (mask: number, rest: Uint8Array): Uint8Array =>
    hashBytes('sha256', Uint8Array.from([...padded.map((byte) => byte ^ mask), ...rest]));
  return behind(0x5c, behind(0x36, bytes));
}
