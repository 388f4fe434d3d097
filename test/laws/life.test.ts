// Law 5. Every Redis key has a TTL after every operation. A key without a TTL ends in time nevertheless, and heals. Expired state decides like no state.
import { expect } from 'chai';
import fc from 'fast-check';
import type { Redis } from 'ioredis';
import type { Decision, Limiter, Policy, Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { allowKeysWithoutTtl } from '../support/hooks.js';
import { describeLaw } from '../support/kit.js';
import { algorithms, policyOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { serverKinds } from '../support/shared-servers.js';
import { clients, freshPrefix, limiterOn, TestClock } from '../support/stores.js';

const operation = fc.oneof(
  { weight: 6, arbitrary: fc.record({ consume: fc.constantFrom<number>(1, 1, 2, 5) }) },
  fc.record({ refund: fc.constantFrom(1, 5, 1_000) }),
  fc.record({ settle: fc.nat(), to: fc.constantFrom(0, 1, 7, 1_000) }),
  fc.record({ release: fc.nat() }),
  fc.record({ renew: fc.nat() }),
  fc.constantFrom('reset' as const, 'ban' as const, 'unban' as const),
);
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

const refund: Operation = { refund: 1 };

const steps = fc.array(fc.tuple(fc.constantFrom(0, 1, 500, 2_000, 61_000), operation), {
  minLength: 5,
  maxLength: 30,
});

const oneOfEach = fc
  .tuple(...algorithms.map((algorithm) => policyOf(algorithm)))
  .map((policies) => policies.map((policy, i) => ({ ...policy, name: `p${i}`, shadow: i > 1 })));

const ban = { after: 3, within: 10_000, for: 5_000, factor: 2, max: 20_000 };

async function perform(limiter: Limiter, operation: Operation, admitted: Decision[]): Promise<void> {
  if (operation === 'reset') return limiter.reset('key');
  if (operation === 'ban') return limiter.ban('key', 3_000);
  if (operation === 'unban') return limiter.unban('key');
  if ('refund' in operation) return limiter.refund('key', operation.refund);
  if ('consume' in operation) {
    const decision = await limiter.consume('key', { cost: operation.consume });
    if (decision.allowed) admitted.push(decision);
    return;
  }
  const past = (i: number) => admitted[i % admitted.length];
  if ('settle' in operation) await past(operation.settle)?.settle(operation.to);
  else if ('release' in operation) await past(operation.release)?.release();
  else await past(operation.renew)?.renew();
}

describeLaw('law 5, life');

for (const name of serverKinds) {
  const client = clients[name];

  describe(`law 5, life, on ${name}`, () => {
    for (const algorithm of algorithms) {
      it(`${algorithm}: the TTL is the time until the full quota is back`, () =>
        fc.assert(
          fc.asyncProperty(policyOf(algorithm), steps, async (policy, operations) => {
            const { clock, limiter, keys } = open(client, { policies: [policy], ban });
            const admitted: Decision[] = [];
            for (const [wait, each] of operations) {
              clock.now += wait;
              await limiter.unban('key');
              await perform(limiter, each, admitted);
              await limiter.unban('key');
              const [key] = await keys();
              const { resetAfterMs } = await limiter.peek('key');
              const rest = key ? (await client.pexpiretime(key)) - clock.now : 0;
              expect(Math.max(0, rest)).to.equal(resetAfterMs);
            }
          }),
          runs(name, 0, 8),
        ));
    }

    // Test clocks set every TTL themselves, so only the server's clock shows the TTLs that the scripts write.
    for (const algorithm of algorithms) {
      it(`${algorithm}: by the server's own clock, too`, () =>
        fc.assert(
          fc.asyncProperty(policyOf(algorithm), async (policy) => {
            const prefix = freshPrefix();
            const limiter = limiterOn(redisStore(client, { prefix, localDenials: false }), {
              policies: [policy],
            });
            for (let i = 0; i < 3; i++) {
              const sentAt = performance.now();
              const { resetAfterMs } = await limiter.consume('key');
              const [key] = (await client.keys(`${prefix}:*`)).filter((each) => each.includes('key}'));
              const rest = key ? await client.pttl(key) : 0;
              // The server's commands and its scripts read the clock at different moments.
              expect(rest).to.be.at.most(resetAfterMs + 2);
              expect(rest).to.be.at.least(resetAfterMs - Math.ceil(performance.now() - sentAt) - 2);
            }
            await limiter.close();
          }),
          runs(name, 0, 8),
        ));
    }

    it('keys without a TTL end when their state ends, and heal', () =>
      fc.assert(
        fc.asyncProperty(oneOfEach, steps, async (policies, operations) => {
          allowKeysWithoutTtl();
          const { clock, limiter, keys } = open(client, { policies, ban });
          const fresh = open(client, { policies, ban }, clock).limiter;
          const admitted: Decision[] = [];
          for (const [wait, each] of operations) {
            clock.now += wait;
            await perform(limiter, each, admitted);
          }
          const before = facts(await limiter.peek('key'));
          for (const key of await keys()) await client.persist(key);
          expect(facts(await limiter.peek('key'))).to.deep.equal(before);
          // Longer than any debt and period, and too long for the value of a fixed window to distinguish a past end from a future one.
          clock.now += 400 * 24 * 3_600_000;
          expect(facts(await limiter.peek('key'))).to.deep.equal(facts(await fresh.peek('key')));
          expect(facts(await limiter.consume('key'))).to.deep.equal(facts(await fresh.consume('key')));
          for (const key of await keys()) expect(await client.pexpiretime(key), key).to.be.above(0);
        }),
        runs(name, 0, 20),
      ));

    it('the history of a reset also works without a TTL, and heals', async () => {
      allowKeysWithoutTtl();
      const { limiter, allKeys } = open(client, { algorithm: 'fixed-window', limit: 5, window: 60_000 });
      const mine = await limiter.consume('key');
      await limiter.reset('key');
      await limiter.consume('key', { cost: 3 });
      const [reset] = (await allKeys()).filter((key) => key.includes('}r2:'));
      await client.persist(reset!);
      await mine.refund();
      expect(await limiter.peek('key')).to.include({ remaining: 2 });
      expect(await client.pexpiretime(reset!)).to.be.above(0);
    });

    it('the history of a bucket has room for 32 cells, and with more its quota comes back nevertheless', async () => {
      const { limiter, allKeys } = open(client, { algorithm: 'gcra', limit: 100, window: 60_000 });
      const charged: Decision[] = [];
      for (let i = 0; i < 70; i++) charged.push(await limiter.consume('key'));
      // Refunds every second charge first: each of these begins a cell of its own.
      for (const decision of charged.filter((_, i) => i % 2 === 0)) await decision.refund();
      const [full] = (await allKeys()).filter((key) => key.includes('}r2:'));
      expect((await client.get(full!))!.split(' ')).to.have.length(1 + 2 * 32);
      for (const decision of charged.filter((_, i) => i % 2 === 1)) await decision.refund();
      expect(await limiter.peek('key')).to.include({ remaining: 100 });
    });

    it('a key without a TTL heals by every admission, denial and refund', () =>
      fc.assert(
        fc.asyncProperty(
          fc.oneof(...algorithms.map((each) => policyOf(each).map((policy) => [policy])), oneOfEach),
          fc.constantFrom(undefined, ban),
          steps,
          fc.constantFrom(0, 1, 2_000, 61_000, 100 * 3_600_000),
          fc.constantFrom<Operation>({ consume: 1 }, { consume: 5 }, { consume: 1_000_000 }, refund),
          async (policies, ban, operations, wait, last) => {
            allowKeysWithoutTtl();
            const { clock, limiter, keys, prefix } = open(client, {
              name: 'life',
              policies,
              ...(ban && { ban }),
            });
            const admitted: Decision[] = [];
            for (const [wait, each] of operations) {
              clock.now += wait;
              if (ban || (each !== 'ban' && each !== 'unban')) await perform(limiter, each, admitted);
            }
            for (const key of await keys()) await client.persist(key);
            clock.now += wait;
            await perform(limiter, last, admitted);
            const { policies: verdicts } = await open(
              client,
              { name: 'life', policies },
              clock,
              prefix,
            ).limiter.peek('key');
            for (const key of await keys()) {
              const rest = (await client.pexpiretime(key)) - clock.now;
              const verdict =
                verdicts.length === 1 ? verdicts[0] : verdicts.find((each) => key.endsWith(`:${each.name}`));
              if (!key.endsWith('}b1')) expect(rest, key).to.equal(verdict!.resetAfterMs);
              else if (last !== refund) expect(rest, key).to.be.above(0);
            }
          },
        ),
        runs(name, 0, 60),
      ));

    it("heals by the server's clock, too, and by the end of a lease", async () => {
      allowKeysWithoutTtl();
      const times: Record<string, object> = { concurrency: { lease: '1h' }, calendar: { period: 'year' } };
      const policies = algorithms.map((algorithm) => {
        return { algorithm, limit: 3, ...(times[algorithm] ?? { window: '1h' }) } as Policy;
      });
      // A long window has another form of state.
      for (const policy of [...policies, { algorithm: 'fixed-window', limit: 3, window: '30d' } as const]) {
        const prefix = freshPrefix();
        const limiter = limiterOn(redisStore(client, { prefix, localDenials: false }), {
          policies: [policy],
        });
        const first = await limiter.consume('key');
        const calls = [
          () => limiter.consume('key'),
          () => limiter.consume('key', { cost: 2 }),
          () => limiter.consume('key', { cost: 1_000 }),
          () => limiter.refund('key', 1_000_000),
          () => first.settle(0),
          () => first.release(),
        ];
        for (const [i, call] of calls.entries()) {
          for (const each of await client.keys(`${prefix}:*`)) await client.persist(each);
          await call();
          const { resetAfterMs } = await limiter.peek('key');
          for (const each of await client.keys(`${prefix}:*}[^r]*`))
            expect(await client.pttl(each), `${policy.algorithm}: call ${i}`)
              .to.be.within(resetAfterMs - 60_000, resetAfterMs + 60_000)
              .and.above(0);
        }
      }
    });

    it('damaged values count as no state, and are replaced', () =>
      fc.assert(
        fc.asyncProperty(
          oneOfEach,
          fc.oneof(
            fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
            fc
              .constantFrom('-1', 'nan', 'inf', '1e30', '99999999999999999999', '5.5')
              .map((text) => Buffer.from(text)),
          ),
          fc.boolean(),
          async (policies, garbage, truncate) => {
            const { clock, limiter, keys } = open(client, { policies, ban });
            await limiter.consume('key', { cost: 1 });
            for (const key of await keys()) {
              const value = await client.getBuffer(key).catch(() => undefined);
              if (!value) continue;
              const damaged = truncate ? value.subarray(0, garbage.length % value.length) : garbage;
              await client.set(key, damaged, 'PXAT', clock.now + 1_000);
            }
            for (let i = 0; i < 3; i++) {
              const { allowed, policies: verdicts } = await limiter.consume('key');
              if (i === 0 && truncate) expect(allowed).to.be.a('boolean');
              for (const { remaining, limit, resetAfterMs } of verdicts) {
                expect(remaining).to.be.within(0, Math.max(limit, 300));
                expect(resetAfterMs).to.be.within(0, 370 * 86_400_000);
              }
            }
            for (const key of await keys()) expect(await client.pexpiretime(key), key).to.be.above(0);
          },
        ),
        runs(name, 0, 40),
      ));

    it('a key of another type is an error that names the key', async () => {
      for (const algorithm of algorithms) {
        const [policy] = fc.sample(policyOf(algorithm), 1) as [Policy];
        const { limiter, keys } = open(client, { policies: [policy] });
        await limiter.consume('key');
        const [key] = await keys();
        await client.del(key!);
        await client.hset(key!, 'field', 1);
        await client.pexpire(key!, 60_000);
        for (const call of [() => limiter.consume('key'), () => limiter.refund('key')]) {
          const error = await call().then(
            () => undefined,
            (reason: unknown) => reason as Error,
          );
          expect(error, algorithm).to.include({ code: 'HEADGATE_STORE_ERROR' });
          expect(error!.message).to.include('WRONGTYPE');
        }
      }
    });

    it('a key of another type fails alone, even if it has an override', async () => {
      const { limiter, allKeys, prefix } = open(client, { limit: 5, window: '1m', overrides: true });
      await limiter.override('bad', { limit: 9 });
      const [key] = (await allKeys()).filter((each) => each.startsWith(`${prefix}:{default:`));
      const foreign = key!.replace(/o1$/, limiter.policies[0]!.id);
      await client.lpush(foreign, 'x');
      await client.pexpire(foreign, 60_000);
      const ask = () => Promise.allSettled(['a', 'b', 'bad'].map((each) => limiter.consume(each)));
      // The first calls learn that overrides exist.
      await ask();
      const [a, b, bad] = await ask();
      for (const good of [a, b]) expect(good).to.have.nested.property('value.remaining', 3);
      expect(bad).to.have.nested.property('reason.code', 'HEADGATE_STORE_ERROR');
    });
  });
}

const facts = ({ allowed, reason, retryAfterMs, policies }: Decision) => ({
  allowed,
  reason,
  retryAfterMs,
  policies,
});

function open(
  client: Redis,
  options: Parameters<typeof limiterOn>[1],
  clock = new TestClock(),
  prefix = freshPrefix(),
) {
  const store: Store = redisStore(client, { prefix, clock: clock.read, localDenials: false });
  const allKeys = () => client.keys(`${prefix}:*`);
  // Excludes the keys that record a reset, which no decision reads.
  const keys = async () => (await allKeys()).filter((key) => !key.includes('}r2:'));
  return { clock, limiter: limiterOn(store, options), keys, allKeys, prefix };
}
