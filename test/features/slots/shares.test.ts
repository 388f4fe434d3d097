// `share` on concurrency policies beside the other features: options, weights, overrides, tiers, shadows, usage, expiry, waits, headers.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import {
  createLimiter,
  parsePolicy,
  policyText,
  type CreateLimiterOptions,
  type Decision,
  type Limiter,
} from 'headgate';
import { redisStore } from 'headgate/redis';
import { rateLimit } from 'headgate/web';
import { SlotSharesColumn } from '../../../src/algorithms/shares/slot-shares.js';
import { ofLimiter } from '../../../src/limiter/decision.js';
import { inLine } from '../../../src/limiter/waiting/process-line.js';
import { startCluster } from '../../support/cluster.js';
import { keyOf } from '../shares/traces.js';
import { serverKinds } from '../../support/shared-servers.js';
import { slotStep, Trace } from './share-traces.js';
import { describeSqlite, makeDirectory, storeOn } from '../../support/sqlite.js';
import { clients, freshPrefix, limiterOn, stores, TestClock } from '../../support/stores.js';
import { runs } from '../../support/random.js';
import fc from 'fast-check';

const POLICY = 'concurrency 10/30s by provider share tenant';

/** Takes slots until a request is denied, at most so many. */
async function take(limiter: Limiter, tenant: string, most = Infinity): Promise<Decision[]> {
  const held: Decision[] = [];
  while (held.length < most) {
    const decision = await limiter.consume(keyOf(tenant));
    if (!decision.allowed) break;
    held.push(decision);
  }
  return held;
}

describe('share of slots, as an option', () => {
  it('is read from text, and written', () => {
    const policy = parsePolicy(`${POLICY} weight 5`);
    assert.deepEqual(policy, {
      ...{ algorithm: 'concurrency', limit: 10, lease: '30s', by: 'provider', share: 'tenant', weight: 5 },
    });
    assert.equal(policyText(policy), `${POLICY} weight 5`);
  });

  const refused: [string, CreateLimiterOptions, RegExp][] = [
    [
      'a limit above 1,000',
      { policies: 'concurrency 1001/1s share tenant' },
      /limit: 1001 is not valid.*1 to 1000/,
    ],
    ['the dimension of the limit', { policies: 'concurrency 9/1s by tenant share tenant' }, /share/],
    ['thresholds', { policies: 'concurrency 9/1s share tenant thresholds 50%' }, /thresholds/],
    ['a weight without a share', { policies: 'concurrency 9/1s weight 2' }, /weight/],
    [
      'tenants of two dimensions',
      { policies: ['concurrency 9/1s by a share b', 'concurrency 9/1s by a share c'] },
      /share: "c".*limiter of its own/,
    ],
  ];
  for (const [what, options, message] of refused)
    it(`is refused: ${what}`, () => assert.throws(() => createLimiter(options), message));
});

