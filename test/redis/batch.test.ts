// Decisions that are requested together travel together, and are the same as if each had travelled alone.
import { mock } from 'node:test';
import { expect } from 'chai';
import fc from 'fast-check';
import { Redis, type Cluster } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import type { BanOptions, Cost, LimiterOptions, Decision, Limiter, OverrideChange, Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { performance as storeTime } from '../../src/common/real-time.js';
import { startCluster, type TestCluster } from '../support/cluster.js';
import { countedServer } from '../support/counted-server.js';
import { servers } from '../support/shared-servers.js';
import { algorithms, policyOf, windowed } from '../support/policies.js';
import { runs } from '../support/random.js';
import { clients, freshPrefix, limiterOn, redis, START, TestClock } from '../support/stores.js';

/** A decision as plain data. */
const plain = (decision: Decision): object => JSON.parse(JSON.stringify(decision)) as object;

const together = <T>(count: number, ask: (i: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, i) => ask(i)));

interface Ask {
  readonly key: string;
  readonly cost: number;
  /** Units for the policies, used in turn, instead of one cost. */
  readonly costs: number[] | undefined;
  readonly peek: boolean;
  readonly set: number;
}

const asks = fc.array(
  fc.record<Ask>({
    key: fc.constantFrom('a', 'b', 'c{}', ''),
    cost: fc.constantFrom(0, 1, 1, 1, 2, 5),
    costs: fc.option(fc.array(fc.constantFrom(0, 1, 2, 5), { minLength: 1, maxLength: 3 }), {
      nil: undefined,
      freq: 3,
    }),
    peek: fc.boolean(),
    set: fc.nat(1),
  }),
  { minLength: 1, maxLength: 90 },
);

const bans: fc.Arbitrary<BanOptions | undefined> = fc.constantFrom(undefined, undefined, {
  after: 2,
  within: '10s',
  for: '3s',
});

const policies = fc
  .array(
    fc.constantFrom(...algorithms).chain((algorithm) => policyOf(algorithm)),
    { minLength: 1, maxLength: 3 },
  )
  .map((list): Policy[] => list.map((policy, i) => ({ ...policy, name: `p${i}`, shadow: i === 2 })));

/** Stops the time for the batcher, so that a busy machine does not look like a store far away. */
function standingTime(): void {
  let clock: { mock: { restore(): void } };
  beforeEach(() => {
    const now = storeTime.now();
    clock = mock.method(storeTime, 'now', () => now);
  });
  afterEach(() => clock.mock.restore());
}

/** An operator's action between two turns: other limits for a key, or the end of its override. */
const lives = fc.option(
  fc.record({
    key: fc.constantFrom('a', 'b', 'c{}'),
    set: fc.nat(1),
    policy: fc.nat(2),
    change: fc.constantFrom({ limit: 1 }, { limit: 7 }, { limit: 40 }, false, 'remove'),
  }),
  { nil: undefined, freq: 3 },
);

async function overrideBy(
  limiters: readonly Limiter[],
  sets: readonly (readonly Policy[])[],
  live: NonNullable<typeof lives extends fc.Arbitrary<infer T> ? T : never>,
): Promise<void> {
  const { key, set, policy, change } = live;
  const { name } = sets[set]![policy % sets[set]!.length]!;
  const override = { [name!]: change } as OverrideChange;
  await (change === 'remove' ? limiters[set]!.removeOverride(key) : limiters[set]!.override(key, override));
  // The first call that learns of overrides is sent twice, and later calls overtake it.
  await together(8, () => limiters[set]!.peek('another'));
}

