// Law 16 beyond the decision itself: debts that outlast a lower rate, records that cannot be read, and overrides of other policies that end.
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import { redisStore } from 'headgate/redis';
import { memoryStore, type Limiter, type Store } from 'headgate';
import { runs } from '../../support/random.js';
import { serverKinds } from '../../support/shared-servers.js';
import { clients, freshPrefix, limiterOn, map, memory, stores, TestClock } from '../../support/stores.js';

const SECOND = 1000;

const bucket = (limit: number, burst: number) =>
  ({ name: 'bucket', algorithm: 'token-bucket', limit, window: '1m', burst }) as const;

const other = { name: 'other', limit: 1e6, window: '1h' };

describe('a debt under a lower rate', () => {
  for (const [name, create] of Object.entries({ memory, map })) {
    it(`is not forgotten while other keys and policies are charged, on ${name}`, () =>
      fc.assert(
        fc.asyncProperty(
          fc.record({ limit: fc.constantFrom(6, 30, 60), burst: fc.constant(30) }),
          fc.array(
            fc.record({
              wait: fc.constantFrom(0, 1, 900, 5 * SECOND, 80 * SECOND, 200 * SECOND),
              act: fc.oneof(
                fc.record({ cost: fc.constantFrom(1, 5, 10) }),
                fc.record({
                  limit: fc.constantFrom(1, 2, 30, 600),
                  burst: fc.constantFrom(undefined, 30),
                  length: fc.constantFrom(undefined, undefined, 700, 20 * SECOND),
                }),
                fc.record({ remove: fc.constant(true) }),
                fc.constant({}),
              ),
            }),
            { minLength: 3, maxLength: 14 },
          ),
          async (policy, steps) => {
            const clock = new TestClock();
            const make = () =>
              limiterOn(create(clock.read), {
                // In memory, another policy's charges would keep the row of the key.
                policies: [bucket(policy.limit, policy.burst), ...(name === 'map' ? [other] : [])],
                overrides: true,
              });
            const [quiet, busy] = [make(), make()];
            const left = async (limiter: Limiter) => (await limiter.peek('k')).policies[0]!.remaining;
            for (const { wait, act } of steps) {
              clock.now += wait;
              for (let i = 0; i < (name === 'map' ? 0 : 60); i++) await busy.consume(`${i} ${clock.now}`);
              if (name === 'map') await busy.consume('k', { cost: { bucket: 0, other: 1 } });
              const change =
                'limit' in act ? { limit: act.limit, ...(act.burst && { burst: act.burst }) } : {};
              for (const limiter of [quiet, busy]) {
                if ('cost' in act)
                  await limiter.consume('k', {
                    cost: name === 'map' ? { bucket: act.cost, other: 0 } : act.cost,
                  });
                else if ('remove' in act) await limiter.removeOverride('k');
                else if ('limit' in act)
                  await limiter.override(
                    'k',
                    name === 'map' ? { bucket: change } : change,
                    act.length ? { for: act.length } : {},
                  );
              }
              expect(await left(busy)).to.equal(await left(quiet));
            }
            await Promise.all([quiet.close(), busy.close()]);
          },
        ),
        runs(name, 300, 150),
      ));
  }

  it('denies the program of issue 58', async () => {
    const clock = new TestClock();
    const limiter = limiterOn(memory(clock.read), {
      ...bucket(30, 30),
      burst: undefined,
      overrides: true,
    });
    await limiter.consume('k', { cost: 2 });
    await limiter.override('k', { limit: 1 });
    clock.now += 5 * SECOND;
    for (let i = 0; i < 200; i++) await limiter.consume(`other ${i}`);
    expect((await limiter.consume('k')).allowed).to.be.false;
  });

  for (const kind of serverKinds) {
    it(`is kept for as long as it may last, on ${kind}`, async () => {
      const prefix = freshPrefix();
      const limiter = limiterOn(redisStore(clients[kind], { prefix }), {
        ...bucket(30, 30),
        overrides: true,
      });
      const life = async () => {
        const [key] = await clients[kind].keys(`${prefix}:*}g3@*`);
        return clients[kind].pttl(key!);
      };
      await limiter.consume('k', { cost: 2 });
      expect(await life()).to.be.within(1, 4 * SECOND);
      await limiter.override('k', { limit: 1 });
      expect(await life()).to.be.above(60 * SECOND);
      await limiter.override('k', { limit: 600 }, { for: '10s' });
      await limiter.reset('k');
      await limiter.consume('k', { cost: 20 });
      expect(await life()).to.be.within(1, 2 * SECOND);
      await limiter.override('k', { limit: 60 }, { for: '1s' });
      await limiter.consume('k', { cost: 1 });
      // When the override ends, the lower configured rate applies to the rest of the debt.
      expect(await life()).to.be.above(60 * SECOND);
    });
  }
});