for (const [name, create] of Object.entries(stores)) {
  describe(`share of slots, on ${name}`, () => {
    const open = (options: object = {}) => {
      const clock = new TestClock();
      return { clock, limiter: createLimiter({ store: create(clock.read), policies: POLICY, ...options }) };
    };

    it('gives a lone tenant all slots, and a slot that comes back to the tenant below its share', async () => {
      const { limiter } = open();
      const held = await take(limiter, 'hog');
      assert.equal(held.length, 10);
      const first = await limiter.consume(keyOf('late'));
      assert.deepEqual([first.reason, first.policies[0]!.share], ['quota-exceeded', 5]);
      await held.pop()!.release();
      const { reason, policies, remaining } = await limiter.consume(keyOf('hog'));
      assert.deepEqual([reason, policies[0]!.share, remaining], ['fair-share', 9, 0]);
      assert.equal((await limiter.consume(keyOf('late'))).allowed, true);
    });

    it('keeps a slot for two seconds after a denial', async () => {
      const { limiter, clock } = open();
      const held = await take(limiter, 'hog');
      await limiter.consume(keyOf('gone'));
      await held.pop()!.release();
      const { retryAfterMs } = await limiter.consume(keyOf('hog'));
      assert.equal(retryAfterMs, 2000);
      clock.now += 1999;
      assert.equal((await limiter.consume(keyOf('hog'))).reason, 'fair-share');
      clock.now += 1;
      assert.equal((await limiter.consume(keyOf('hog'))).allowed, true);
    });

    it('gives a limit of 1 to tenants in turn', async () => {
      const { limiter, clock } = open({ policies: 'concurrency 1/30s by provider share tenant' });
      const order: string[] = [];
      let held: Decision | undefined;
      for (let i = 0; i < 60; i++) {
        clock.now += 10;
        if (i % 3 === 0) await held?.release();
        // The first tenant always asks first.
        for (const tenant of ['a', 'b', 'c']) {
          const decision = await limiter.consume(keyOf(tenant));
          if (!decision.allowed) continue;
          held = decision;
          order.push(tenant);
        }
      }
      assert.equal(order.length, 20);
      for (let i = 3; i < 20; i++) assert.equal(order[i], order[i - 3], order.join());
    });

    it('divides the slots of backlogged tenants by weight', async () => {
      const { limiter, clock } = open({ policies: 'concurrency 16/30s by provider share tenant' });
      const held: { tenant: string; decision: Decision }[] = [];
      for (let i = 0; i < 120; i++) {
        clock.now += 10;
        if (held.length > 15) await held.shift()!.decision.release();
        for (const [tenant, weight] of [
          ['a', 1],
          ['b', 2],
          ['c', 5],
        ] as const) {
          const decision = await limiter.consume(keyOf(tenant), { weight });
          if (decision.allowed) held.push({ tenant, decision });
        }
      }
      const slots = ['a', 'b', 'c'].map((name) => held.filter(({ tenant }) => tenant === name).length);
      assert.deepEqual(slots, [2, 4, 10]);
    });

    it('counts the slots of leases that end, and of leases that are renewed', async () => {
      const { limiter, clock } = open({ policies: 'concurrency 4/10s by provider share tenant' });
      const [first] = await take(limiter, 'a', 3);
      clock.now += 9000;
      assert.equal(await first!.renew(), true);
      await take(limiter, 'b', 1);
      clock.now += 1000;
      const { used, share } = (await limiter.usage(keyOf('a'))).policies[0]!;
      assert.deepEqual([used, share], [1, 3]);
      clock.now += 9000;
      assert.equal((await limiter.usage(keyOf('a'))).policies[0]!.used, 0);
    });

    it('only looks with peek', async () => {
      const { limiter } = open();
      const held = await take(limiter, 'hog');
      for (let i = 0; i < 3; i++) assert.equal((await limiter.peek(keyOf('late'))).policies[0]!.share, 5);
      await held.pop()!.release();
      assert.equal((await limiter.consume(keyOf('hog'))).allowed, true);
    });

    it('does not keep slots for a request that another policy denies', async () => {
      const { limiter } = open({ policies: [`slots=${POLICY}`, '1/1m by tenant'] });
      await take(limiter, 'late');
      assert.equal((await limiter.consume(keyOf('late'))).reason, 'quota-exceeded');
      assert.equal((await limiter.peek(keyOf('hog'))).policies[0]!.share, 9);
    });

    it('follows overrides of the limit and of a weight', async () => {
      const { limiter } = open({ overrides: true });
      const shareOf = async (tenant: string) => (await limiter.peek(keyOf(tenant))).policies[0]!.share;
      await take(limiter, 'a');
      await limiter.override(keyOf('b'), { weight: 4 });
      assert.equal(await shareOf('b'), 8);
      await limiter.consume(keyOf('b'));
      await limiter.override({ provider: 'openai' }, { limit: 20 });
      assert.deepEqual([await shareOf('b'), await shareOf('a')], [16, 19]);
      await limiter.removeOverride(keyOf('b'));
      assert.equal(await shareOf('b'), 10);
    });

    it('takes weights from tiers', async () => {
      const { limiter } = open({ policies: undefined, tiers: { free: POLICY, pro: `${POLICY} weight 4` } });
      for (let i = 0; i < 10; i++) await limiter.consume(keyOf('a'), { tier: 'free' });
      for (const [tier, share] of [
        ['free', 5],
        ['pro', 8],
      ] as const)
        assert.equal((await limiter.peek(keyOf('b'), { tier })).policies[0]!.share, share);
    });

    it('denies beyond a share as such, also under an override of another policy of the key', async () => {
      const { limiter } = open({
        policies: ['p=gcra 90/10s by provider', `slots=${POLICY}`],
        overrides: true,
      });
      await limiter.override({ provider: 'openai' }, { p: { limit: 500 } });
      const held = await take(limiter, 'hog');
      await limiter.consume(keyOf('late'));
      await held.pop()!.release();
      const { reason, retryAfterMs } = await limiter.consume(keyOf('hog'));
      assert.deepEqual([reason, retryAfterMs], ['fair-share', 2000]);
    });

    it('only reports as a shadow', async () => {
      const { limiter } = open({ policies: [`slots=${POLICY} shadow`, '500/1m by provider'] });
      for (let i = 0; i < 10; i++) await limiter.consume(keyOf('a'));
      const decision = await limiter.consume(keyOf('b'));
      assert.deepEqual([decision.allowed, decision.policies[0]!.allowed], [true, false]);
      assert.deepEqual(ofLimiter(decision).units, [0, 1, 0, 0]);
      assert.equal(await decision.release(), false);
    });

    it('forgets the slots and the tenants when the limit is reset', async () => {
      const { limiter } = open();
      await take(limiter, 'a');
      await limiter.consume(keyOf('b'));
      await limiter.reset(keyOf('a'));
      const { remaining, policies } = await limiter.peek(keyOf('a'));
      assert.deepEqual([remaining, policies[0]!.share], [10, 10]);
    });

    it('settles a shared window beside shared slots', async () => {
      const { limiter } = open({ policies: [`slots=${POLICY}`, 'tokens=100/10s by provider share tenant'] });
      const decision = await limiter.consume(keyOf('a'), { cost: { tokens: 30 } });
      await decision.settle({ tokens: 50 });
      const { policies } = await limiter.peek(keyOf('a'));
      assert.deepEqual(
        policies.map(({ remaining, share }) => [remaining, share]),
        [
          [9, 10],
          [50, 100],
        ],
      );
      assert.equal(await decision.release(), true);
      assert.equal((await limiter.peek(keyOf('a'))).policies[0]!.remaining, 10);
    });

    it('decides a hundred simultaneous requests in one order', async () => {
      const { limiter } = open();
      const all = await Promise.all(
        Array.from({ length: 100 }, (_, i) => limiter.consume(keyOf(`t${i % 4}`))),
      );
      assert.equal(all.filter(({ allowed }) => allowed).length, 10);
    });

    it('gives waiting processes of two tenants their turns, and leaves no slot unused', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(create(clock.read), {
        policies: 'concurrency 2/30s by provider share tenant',
      });
      const held: { decision: Decision; until: number }[] = [];
      const turns = [0, 0];
      for (let tick = 0; tick < 400; tick++) {
        clock.now += 10;
        while (held[0] && held[0].until <= clock.now) await held.shift()!.decision.release();
        for (const [i, tenant] of ['hog', 'late'].entries()) {
          const set = inLine(limiter.set, { process: i + 1, waits: true, holdMs: 100 });
          const decision = await limiter.decide(keyOf(tenant), 1, set);
          if (!decision.allowed) continue;
          turns[i]!++;
          held.push({ decision, until: clock.now + 100 });
        }
      }
      // 400 ticks of 10 ms have room for 80 turns.
      assert.ok(turns[0]! >= 32 && turns[1]! >= 32, turns.join());
      assert.ok(turns[0]! + turns[1]! >= 72, turns.join());
    });
  });
}