describe('batches', () => {
  it('decide as single calls do: random sets, keys, costs and bans, and each key many times in a batch', () =>
    fc.assert(
      fc.asyncProperty(
        fc.tuple(policies, policies),
        bans,
        fc.array(fc.tuple(asks, fc.constantFrom(0, 1, 500, 30_000), lives), { minLength: 1, maxLength: 4 }),
        fc.boolean(),
        async (sets, ban, turns, overrides) => {
          const clock = new TestClock();
          const make = (): Limiter[] => {
            const store = redis(clock.read);
            return sets.map((set, i) =>
              limiterOn(store, { name: `set${i}`, policies: set, overrides, ...(ban ? { ban } : {}) }),
            );
          };
          const [batched, single] = [make(), make()];
          const answer = (limiters: Limiter[], { set, key, peek, ...ask }: Ask) => {
            const { costs } = ask;
            const named = costs && sets[set]!.map(({ name }, i) => [name, costs[i % costs.length]]);
            const cost = named ? (Object.fromEntries(named) as Cost) : ask.cost;
            return peek ? limiters[set]!.peek(key, { cost }) : limiters[set]!.consume(key, { cost });
          };
          clock.now = START;
          for (const [turn, pause, live] of turns) {
            if (overrides && live) for (const each of [batched, single]) await overrideBy(each, sets, live);
            const expected: object[] = [];
            for (const ask of turn) expected.push(plain(await answer(single, ask)));
            const actual = await Promise.all(turn.map((ask) => answer(batched, ask)));
            expect(actual.map(plain)).to.deep.equal(expected);
            clock.now += pause;
          }
        },
      ),
      runs('redis', 0, 30),
    ));

  it('keep the order of decisions, looks, refunds, resets and bans without awaiting them', async () => {
    const limiter = limiterOn(redis(), { limit: 40, window: '1h', ban: {} });
    // Scripts unknown to the server are sent twice, and later calls overtake the second time. This call makes all scripts known.
    await limiter.consume('first');
    await limiter.refund('first', 1);
    await limiter.reset('first');
    await limiter.ban('first', '1h');
    const remaining: number[] = [];
    const note = ({ remaining: left }: Decision) => void remaining.push(left);
    await Promise.all([
      together(20, () => limiter.consume('key').then(note)),
      limiter.peek('key').then(note),
      limiter.consume('key').then(note),
      limiter.refund('key', 11),
      limiter.consume('key').then(note),
      limiter.reset('key'),
      limiter.consume('key').then(note),
      limiter.ban('key', '1h'),
      limiter.consume('key').then(({ reason }) => expect(reason).to.equal('banned')),
    ]);
    const countdown = Array.from({ length: 20 }, (_, i) => 39 - i);
    expect(remaining).to.deep.equal([...countdown, 20, 19, 29, 39]);
  });

  it('keep the order of decisions and changes, whatever their tiers and dimensions', async () => {
    const limiter = limiterOn(redis(), {
      policies: ['ip=40/1h', 'account=40/1h by account'],
      tiers: { pro: ['ip=50/1h', 'account=50/1h by account'] },
    });
    const key = { key: 'x', account: 'ada' };
    const remainingUnits = async () => (await limiter.peek(key)).policies.map(({ remaining }) => remaining);
    await limiter.consume(key);
    await limiter.refund({ account: 'ada' });
    await limiter.reset(key);
    await Promise.all([
      together(20, () => limiter.consume(key)),
      together(3, () => limiter.consume(key, { tier: 'pro' })),
      limiter.reset(key),
    ]);
    expect(await remainingUnits()).to.deep.equal([40, 40]);
    await Promise.all([together(20, () => limiter.consume(key)), limiter.refund({ account: 'ada' }, 20)]);
    expect(await remainingUnits()).to.deep.equal([20, 40]);
  });

  it('are not affected by a request in the batch that fails by itself', async () => {
    const prefix = freshPrefix();
    const limiter = limiterOn(redisStore(clients.redis, { prefix, publish: false }), {
      limit: 3,
      window: '1h',
    });
    await limiter.consume('bad');
    const [key] = await clients.redis.keys(`${prefix}:*`);
    await clients.redis.multi().del(key!).hset(key!, 'field', 1).expire(key!, 60).exec();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 60 }, (_, i) => limiter.consume(i % 3 === 1 ? 'bad' : `good${i % 20}`)),
    );
    outcomes.forEach((outcome, i) => {
      if (i % 3 === 1) expect(outcome).to.have.nested.property('reason.code', 'HEADGATE_STORE_ERROR');
      else expect(outcome).to.have.property('status', 'fulfilled');
    });
  });
});

