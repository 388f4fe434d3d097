// Windows below a second and beyond 24.8 days (the maximum of a timer), and expiry in real time.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Algorithm } from 'headgate';
import { redisStore } from 'headgate/redis';
import { windowed as algorithms } from './support/policies.js';
import { serverKinds } from './support/shared-servers.js';
import { clients, freshPrefix, limiterOn, stores, TestClock } from './support/stores.js';

const DAY = 24 * 3_600_000;

const policy = (algorithm: Algorithm, limit: number, window: number | string) =>
  (algorithm === 'concurrency' ? { algorithm, limit, lease: window } : { algorithm, limit, window }) as never;

for (const [name, createStore] of Object.entries(stores)) {
  describe(`windows on ${name}`, () => {
    for (const algorithm of algorithms) {
      for (const [window, ms] of [
        ['1ms', 1],
        ['7ms', 7],
        ['250ms', 250],
        ['1.9s', 1_900],
        ['25d', 25 * DAY],
        ['30d', 30 * DAY],
        ['366d', 366 * DAY],
      ] as const) {
        it(`${algorithm}: ${window}`, async () => {
          const clock = new TestClock();
          const limiter = limiterOn(createStore(clock.read), policy(algorithm, 2, window));
          expect(await limiter.consume('key', { cost: 2 })).to.include({ allowed: true });
          const { allowed, retryAfterMs, resetAfterMs } = await limiter.consume('key', { cost: 2 });
          expect(allowed).to.be.false;
          expect(retryAfterMs).to.be.within(ms, Math.ceil(1.1 * ms) + 1);
          expect(resetAfterMs).to.equal(retryAfterMs);
          clock.now += retryAfterMs! - 1;
          expect((await limiter.consume('key', { cost: 2 })).allowed).to.be.false;
          clock.now += 1;
          expect((await limiter.consume('key', { cost: 2 })).allowed).to.be.true;
        });
      }
    }

    it("by the store's own time: weeks and months", async () => {
      for (const algorithm of algorithms) {
        for (const days of [10, 20, 25, 30, 366]) {
          const limiter = limiterOn(createStore(), policy(algorithm, 3, `${days}d`));
          for (const remaining of [2, 1, 0]) {
            const decision = await limiter.consume('key');
            expect(decision.remaining, `${algorithm} ${days}d`).to.equal(remaining);
            const whole = /bucket|gcra/.test(algorithm) ? (3 - remaining) / 3 : 1;
            expect(decision.resetAfterMs).to.be.within(whole * days * DAY - 10_000, 1.1 * days * DAY + 1);
          }
          const { allowed, retryAfterMs } = await limiter.consume('key', { cost: 3 });
          expect(allowed).to.be.false;
          expect(retryAfterMs).to.be.within(days * DAY - 10_000, 1.1 * days * DAY + 1);
        }
      }
    });

    it("by the store's own time: millions of units", async () => {
      const limiter = limiterOn(createStore(), policy('fixed-window', 2 ** 23, '1h'));
      for (const remaining of [6_388_608, 4_388_608, 2_388_608, 388_608])
        expect(await limiter.consume('key', { cost: 2_000_000 })).to.include({ allowed: true, remaining });
      expect((await limiter.consume('key', { cost: 2_000_000 })).allowed).to.be.false;
    });

    it('in real time: spent units are back after retryAfter, and not before', async () => {
      const window = 1000;
      const limiters = algorithms.map((algorithm) =>
        limiterOn(createStore(), {
          name: algorithm,
          ...(policy(algorithm, 2, window) as { limit: number; window: number }),
        }),
      );
      let key = '';
      const consume = () => Promise.all(limiters.map((limiter) => limiter.consume(key, { cost: 2 })));
      const wait = (decisions: { retryAfterMs: number | undefined }[]) =>
        Math.max(...decisions.map(({ retryAfterMs }) => retryAfterMs!));
      let denied: Awaited<ReturnType<typeof consume>>;
      // If this machine pauses for most of the window, units are back: then it begins again with another key.
      for (let start = -Infinity; performance.now() - start > window / 2;) {
        [key, start] = [`${key}k`, performance.now()];
        for (const { allowed } of await consume()) expect(allowed).to.be.true;
        denied = await consume();
      }
      for (const [i, { allowed, retryAfterMs }] of denied!.entries()) {
        expect(allowed, algorithms[i]).to.be.false;
        expect(retryAfterMs, algorithms[i]).to.be.within(1, 1.1 * window + 1);
      }
      await sleep(wait(denied!) + 1);
      for (const [i, { allowed }] of (await consume()).entries()) expect(allowed, algorithms[i]).to.be.true;
    });
  });
}

for (const name of serverKinds) {
  it(`${name} forgets expired keys by itself`, async () => {
    const prefix = freshPrefix();
    const store = redisStore(clients[name], { prefix, publish: false });
    const policies = algorithms.map((algorithm) => ({
      name: algorithm,
      ...(policy(algorithm, 2, 1000) as object),
    }));
    const limiter = limiterOn(store, {
      policies: policies as never,
      ban: { after: 1, within: 1000, for: 1000, max: 1000 },
    });
    const { resetAfterMs } = await limiter.consume('key', { cost: 2 });
    await limiter.consume('key');
    // Ignores the keys that are for operators.
    const keys = () => clients[name].keys(`${prefix}:{*:key}*`);
    expect(await keys()).to.have.length(policies.length + 1);
    // The ban lasts a second, and is forgotten a second later.
    await sleep(Math.max(resetAfterMs, 2000) + 5);
    expect(await keys()).to.deep.equal([]);
  });
}
