// Law 11 at its full size: a store at its cap under a flood of fresh keys.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import { createLimiter, memoryStore } from 'headgate';
import { takeFingerprint, fingerprint } from '../src/stores/fingerprint.js';

const MAX_KEYS = 100_000;
const FLOOD = 200_000;
const TURN = 1_000;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

function heap(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** The heap's size after garbage collection. Buffers are freed some time after their objects. */
async function settledHeap(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return heap();
}

describe('the memory store', function () {
  // Only the processor limits these tests.
  this.timeout(180_000);

  it('at its cap, a flood of fresh keys frees no denied or banned key, and neither memory nor the table grows', async () => {
    const store = memoryStore({ maxKeys: MAX_KEYS });
    const limiter = createLimiter({ store, limit: 2, window: '1h', ban: { after: 2, for: '1h' } });
    const denied = Array.from({ length: 500 }, (_, i) => `denied ${i}`);
    const banned = Array.from({ length: 500 }, (_, i) => `banned ${i}`);
    for (const key of denied) for (let i = 0; i < 3; i++) await limiter.consume(key);
    for (const key of banned) for (let i = 0; i < 4; i++) await limiter.consume(key);

    let longest = 0;
    const flood = async (name: string) => {
      for (let i = 0; i < FLOOD; i += TURN) {
        const start = performance.now();
        for (let j = i; j < i + TURN; j++) void limiter.decide(`${name} ${j}`);
        longest = Math.max(longest, performance.now() - start);
        await new Promise(setImmediate);
      }
    };
    await flood('fresh');
    expect(store.size).to.equal(MAX_KEYS);
    const before = heap();
    await flood('fresher');
    expect(store.size).to.equal(MAX_KEYS);
    // 200,000 keys would take about 10 MB if the store kept them.
    expect(heap() - before).to.be.below(5e6);
    for (const key of denied) expect((await limiter.peek(key)).allowed).to.be.false;
    for (const key of banned) expect((await limiter.peek(key)).reason).to.equal('banned');
    console.log(`      longest turn of ${TURN} decisions: ${longest.toFixed(1)} ms`);
  });

  it('finds every key again while the table grows, and after other keys were removed', async () => {
    let now = 1e12;
    const store = memoryStore({ clock: () => now });
    const limiter = createLimiter({ store, algorithm: 'fixed-window', limit: 10, window: 1000 });
    // An expectation for each of half a million calls would take longer than the calls.
    const expectRemaining = async (key: string, expected: number) => {
      const { remaining } = await limiter.consume(key);
      if (remaining !== expected) expect(remaining, key).to.equal(expected);
    };
    const count = 70_000;
    for (let i = 0; i < count; i++) await expectRemaining(`key ${i}`, 9);
    expect(store.size).to.equal(count);
    for (let i = 0; i < count; i++) await expectRemaining(`key ${i}`, 8);
    now += 1000;
    for (let i = 0; i < count; i += 7) await expectRemaining(`key ${i}`, 9);
    for (let i = 0; i < count; i++) await expectRemaining(`new ${i}`, 9);
    expect(store.size).to.be.below(1.5 * count);
    for (let i = 0; i < count; i += 7) await expectRemaining(`key ${i}`, 8);
    for (let i = 0; i < count; i++) await expectRemaining(`new ${i}`, 8);
  });

  it('keeps nothing for tiers that are no longer used, however the table has grown since', async () => {
    const policies = [{ algorithm: 'fixed-window', limit: 10, window: '1h' } as const];
    const count = 200_000;
    const tiers = 20;
    const before = await settledHeap();
    const limiter = createLimiter({ policies });
    const sets = Array.from({ length: tiers }, () => limiter.compile(policies));
    for (let i = 0; i < count; i++) void limiter.decide(`key ${i}`, 1, sets[Math.floor((i * tiers) / count)]);
    const size = (await settledHeap()) - before;
    // Keeps all sets alive until here.
    expect([...sets, limiter]).to.have.lengthOf(tiers + 1);
    // A separate table for each set would take 68 bytes a key; one table for all sets takes 48. The test compares with a constant instead of a
    // second measurement, because memory of earlier tests may be freed meanwhile.
    expect(size).to.be.below(57 * count);
  });

  it('gives different fingerprints to keys that differ in length, order, NUL, surrogates or deep inside', () => {
    const long = 'x'.repeat(10_000);
    const keys = ['', '\0', '\0\0', 'ab', 'ba', 'a', 'a\0', '\ud800', '\ud801', '\udc00', '\ufffd', '😀'];
    // Wide keys are hashed by their bytes. Neither the bytes nor the hash may be mistaken for those of characters.
    keys.push(
      '\u0100',
      '\u0001',
      '\u0000\u0001',
      '\u0001\u0000',
      'a\u0100',
      'ÿÿ',
      '\uffff',
      'ж'.repeat(63),
      'ж'.repeat(64),
    );
    keys.push(
      'y'.repeat(125),
      'y'.repeat(126),
      'y'.repeat(127),
      'y'.repeat(128),
      long,
      `${long}x`,
      `${long.slice(1)}y`,
    );
    keys.push(`${long}\ud800`, `${long}\ud801`, `${long}\ufffd`);
    const prints = keys.map((key) => {
      takeFingerprint(key);
      return fingerprint.join();
    });
    expect(new Set(prints).size).to.equal(keys.length);
  });
});