describe('several policies', () => {
  const kinds = ['fixed-window', 'sliding-window', 'token-bucket'] as const;
  for (const first of kinds) {
    for (const second of kinds) {
      it(`${first} and ${second}: the first is not charged if the second denies, or fails`, async () => {
        const prefix = freshPrefix();
        const open = (...policies: Policy[]) => {
          const store = redisStore(clients.redis, { prefix, localDenials: false });
          return limiterOn(store, { name: 'set', policies });
        };
        const loose = { algorithm: first, name: 'loose', limit: 100, window: '1h' } as const;
        const tight = { algorithm: second, name: 'tight', limit: 3, window: '1h' } as const;
        const limiter = open(loose, tight);
        const alone = open(loose);
        const remainingUnits = async () => (await alone.peek('key')).remaining;

        const decisions = await together(8, () => limiter.consume('key'));
        expect(decisions.map(({ allowed }) => allowed)).to.deep.equal(
          [0, 1, 2, 3, 4, 5, 6, 7].map((i) => i < 3),
        );
        expect(await remainingUnits()).to.equal(97);
        expect(await limiter.consume('key', { cost: 2 })).to.include({ allowed: false, policy: 'tight' });
        expect(await remainingUnits()).to.equal(97);

        const [key] = await clients.redis.keys(`${prefix}:*tight`);
        await clients.redis.multi().del(key!).hset(key!, 'field', 1).pexpire(key!, 60_000).exec();
        const outcomes = await Promise.allSettled([limiter.consume('key'), limiter.consume('other')]);
        expect(outcomes[0]).to.have.nested.property('reason.code', 'HEADGATE_STORE_ERROR');
        expect(outcomes[1]).to.have.nested.property('value.remaining', 2);
        expect(await remainingUnits()).to.equal(97);
        expect((await alone.peek('other')).remaining).to.equal(99);
      });

      it(`${first} and ${second}: after a denial by the second, the first is as it was, even if the clock goes back`, async () => {
        const prefix = freshPrefix();
        const clock = new TestClock();
        const open = (...policies: Policy[]) =>
          limiterOn(redisStore(clients.redis, { prefix, clock: clock.read }), { name: 'set', policies });
        const loose = { algorithm: first, name: 'loose', limit: 100, window: '1h' } as const;
        const tight = { algorithm: second, name: 'tight', limit: 1, window: '2h' } as const;
        const [both, alone] = [open(loose, tight), open(loose)];
        for (let i = 0; i < 3; i++) await alone.consume('key');
        await both.consume('key');
        clock.now += 1;
        const before = plain(await alone.peek('key'));
        clock.now += 1_800_000;
        expect(await both.consume('key')).to.include({ allowed: false, policy: 'tight' });
        clock.now -= 1_800_000;
        expect(plain(await alone.peek('key'))).to.deep.equal(before);
      });
    }
  }
});

