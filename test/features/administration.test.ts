import { expect } from 'chai';
import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { redisStore } from 'headgate/redis';
import { algorithms, policyOf, windowed } from '../support/policies.js';
import { runs } from '../support/random.js';
import { serverKinds } from '../support/shared-servers.js';
import { clients, freshPrefix, limiterOn, stores, TestClock } from '../support/stores.js';

/** Keys that patterns, separators and hash tags could confuse. */
const KEYS = [
  ...['user', 'user:', 'user:1', 'user:1:', 'user:1:9', 'user:*', 'user:?', 'user:[1]', '*', '?', ''],
  ...[
    '{',
    '}',
    '{}',
    '{user}',
    '}user',
    'user}s1',
    'user}b1',
    '%7b',
    '%',
    '%25',
    'a b',
    'ab',
    'a\0b',
    'ü',
    'u\u0308',
  ],
];

/** All keys of a server under a prefix: values and expiry times. */
async function dump(client: Redis, prefix: string): Promise<Map<string, string>> {
  const values = new Map<string, string>();
  for (const key of (await client.keys(`${prefix}:*`)).sort()) {
    const [value, until] = await Promise.all([client.dumpBuffer(key), client.pexpiretime(key)]);
    values.set(key, `${value.toString('base64')} until ${until}`);
  }
  return values;
}

for (const [name, createStore] of Object.entries(stores)) {
  describe(`reset on ${name}`, () => {
    it('forgets one key of one scope, and nothing else', async () => {
      const clock = new TestClock();
      const store = createStore(clock.read);
      const policies = windowed.map((algorithm) => ({
        ...{ name: algorithm, algorithm, limit: 9 },
        ...(algorithm === 'concurrency' ? { lease: '1h' } : { window: '1h' }),
      }));
      const scopes = ['api', 'api:user', 'user', '*'].map((scope) =>
        limiterOn(store, { name: scope, policies: policies as never, ban: {} }),
      );
      for (const limiter of scopes) for (const key of KEYS) await limiter.consume(key, { cost: 2 });
      const remainingUnits = async () => {
        const units: Record<string, number[]> = {};
        for (const limiter of scopes) {
          for (const key of KEYS) {
            const { policies: verdicts } = await limiter.peek(key);
            units[`${limiter.name} ${key}`] = verdicts.map(({ remaining }) => remaining);
          }
        }
        return units;
      };
      const expected = await remainingUnits();
      expect(
        Object.values(expected)
          .flat()
          .every((units) => units === 7),
      ).to.be.true;
      for (const limiter of scopes.slice(0, 2)) {
        for (const key of KEYS) {
          await limiter.reset(key);
          expected[`${limiter.name} ${key}`] = windowed.map(() => 9);
        }
        expect(await remainingUnits()).to.deep.equal(expected);
      }
    });

    it('has no effect on a key without state', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), { limit: 3, window: '1h' });
      await limiter.reset('nobody');
      await limiter.reset('nobody');
      expect((await limiter.consume('nobody')).remaining).to.equal(2);
    });
  });
}

for (const kind of serverKinds) {
  describe(`reset and peek on ${kind}`, () => {
    const client = clients[kind];

    it('reset deletes the keys of its policies, and leaves every other byte alone', async () => {
      const prefix = freshPrefix();
      const clock = new TestClock();
      const limiter = limiterOn(redisStore(client, { prefix, clock: clock.read }), {
        limit: 3,
        window: '1h',
      });
      for (const key of KEYS) await limiter.consume(key);
      const before = await dump(client, prefix);
      expect(before.size).to.equal(KEYS.length);
      for (const [i, key] of KEYS.entries()) {
        await limiter.reset(key);
        const after = await dump(client, prefix);
        const states = [...after].filter(([name]) => !name.includes('}r2:'));
        expect(states.length).to.equal(KEYS.length - i - 1);
        // The new keys only record the reset.
        expect(after.size).to.equal(KEYS.length);
        for (const [name, value] of states) expect(value).to.equal(before.get(name));
      }
    });

    it('a peek never writes: neither values nor expiry times, whatever the state', () =>
      fc.assert(
        fc.asyncProperty(
          fc.array(
            fc.constantFrom(...algorithms).chain((algorithm) => policyOf(algorithm)),
            { minLength: 1, maxLength: 4 },
          ),
          fc.array(
            fc.record({
              // A clock that jumps leaves state that a decision would heal, but a look must not.
              wait: fc.constantFrom(0, 1, 700, 20_000, -5_000, 3_600_000),
              cost: fc.constantFrom(1, 2, 7),
            }),
            { minLength: 1, maxLength: 10 },
          ),
          async (random, steps) => {
            const prefix = freshPrefix();
            const clock = new TestClock();
            const policies = random.map((policy, i) => ({ ...policy, name: `p${i}` }));
            const limiter = limiterOn(redisStore(client, { prefix, clock: clock.read }), {
              policies: policies,
              ban: { after: 2 },
            });
            for (const { wait, cost } of steps) {
              clock.now += wait;
              await limiter.consume('k', { cost });
              clock.now -= 2_000;
              const before = await dump(client, prefix);
              for (const peeked of [0, 1, 7, 1_000]) await limiter.peek('k', { cost: peeked });
              await limiter.peek('nobody');
              await limiter.consume('k', { cost: 0 });
              expect(await dump(client, prefix)).to.deep.equal(before);
            }
          },
        ),
        runs(kind, 0, 25),
      ));

    it(`a peek sends no command that writes`, async () => {
      const prefix = freshPrefix();
      const clock = new TestClock();
      const limiter = limiterOn(redisStore(client, { prefix, clock: clock.read }), {
        policies: windowed.map((algorithm) => ({
          ...{ name: algorithm, algorithm, limit: 1 },
          ...(algorithm === 'concurrency' ? { lease: '1h' } : { window: '1h' }),
        })) as never,
        ban: { after: 1 },
      });
      await limiter.consume('k');
      await limiter.peek('k');
      await client.config('RESETSTAT');
      for (const key of ['k', 'nobody']) await limiter.peek(key);
      const statistics = await client.info('commandstats');
      const names = [...statistics.matchAll(/^cmdstat_([^:|]+)/gm)].map(([, command]) => command);
      expect(names).to.include('evalsha');
      for (const command of [
        'set',
        'setrange',
        'incrby',
        'del',
        'pexpireat',
        'zadd',
        'zrem',
        'zremrangebyscore',
      ]) {
        expect(names).to.not.include(command);
      }
    });
  });
}
