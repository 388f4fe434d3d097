// The substitute of a failing store: bans, charges, and their ends by the store's return and by operators.
import assert from 'node:assert/strict';
import { createLimiter, memoryStore, type Limiter, type Store } from 'headgate';
import { until } from '../slow/faults/load.js';

const fail = (): Promise<never> => Promise.reject(new Error('away'));

/** A remote store in memory that the test takes away and brings back. */
function remoteStore(): { store: Store; setAway: (away: boolean) => void; resets: () => number } {
  const inner = memoryStore();
  let isAway = false;
  let resets = 0;
  const asked =
    <A extends unknown[], T>(ask: (...args: A) => T) =>
    async (...args: A): Promise<Awaited<T>> =>
      await (isAway ? fail() : ask(...args));
  const store: Store = {
    decide: asked((query) => inner.decide(query)),
    adjust: asked((change) => inner.adjust(change)),
    lease: asked((change) => inner.lease(change)),
    reset: asked((subject, isLogged) => {
      resets++;
      return inner.reset(subject, isLogged);
    }),
    ban: asked((...ban) => inner.ban(...ban)),
  };
  return { store, setAway: (away) => (isAway = away), resets: () => resets };
}

const reasonsOf = async (limiter: Limiter, count: number): Promise<unknown[]> => {
  const reasons: unknown[] = [];
  for (let i = 0; i < count; i++) reasons.push((await limiter.consume('k')).reason);
  return reasons;
};

async function bringBack(limiter: Limiter): Promise<void> {
  await until(async () => !(await limiter.consume('other')).degraded);
}

describe('the substitute of a failing store', () => {
  const BAN = { after: 3, within: '10m', for: '1h' } as const;

  for (const isDown of [false, true]) {
    it(`ends its own bans when the store answers again (${isDown ? 'down' : 'a short failure'})`, async () => {
      const { store, setAway } = remoteStore();
      const limiter = createLimiter({ store, limit: 2, window: '1d', algorithm: 'fixed-window', ban: BAN });
      await limiter.consume('other');
      setAway(true);
      if (isDown) {
        await until(async () => {
          await limiter.consume('x');
          return limiter.health.state === 'down';
        });
      }
      assert.equal((await reasonsOf(limiter, 6)).at(-1), 'banned');
      setAway(false);
      await bringBack(limiter);
      assert.deepEqual(await reasonsOf(limiter, 1), [undefined]);
      setAway(true);
      // The charges of the first failure count on, its ban does not.
      assert.deepEqual((await reasonsOf(limiter, 1)).at(-1), 'quota-exceeded');
      await limiter.close();
    });
  }

  it('follows an unban and a reset of this process', async () => {
    const { store, setAway } = remoteStore();
    const limiter = createLimiter({ store, limit: 2, window: '1d', algorithm: 'fixed-window', ban: BAN });
    await limiter.consume('other');
    setAway(true);
    assert.equal((await reasonsOf(limiter, 6)).at(-1), 'banned');
    await assert.rejects(limiter.unban('k'));
    assert.deepEqual(await reasonsOf(limiter, 1), ['quota-exceeded']);
    await assert.rejects(limiter.reset('k'));
    assert.deepEqual(await reasonsOf(limiter, 2), [undefined, undefined]);
    await limiter.close();
  });

  it('leaves the charges of the store at a fresh ban of its own', async () => {
    const { store, setAway, resets } = remoteStore();
    const limiter = createLimiter({
      ...{ store, limit: 2, window: '1d', algorithm: 'fixed-window', ban: { ...BAN, fresh: true } },
    });
    await reasonsOf(limiter, 2);
    setAway(true);
    assert.equal((await reasonsOf(limiter, 6)).at(-1), 'banned');
    setAway(false);
    await bringBack(limiter);
    assert.equal(resets(), 0);
    assert.equal((await limiter.peek('k')).remaining, 0);
    await limiter.close();
  });
});