describe('the pool of tenants that share slots', () => {
  it('keeps at most 64 tenants without slots', async () => {
    const clock = new TestClock();
    const limiter = createLimiter({ store: stores.map(clock.read), policies: POLICY });
    await take(limiter, 'hog');
    for (let i = 0; i < 200; i++) await limiter.consume(keyOf(`t${i}`));
    // The hog keeps one slot of 10, and the others are kept for those who want one.
    assert.equal((await limiter.peek(keyOf('hog'))).policies[0]!.share, 0);
    const column = new SlotSharesColumn(1, { lease: 1000, weight: 1 });
    column.load(1, ['tag', 1, 2, 3]);
    assert.deepEqual(column.save(1), []);
  });
});

for (const kind of serverKinds) {
  describe(`share of slots, on ${kind}`, () => {
    it('leaves a TTL on every key, heals keys, and bounds the pool', async () => {
      const prefix = freshPrefix();
      const policies = 'concurrency 200/30s by provider share tenant';
      const store = redisStore(clients[kind], { prefix, publish: false, counts: false });
      const limiter = limiterOn(store, { policies });
      await take(limiter, 'hog');
      for (let i = 0; i < 100; i++) await limiter.consume(keyOf(`t${i}`));
      const names = await clients[kind].keys(`${prefix}:*}*`);
      assert.equal(names.length, 2);
      for (const key of names) assert.ok((await clients[kind].pttl(key)) > 0, key);
      const pool = names.find((key) => key.includes('h1@'))!;
      assert.equal((await clients[kind].get(pool))!.split(' ').length, 66 * 5);
      await clients[kind].persist(pool);
      const [own] = [`=hog`].map((text) => createHash('sha256').update(text).digest('hex').slice(0, 16));
      assert.match((await clients[kind].get(pool))!, new RegExp(`${own} 1 `));
      await limiter.consume(keyOf('t99'));
      assert.ok((await clients[kind].pttl(pool)) > 0);
      await limiter.close();
    });
  });
}