describe('calls', () => {
  const clientsOf = { 'ioredis 6': Redis, 'ioredis 5': Redis5 as unknown as typeof Redis };
  for (const [name, Client] of Object.entries(clientsOf)) {
    describe(name, () => {
      const counted = countedServer(Client);

      const make = (options: Partial<LimiterOptions> = {}): Limiter =>
        limiterOn(counted.store(), {
          limit: 1e6,
          window: '1h',
          ...options,
        });

      it('are one EVALSHA a decision, whatever the number of policies', async () => {
        const policies = windowed.map(
          (algorithm): Policy =>
            ({
              name: algorithm,
              algorithm,
              limit: 1000,
              [algorithm === 'concurrency' ? 'lease' : 'window']: '1h',
            }) as unknown as Policy,
        );
        const limiter = limiterOn(counted.store(), {
          policies,
          ban: { after: 3 },
        });
        await limiter.consume('first');
        const counts = await counted.countsOf(async () => {
          for (let i = 0; i < 10; i++) await limiter.consume(`key${i}`);
        });
        expect(counts).to.deep.equal({ evalsha: 10 });
      });

      it('are one EVALSHA a decision, also after overrides were read and changed', async () => {
        const limiter = make({ overrides: true });
        const work = async () => {
          await limiter.override('other', { limit: 5 });
          await limiter.consume('key');
          await limiter.overrideOf('other');
          await limiter.consume('key');
        };
        await work();
        // An override takes three calls, because it is also recorded in the index and in the log for operators.
        expect(await counted.countsOf(work)).to.deep.equal({ evalsha: 6 });
        await limiter.close();
      });

      describe('carry the decisions of one moment', () => {
        standingTime();
        let limiter: Limiter;
        beforeEach(async () => {
          limiter = make();
          await limiter.consume('first');
        });

        /** The number of calls for `count` decisions. */
        const callsOf = (count: number): Promise<number> =>
          counted.callsOf(() => together(count, (i) => limiter.consume(`key${i}`)));

        it('the first alone, and then a third of all open decisions', async () => {
          // 2 of 3, 2 of 5, 3 of 8, 4 of 12, 6 of 18, 9 of 27.
          for (const [count, calls] of [
            [1, 1],
            [2, 2],
            [1 + 2, 2],
            [1 + 2 + 1, 3],
            [1 + 2 + 2, 3],
            [1 + 2 + 2 + 2, 4],
            [1 + 2 + 2 + 3, 4],
            [1 + 2 + 2 + 3 + 4 + 6 + 9, 7],
          ] as const) {
            expect(await callsOf(count), `${count}`).to.equal(calls);
            await new Promise(setImmediate);
          }
        });

        it('at most 64', async () => {
          expect(await callsOf(1 + 2 + 2 + 3 + 4 + 6 + 9 + 14 + 21 + 31 + 47 + 64 + 64)).to.equal(13);
        });
      });

      describe('for a server', () => {
        /** The number of turns until a busy process is noticed. */
        const MAX_TURNS = 40;
        standingTime();
        let limiter: Limiter;
        beforeEach(async () => {
          limiter = make();
          await limiter.consume('first');
        });

        /** Requests decisions in one turn of the event loop, in `callbacks` callbacks. */
        async function ask(callbacks: number, decisions = 1): Promise<void> {
          const pending = together(callbacks, async () => {
            await new Promise(setImmediate);
            await together(decisions, (i) => limiter.consume(`key${i}`));
          });
          await new Promise(setImmediate);
          await pending;
        }

        async function turns(count: number, callbacks: number, decisions?: number): Promise<void> {
          for (let i = 0; i < count; i++) await ask(callbacks, decisions);
        }

        async function callsOf(callbacks: number): Promise<number> {
          return counted.callsOf(() => ask(callbacks));
        }

        it('that gets one request in a turn: leave at once', async () => {
          await turns(MAX_TURNS, 1);
          expect(await callsOf(5)).to.equal(3);
        });

        it('that gets several requests in a turn: carry those of the turn, however few', async () => {
          await turns(MAX_TURNS, 2);
          for (const count of [2, 5, 7]) expect(await callsOf(count), `${count}`).to.equal(1);
        });

        it('leave at once again after eight turns with one request', async () => {
          await turns(MAX_TURNS, 2);
          await turns(7, 1);
          expect(await callsOf(3)).to.equal(1);
          await turns(8, 1);
          expect(await callsOf(3)).to.equal(2);
        });

        it('leave at once for a callback with several requests', async () => {
          await turns(MAX_TURNS, 1, 3);
          expect(await callsOf(5)).to.equal(3);
        });
      });

      it('are two for two sets', async () => {
        const store = counted.store();
        const one = limiterOn(store, { name: 'one', limit: 100, window: '1h' });
        const two = limiterOn(store, { name: 'two', algorithm: 'gcra', limit: 100, window: '1h' });
        await Promise.all([one.consume('first'), two.consume('first')]);
        let decisions: Decision[] = [];
        const counts = await counted.countsOf(async () => {
          decisions = await together(7 + 5, (i) => (i % 2 ? two : one).consume('key'));
        });
        // The first decision alone, two batches early, and one of each set at the end of the turn.
        expect(counts).to.deep.equal({ evalsha: 1 + 2 + 2 });
        expect(decisions.map(({ remaining }) => remaining)).to.deep.equal(
          decisions.map((_, i) => 99 - Math.floor(i / 2)),
        );
      });

      it('of a script that the server does not know run once, even in a batch', async () => {
        const limiter = make();
        await limiter.consume('key');
        await counted.client.script('FLUSH');
        const decisions = await together(200, () => limiter.consume('key'));
        expect(decisions.map(({ remaining }) => remaining).sort((a, b) => b - a)).to.deep.equal(
          decisions.map((_, i) => 1e6 - 2 - i),
        );
      });
    });
  }

  it('with a single decision are on the wire when consume returns', async () => {
    const commands: string[] = [];
    class Watched extends Redis {
      override sendCommand(...args: Parameters<Redis['sendCommand']>): unknown {
        commands.push(args[0].name);
        return super.sendCommand(...args);
      }
    }
    const client = new Watched(servers.redis.port);
    const limiter = limiterOn(redisStore(client), { limit: 5, window: '1h' });
    await limiter.consume('key');
    commands.length = 0;
    const decision = limiter.consume('key');
    expect(commands).to.deep.equal(['evalsha']);
    await decision;
    client.disconnect();
  });

  it('work with a client that has a key prefix and returns numbers as strings', async () => {
    const client = new Redis(servers.redis.port, { keyPrefix: 'app:', stringNumbers: true });
    const limiter = limiterOn(redisStore(client, { prefix: freshPrefix() }), { limit: 100, window: '1h' });
    const decisions = await together(50, () => limiter.consume('key'));
    expect(decisions.at(-1)!.remaining).to.equal(50);
    client.disconnect();
  });
});

