// A store on a plain Map of bytes; `npx tsx examples/map-store.ts` uses it for decisions. A store on a table or a key-value server looks the
// same: read, let `change` decide, and write under a lock or with a compare-and-set.
import { pathToFileURL } from 'node:url';
import { createLimiter, type Clock, type Store } from 'headgate';
import { stateStore, type StateChange } from 'headgate/stores';

export function mapStore(clock: Clock = Date.now): Store {
  const states = new Map<string, { bytes: Uint8Array; expiresAt: number }>();

  /** Deletes expired states. Each update looks at the two states that were written longest ago, so that no timer is needed. */
  function sweep(now: number): void {
    let looks = 0;
    for (const [key, state] of states) {
      if (looks++ === 2) return;
      states.delete(key);
      if (state.expiresAt > now) states.set(key, state);
    }
  }

  function write(key: string, { changed, bytes, expiresAt }: StateChange, now: number): void {
    if (!changed) return;
    states.delete(key);
    sweep(now);
    if (bytes) states.set(key, { bytes, expiresAt });
  }

  return stateStore({
    // No other code runs between reading and writing, so no lock is needed.
    update(key, change) {
      const now = clock();
      write(key, change(states.get(key)?.bytes, now), now);
    },
    // For policies by several keys, such as `by: 'account'`: a table would do this in a transaction.
    updateAll(keys, change) {
      const now = clock();
      const changes = change(
        keys.map((key) => states.get(key)?.bytes),
        now,
      );
      changes.forEach((each, i) => write(keys[i]!, each, now));
    },
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const limiter = createLimiter({ store: mapStore(), limit: 2, window: '1m' });
  for (let i = 1; i <= 3; i++) {
    const { allowed, remaining } = await limiter.consume('ada');
    console.log(`request ${i}: ${allowed ? 'admitted' : 'denied'}, ${remaining} left`);
  }
  await limiter.close();
}