describe('share of slots, over HTTP', () => {
  it('shows a client the part of its share', async () => {
    const limit = rateLimit({
      policies: POLICY,
      warnings: false,
      keys: { provider: () => 'openai', tenant: (request) => request.headers.get('x-tenant') ?? undefined },
    });
    const ends: (() => void)[] = [];
    const ask = (tenant: string) =>
      limit(new Request('http://localhost/', { headers: { 'x-tenant': tenant } }), () => {
        const body = new ReadableStream({ start: (stream) => void ends.push(() => stream.close()) });
        return new Response(body);
      });
    for (let i = 0; i < 10; i++) await ask('a');
    assert.equal((await ask('b')).status, 429);
    const denied = await ask('a');
    assert.equal(denied.status, 429);
    assert.match(denied.headers.get('ratelimit-policy')!, /q=10/);
    assert.match(denied.headers.get('ratelimit')!, /r=0/);
    for (const end of ends) end();
  });
});

describeSqlite('share of slots, on SQLite', () => {
  it('decides random traces as in memory', () => {
    const path = makeDirectory();
    let files = 0;
    const create = (clock: () => number) => storeOn(join(path, `${files++}.db`), { clock });
    const steps = fc.array(slotStep, { minLength: 20, maxLength: 120 });
    const policies = 'concurrency 6/5s by provider share tenant';
    return fc.assert(
      fc.asyncProperty(steps, async (trace) => {
        const [first, second] = [new Trace(stores.memory, policies), new Trace(create, policies)];
        for (const step of trace) assert.equal(await second.run(step), await first.run(step));
      }),
      runs('sqlite', 20, 6),
    );
  });
});

describe('share of slots, in a cluster', () => {
  it('has all keys of a limit in one slot', async function () {
    this.timeout(60_000);
    const cluster = await startCluster('redis');
    const client = await cluster.connect();
    try {
      const limiter = createLimiter({
        ...{ store: redisStore(client), policies: POLICY, timeout: '10s', warnings: false },
      });
      const all = await Promise.all(
        Array.from({ length: 90 }, (_, i) =>
          limiter.consume({ provider: `provider ${i % 3}`, tenant: `t${i % 2}` }),
        ),
      );
      assert.equal(all.filter(({ allowed, degraded }) => allowed && !degraded).length, 30);
      for (const decision of all) await decision.release();
      await limiter.close();
    } finally {
      client.disconnect();
      await cluster.stop();
    }
  });
});