for (const kind of serverKinds) {
  it(`law 13: charges of a bucket in one call are returned like charges one by one, on ${kind}`, () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 2, maxLength: 8 }),
        fc.array(fc.tuple(fc.nat(7), fc.constantFrom(0, 1, 200, 3000)), { maxLength: 8 }),
        async (costs, returns) => {
          const clock = new TestClock();
          const make = (store: Store) => limiterOn(store, { ...bucket(60, 60) });
          const batched = make(redisStore(clients[kind], { prefix: freshPrefix(), clock: clock.read }));
          const single = make(memoryStore({ clock: clock.read }));
          const together = await Promise.all(costs.map((cost) => batched.consume('k', { cost })));
          const apart = [];
          for (const cost of costs) apart.push(await single.consume('k', { cost }));
          for (const [i, wait] of returns) {
            clock.now += wait;
            await together[i % costs.length]!.refund();
            await apart[i % costs.length]!.refund();
            expect((await batched.peek('k')).remaining).to.equal((await single.peek('k')).remaining);
          }
        },
      ),
      runs(kind, 100, 60),
    ));
}

for (const [name, createStore] of Object.entries(stores)) {
  describe(`records that cannot be read, on ${name}`, () => {
    /** The warnings during a task. */
    const warningsOf = async (task: () => Promise<void>): Promise<string[]> => {
      const warned: string[] = [];
      const onWarning = ({ message }: Error): void => void warned.push(message);
      process.on('warning', onWarning);
      await task();
      await setImmediate();
      process.off('warning', onWarning);
      return warned;
    };

    for (const entry of ['\tno fields', '\tf3@1m:default\t0x10\t{"change":1}', '\t*\t!\t{}']) {
      for (const policies of [
        ['fixed-window 5/1m'],
        ['token-bucket 5/1m'],
        ['a=fixed-window 5/1m', 'b=9/1m'],
      ]) {
        it(`leave the configured limits in force, and are reported once per key: ${entry.trim()}, ${policies.join()}`, async () => {
          const clock = new TestClock();
          const store = createStore(clock.read);
          const scope = `unreadable ${freshPrefix()}`;
          const limiter = limiterOn(store, { name: scope, policies, overrides: true });
          for (const key of ['k', 'l'])
            await store.overrides!.change(
              { subject: { set: limiter.set, key }, by: 'key' },
              { entry, duration: 0, life: 60_000 },
            );
          const warned = await warningsOf(async () => {
            for (const left of [4, 3, 2]) {
              for (const key of ['k', 'l', 'm']) {
                const { allowed, limit, remaining } = await limiter.consume(key);
                expect([allowed, limit, remaining]).to.deep.equal([true, 5, left]);
              }
            }
          });
          const keys = warned.map(
            (message) => /an override of "(.)", so the configured limits/.exec(message)?.[1],
          );
          expect(keys).to.deep.equal(['k', 'l']);
          // A new override replaces the record.
          await limiter.override('k', policies.length === 1 ? { limit: 7 } : { a: { limit: 7 } });
          expect((await limiter.consume('k')).policies[0]).to.include({ limit: 7, remaining: 3 });
          await limiter.close();
        });
      }
    }

    it('the wait of a shared limit ends with the override of another policy', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), {
        policies: ['shared=sliding-window 5/6s by org share tenant', 'own=fixed-window 3/1s by account'],
        overrides: true,
      });
      const keys = { org: 'o', tenant: 't', account: 'ada' };
      await limiter.consume(keys);
      clock.now += 15;
      await limiter.override({ account: 'ada' }, { own: { limit: 1 } }, { for: 102 });
      clock.now += 15;
      const denied = await limiter.consume(keys);
      expect([denied.allowed, denied.retryAfterMs]).to.deep.equal([false, 87]);
      clock.now += 86;
      expect((await limiter.peek(keys)).allowed).to.be.false;
      clock.now += 1;
      expect((await limiter.consume(keys)).allowed).to.be.true;
    });
  });
}

for (const kind of serverKinds) {
  it(`a record of another type is reported, on ${kind}`, async () => {
    const prefix = freshPrefix();
    const limiter = limiterOn(redisStore(clients[kind], { prefix }), {
      name: `typed ${prefix}`,
      limit: 5,
      window: '1m',
      overrides: true,
    });
    await limiter.override('k', { limit: 9 }, { for: '1m' });
    const [key] = await clients[kind].keys(`${prefix}:*}o1*`);
    await clients[kind].del(key!);
    await clients[kind].hset(key!, 'a', '1');
    await clients[kind].pexpire(key!, 60_000);
    const warned: string[] = [];
    const onWarning = ({ message }: Error): void => void warned.push(message);
    process.on('warning', onWarning);
    expect(await limiter.consume('k')).to.include({ limit: 5, remaining: 4 });
    await setImmediate();
    process.off('warning', onWarning);
    expect(warned.join()).to.match(/override of "k".*WRONGTYPE/);
    await limiter.close();
  });
}
