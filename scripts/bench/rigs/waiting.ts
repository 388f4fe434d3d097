// A process whose requests wait for a quota shared with further processes.
import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter, type Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';

/** The arrival and the admission of a request, ms since 1970. */
export type Wait = readonly [came: number, went: number];

const now = (): number => performance.timeOrigin + performance.now();

export function start({ port }: { port: number }) {
  const store = redisStore(new Redis(port), { publish: false });
  return {
    /** Keeps `each` requests waiting, until a time. */
    async wait(name: string, policy: Policy, each: number, until: number): Promise<Wait[]> {
      const limiter = createLimiter({
        ...{ name, store, onStoreError: 'throw', timeout: '5s', policies: [policy] },
      });
      const waits: Wait[] = [];
      // Learns the server's time, and loads the scripts.
      await limiter.wait('warm', { timeout: '5s' });
      const end = new AbortController();
      setMaxListeners(0, end.signal);
      const all = Array.from({ length: each }, async () => {
        await sleep(100 * Math.random());
        for (;;) {
          const came = now();
          await limiter.wait('key', { signal: end.signal });
          waits.push([came, now()]);
        }
      });
      await sleep(until - now());
      end.abort();
      await Promise.allSettled(all);
      await limiter.close();
      return waits;
    },
  };
}
