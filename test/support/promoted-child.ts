// Counts the bytes of a decision by an asynchronous store that outlive the collections of young objects. Runs with node --expose-gc and flags that
// make V8 collect young objects often, and old ones never.
import { getHeapSpaceStatistics } from 'node:v8';
import { createLimiter } from 'headgate';
import { stateStore } from 'headgate/stores';

const IN_FLIGHT = 64;
const DECISIONS = 40_000;

const rows = new Map<string, Uint8Array>();
const store = stateStore({
  async update(key, change) {
    await new Promise(setImmediate);
    const { bytes } = change(rows.get(key), Date.now());
    if (bytes) rows.set(key, bytes);
  },
});
const limiter = createLimiter({ limit: 1e9, window: '1h', store, timeout: '1m', warnings: false });

async function decide(): Promise<void> {
  let left = DECISIONS;
  const ask = async (): Promise<void> => {
    while (left-- > 0) await limiter.consume(`user ${left % 1000}`);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, ask));
}

const oldBytes = (): number =>
  getHeapSpaceStatistics().find((space) => space.space_name === 'old_space')!.space_used_size;

await decide();
globalThis.gc!();
const before = oldBytes();
await decide();
process.send!(Math.round((oldBytes() - before) / DECISIONS));
await limiter.close();