describe('a cluster', function () {
  let cluster: TestCluster;
  let client: Cluster;
  before(async () => {
    cluster = await startCluster('redis');
    client = await cluster.connect();
  });
  after(async () => {
    client.disconnect();
    await cluster.stop();
  });

  it('is asked key by key, and decides the same', async () => {
    const limiter = limiterOn(redisStore(client), { limit: 15, window: '1h' });
    // The first calls of a node may be sent twice (it knows neither script nor deadline), and later calls overtake them.
    await together(20, (i) => limiter.peek(`key${i}`));
    const decisions = await together(400, (i) => limiter.consume(`key${i % 20}`));
    for (let key = 0; key < 20; key++) {
      const admitted = decisions.filter((decision) => decision.key === `key${key}` && decision.allowed);
      expect(admitted.map(({ remaining }) => remaining)).to.deep.equal(
        Array.from({ length: 15 }, (_, i) => 14 - i),
      );
    }
  });

  it('behind one address is recognized by its first refusal', async () => {
    const alone = await startCluster('redis', 1);
    const plain = new Redis(alone.servers[0]!.port);
    const limiter = limiterOn(redisStore(plain), { limit: 15, window: '1h' });
    for (let round = 1; round <= 3; round++) {
      const decisions = await together(100, (i) => limiter.consume(`key${i % 50}`));
      // A call with one key is not refused, and may overtake a call that is sent again.
      for (let i = 0; i < 50; i++) {
        const remaining = [decisions[i]!.remaining, decisions[i + 50]!.remaining].sort((a, b) => b - a);
        expect(remaining).to.deep.equal([16 - 2 * round, 15 - 2 * round]);
      }
    }
    plain.disconnect();
    await alone.stop();
  });

  it('behind one address is recognized with overrides, too: by decisions on one key, and by an override', async () => {
    const alone = await startCluster('redis', 1);
    const plain = new Redis(alone.servers[0]!.port);
    const options = { limit: 50, window: '1h', overrides: true } as const;
    const asking = limiterOn(redisStore(plain, { prefix: 'asking' }), options);
    const decisions = await together(40, () => asking.consume('key'));
    const countdown = Array.from({ length: 40 }, (_, i) => 49 - i);
    expect(decisions.map(({ remaining }) => remaining)).to.have.members(countdown);
    const setting = limiterOn(redisStore(plain, { prefix: 'setting' }), options);
    await setting.override('key', { limit: 99 });
    const raised = await together(40, () => setting.consume('key'));
    expect(raised.map(({ limit }) => limit)).to.deep.equal(Array<number>(40).fill(99));
    plain.disconnect();
    await alone.stop();
  });
});
