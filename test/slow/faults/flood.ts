// Attacks a memory store with ever new keys, while it holds a denied and a banned key.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createLimiter, memoryStore } from 'headgate';

export interface Flooded {
  readonly decisions: number;
  /** Bytes, after garbage collection, at each quarter. */
  readonly heaps: readonly number[];
  readonly keys: number;
  readonly stillDenied: boolean;
  readonly stillBanned: boolean;
  /** The longest time for which the event loop was blocked, ms. */
  readonly longestPause: number;
  readonly perSecond: number;
}

/** Needs `--expose-gc`. */
export async function flood(decisions: number, maxKeys: number): Promise<Flooded> {
  if (!globalThis.gc) throw new Error('Run node with --expose-gc.');
  const store = memoryStore({ maxKeys });
  const limiter = createLimiter({ store, policies: '2/1h', ban: { after: 3, within: '1h', for: '1h' } });
  for (let i = 0; i < 3; i++) void limiter.decide('denied');
  for (let i = 0; i < 6; i++) void limiter.decide('banned');
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const heaps: number[] = [];
  let busy = 0;
  let longest = 0;
  const quarter = Math.floor(decisions / 4);
  for (let made = 0; made < decisions;) {
    delay.enable();
    const start = performance.now();
    const stop = made + quarter;
    while (made < stop) {
      // Some decisions in a turn of the event loop, as requests arrive.
      for (let i = 0; i < 100; i++) void limiter.decide(`attacker-${made++}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
    busy += performance.now() - start;
    delay.disable();
    longest = Math.max(longest, delay.max / 1e6);
    delay.reset();
    globalThis.gc();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    heaps.push(heapUsed + arrayBuffers);
    if (made + quarter > decisions) break;
  }
  const denied = await limiter.peek('denied');
  const banned = await limiter.peek('banned');
  await limiter.close();
  return {
    decisions: quarter * 4,
    heaps,
    keys: store.size,
    stillDenied: !denied.allowed,
    stillBanned: banned.reason === 'banned',
    longestPause: longest,
    perSecond: (quarter * 4 * 1000) / busy,
  };
}
