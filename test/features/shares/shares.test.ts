// `share` beside the other features: options, refunds, resets, overrides, shadows, bans, tiers, a store that is down, headers.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import express from 'express';
import { Redis } from 'ioredis';
import {
  createLimiter,
  memoryStore,
  parsePolicy,
  policyText,
  type CreateLimiterOptions,
  type Decision,
  type Limiter,
} from 'headgate';
import { rateLimit } from 'headgate/express';
import { redisStore } from 'headgate/redis';
import { startCluster } from '../../support/cluster.js';
import { runs } from '../../support/random.js';
import { expectSame, SHARED_POLICIES } from './traces.js';
import { clients, freshPrefix, stores, TestClock, limiterOn } from '../../support/stores.js';
import { serverKinds, servers } from '../../support/shared-servers.js';
import { describeSqlite, makeDirectory, storeOn } from '../../support/sqlite.js';

const POLICY = '100/10s by provider share tenant';

const keyOf = (tenant?: string, provider = 'openai') => ({
  provider,
  ...(tenant !== undefined && { tenant }),
});

/** Two tenants that have asked for more than the limit. */
async function flood(limiter: Limiter, cost = 10): Promise<void> {
  for (let i = 0; i < 12; i++)
    for (const tenant of ['a', 'b']) await limiter.consume(keyOf(tenant), { cost });
}

const refusalOf = (options: CreateLimiterOptions): string => {
  try {
    createLimiter(options);
  } catch (error) {
    const { code, message } = error as Error & { code: string };
    return `${code} ${message}`;
  }
  return 'accepted';
};

describe('share, as an option', () => {
  it('is read from text, and written', () => {
    const policy = parsePolicy('10000/1m by provider share tenant weight 5');
    assert.deepEqual(policy, { limit: 10000, window: '1m', by: 'provider', share: 'tenant', weight: 5 });
    assert.equal(
      policyText({ ...policy, algorithm: 'sliding-window' }),
      '10000/1m by provider share tenant weight 5',
    );
    assert.equal(policyText('10/1s share tenant weight 1'), '10/1s share tenant');
  });

  for (const [what, options, message] of [
    ['another algorithm', { policies: 'token-bucket 10/1s share tenant' }, /HEADGATE_INVALID_OPTION .*share/],
    [
      'a bucket as data',
      { policies: [{ algorithm: 'gcra', limit: 1, window: '1s', share: 'tenant' } as never] },
      /UNKNOWN_OPTION .*sliding-window.*has no segments/,
    ],
    [
      'the dimension of the limit',
      { policies: '10/1s by tenant share tenant' },
      /HEADGATE_INVALID_OPTION .*share/,
    ],
    ['the default dimension twice', { policies: '10/1s share key' }, /HEADGATE_INVALID_OPTION .*share/],
    ['attempts', { policies: '10/1s share tenant attempts' }, /HEADGATE_INVALID_OPTION .*count/],
    ['thresholds', { policies: '10/1s share tenant thresholds 50%' }, /HEADGATE_INVALID_OPTION .*thresholds/],
    ['a weight without a share', { policies: '10/1s weight 2' }, /HEADGATE_INVALID_OPTION .*weight/],
    ['a weight of 0', { policies: '10/1s share tenant weight 0' }, /HEADGATE_INVALID_OPTION .*weight/],
    ['slotBy', { policies: '10/1s by a share tenant', slotBy: 'a' }, /HEADGATE_INVALID_OPTION slotBy/],
    [
      'acrossSlots',
      { policies: '10/1s by a share tenant', acrossSlots: true },
      /HEADGATE_INVALID_OPTION acrossSlots/,
    ],
  ] as const)
    it(`is refused: ${what}`, () => assert.match(refusalOf(options), message));

  it('refuses a weight that is not a whole number from 1 to 1,000', async () => {
    const limiter = createLimiter({ policies: POLICY });
    for (const weight of [0, 1.5, 1001, NaN])
      await assert.rejects(limiter.consume(keyOf('a'), { weight }), { code: 'HEADGATE_INVALID_OPTION' });
  });

  it('shows users one policy', async () => {
    const limiter = createLimiter({ policies: ['50/1s', POLICY] });
    assert.equal(limiter.policies.length, 2);
    const { policies, costs } = await limiter.consume(
      { key: 'k', ...keyOf('a') },
      { cost: { 'policy-2': 7 } },
    );
    assert.deepEqual(
      policies.map(({ name, remaining, share }) => [name, remaining, share]),
      [
        ['policy-1', 49, undefined],
        ['policy-2', 93, 100],
      ],
    );
    assert.deepEqual(costs, { 'policy-1': 1, 'policy-2': 7 });
  });

  it('does not apply without the key of its limit, and counts requests without a tenant as one tenant', async () => {
    const limiter = createLimiter({ policies: ['500/1s', POLICY] });
    assert.equal((await limiter.consume('k')).policies.length, 1);
    const { policies } = await limiter.consume({ key: 'k', provider: 'openai' }, { cost: 30 });
    assert.equal(policies[1]!.remaining, 70);
    await assert.rejects(limiter.consume({ key: 'k', org: 'x' }), { code: 'HEADGATE_UNKNOWN_DIMENSION' });
  });
});

for (const [name, create] of Object.entries(stores)) {
  describe(`share beside other features, on ${name}`, () => {
    const open = (options: object = {}) => {
      const clock = new TestClock();
      const limiter = createLimiter({
        store: create(clock.read),
        policies: POLICY,
        ...options,
      });
      return { clock, limiter };
    };

    it('returns refunded units as if they had never been charged', async () => {
      const { limiter, clock } = open();
      const before = await limiter.consume(keyOf('b'), { cost: 4 });
      const seen = await limiter.peek(keyOf('a'));
      const decision = await limiter.consume(keyOf('a'), { cost: 30 });
      await decision.settle(50);
      assert.equal((await limiter.peek(keyOf('a'))).remaining, seen.remaining - 50);
      await decision.refund();
      assert.deepEqual((await limiter.peek(keyOf('a'))).policies, seen.policies);
      clock.now += 100;
      await before.refund();
      const { remaining, policies } = await limiter.peek(keyOf('a'));
      assert.deepEqual([remaining, policies[0]!.share], [100, 100]);
    });

    it('forgets the shares of all tenants when the limit is reset', async () => {
      const { limiter } = open();
      await flood(limiter);
      await limiter.reset(keyOf('a'));
      for (const tenant of ['a', 'b']) {
        const { remaining, policies } = await limiter.peek(keyOf(tenant));
        assert.deepEqual([remaining, policies[0]!.share], [100, 100]);
      }
    });

    it('follows an override of the limit', async () => {
      const { limiter } = open({ overrides: true });
      await flood(limiter);
      await limiter.override({ provider: 'openai' }, { limit: 300 });
      const { allowed, limit, policies } = await limiter.consume(keyOf('a'), { cost: 20 });
      assert.deepEqual([allowed, limit], [true, 300]);
      assert.equal(policies[0]!.share, 150);
    });

    it('shows the part of the share that a tenant has used', async () => {
      const { limiter } = open({ policies: [`shared=${POLICY}`, '50/1s by tenant'] });
      const { share, remaining, used } = (await limiter.usage(keyOf('a'))).policies[0]!;
      assert.deepEqual([share, remaining, used], [100, 100, 0]);
      await flood(limiter);
      const { policies } = await limiter.usage(keyOf('a'));
      assert.deepEqual(
        policies.map((each) => [each.name, each.key, each.limit, each.share, each.used, each.remaining]),
        [
          ['shared', 'openai', 100, 50, 50, 0],
          ['policy-2', 'a', 50, undefined, 50, 0],
        ],
      );
      assert.deepEqual(await limiter.usage(keyOf('a')), await limiter.usage(keyOf('a')));
      assert.equal((await limiter.peek(keyOf('a'))).policies[0]!.share, 50);
    });

    it('follows an override of the weight of a tenant, from every process', async () => {
      const clock = new TestClock();
      const store = create(clock.read);
      const [limiter, other] = [1, 2].map(() =>
        createLimiter({ name: 'llm', store, policies: POLICY, overrides: true }),
      ) as [Limiter, Limiter];
      await flood(limiter);
      const shareOf = async (tenant: string) => (await other.peek(keyOf(tenant))).policies[0]!.share;
      assert.deepEqual([await shareOf('a'), await shareOf('b')], [50, 50]);
      await limiter.override(keyOf('a'), { weight: 4 }, { by: 'ada' });
      assert.deepEqual([await shareOf('a'), await shareOf('b')], [80, 50]);
      await other.consume(keyOf('a'), { cost: 10 });
      assert.deepEqual([await shareOf('a'), await shareOf('b')], [80, 20]);
      assert.deepEqual((await other.overrideOf(keyOf('a')))?.change, { weight: 4 });
      await limiter.removeOverride(keyOf('a'));
      assert.equal(await shareOf('a'), 50);
      const refusals: [object, unknown, RegExp][] = [
        [{ tenant: 'a' }, { weight: 4 }, /INVALID_KEY|names a tenant/],
        [keyOf('a'), { limit: 4 }, /only a weight/],
        [keyOf('a'), '5/1s', /only a weight/],
        [keyOf('a'), { weight: 0 }, /weight/],
        [{ provider: 'openai' }, { weight: 4 }, /weight/],
      ];
      for (const [key, change, message] of refusals)
        await assert.rejects(limiter.override(key as never, change as never), message);
    });

    it('denies beyond a share as such, also under an override of another policy of the key', async () => {
      const { limiter } = open({
        policies: ['p=gcra 90/10s by provider', `shared=${POLICY}`],
        ...{ overrides: true, ban: { after: 1, by: 'provider' } },
      });
      await limiter.override({ provider: 'openai' }, { p: { limit: 500 } });
      await limiter.consume(keyOf('a'), { cost: { p: 1, shared: 90 } });
      for (let i = 0; i < 2; i++) {
        const { reason, policies } = await limiter.consume(keyOf('b'), { cost: 10 });
        assert.deepEqual([reason, policies[1]!.allowed], ['fair-share', false]);
      }
    });

    it('only reports as a shadow', async () => {
      const { limiter } = open({ policies: [`shared=${POLICY} shadow`, '5000/10s'] });
      const key = (tenant: string) => ({ key: 'k', ...keyOf(tenant) });
      let last: Decision | undefined;
      for (let i = 0; i < 30; i++) {
        last = await limiter.consume(key('a'), { cost: 10 });
        assert.equal(last.allowed, true);
      }
      assert.equal(last!.policies[0]!.allowed, false);
      await last!.refund();
      assert.equal((await limiter.peek(key('a'))).policies[0]!.remaining, 0);
    });

    it('does not count a request that another policy denies as demand', async () => {
      const { limiter, clock } = open({ policies: [`shared=${POLICY}`, 'own=20/10s by tenant'] });
      for (let i = 0; i < 100; i++) await limiter.consume(keyOf('a'));
      clock.now += 1000;
      // The tenant `a` is light, so its demand of 20 is kept for it.
      const { policies } = await limiter.peek(keyOf('b'));
      assert.ok(policies[0]!.share! > 60, `${policies[0]!.share}`);
    });

    it('has a retryAfterMs at which the share admits, too, if the denied attempt makes another policy wait longer', async () => {
      const attempts = {
        name: 'attempts',
        algorithm: 'fixed-window',
        limit: 5,
        window: '12s',
        count: 'attempts',
      };
      const shared = { name: 'shared', limit: 5, window: '1m', share: 'tenant' };
      const { limiter, clock } = open({ policies: [attempts, shared] });
      await limiter.consume('k');
      const request = { key: 'k', tenant: 'a' };
      const { retryAfterMs } = await limiter.consume(request, { cost: 3 });
      clock.now += retryAfterMs! - 1;
      assert.equal((await limiter.peek(request, { cost: 3 })).allowed, false);
      clock.now += 1;
      assert.equal((await limiter.peek(request, { cost: 3 })).allowed, true);
    });

    it('takes weights from tiers', async () => {
      const { limiter, clock } = open({
        policies: undefined,
        tiers: { free: POLICY, pro: `${POLICY} weight 4` },
      });
      const units: Record<string, number> = { free: 0, pro: 0 };
      for (let i = 0; i < 600; i++) {
        clock.now += 100;
        for (const tier of ['free', 'pro'])
          if ((await limiter.consume(keyOf(tier), { tier })).allowed && i > 150) units[tier]!++;
      }
      const part = units['pro']! / (units['free']! + units['pro']!);
      assert.ok(part > 0.77 && part < 0.83, `${part}`);
    });

    it('bans a tenant by the denials of its own policy, and not by those of a shared limit', async () => {
      for (const own of [30, 5000]) {
        const { limiter } = open({
          policies: [`shared=${POLICY}`, `${own}/10s by tenant`],
          ban: { after: 3, within: '1m', for: '1h', by: 'tenant' },
        });
        for (let i = 0; i < 15; i++) await limiter.consume(keyOf('a'), { cost: 10 });
        const reasons = await Promise.all(
          ['a', 'b'].map(async (tenant) => (await limiter.consume(keyOf(tenant))).reason),
        );
        assert.deepEqual(reasons, own === 30 ? ['banned', undefined] : ['quota-exceeded', 'quota-exceeded']);
      }
    });

    it('decides a hundred simultaneous requests in one order', async () => {
      const { limiter } = open();
      const all = await Promise.all(
        Array.from({ length: 150 }, (_, i) => limiter.consume(keyOf(`t${i % 2}`))),
      );
      assert.equal(all.filter(({ allowed }) => allowed).length, 100);
    });
  });
}

for (const kind of serverKinds) {
  describe(`share, on ${kind}`, () => {
    it('returns the units of a request whose id cannot be remembered', async () => {
      const [client, prefix, clock] = [clients[kind], freshPrefix(), new TestClock().read];
      const make = (redis: Redis) => {
        const store = redisStore(redis, { prefix, clock });
        return createLimiter({
          name: 'llm',
          store,
          policies: POLICY,
          onStoreError: 'throw',
          warnings: false,
        });
      };
      const names = async () => (await client.keys(`${prefix}:*`)).sort();
      const state = async () => {
        const keys = await names();
        return Promise.all(
          keys.map(async (key) => [
            key,
            (await client.getBuffer(key))?.toString('hex'),
            await client.pexpiretime(key),
          ]),
        );
      };
      const limiter = make(client);
      await limiter.consume(keyOf('a'), { cost: 3 });
      const rights = (await names()).map((key) => `+set|${key}`);
      await client.call(
        ...['ACL', 'SETUSER', 'few', 'reset', 'on', '>password', '~*', '+@all', '-set', ...rights],
      );
      const few = new Redis(servers[kind].port, { username: 'few', password: 'password' });
      try {
        const before = await state();
        for (const cost of [2, 90])
          await assert.rejects(make(few).consume(keyOf('a'), { cost, id: 'x' }), {
            code: 'HEADGATE_STORE_ERROR',
          });
        assert.deepEqual(await state(), before);
      } finally {
        few.disconnect();
        await client.call('ACL', 'DELUSER', 'few');
      }
    });

    it('leaves a TTL on every key, and asks the store for each request', async () => {
      const prefix = freshPrefix();
      const limiter = limiterOn(redisStore(clients[kind], { prefix, publish: false }), { policies: POLICY });
      await flood(limiter);
      const names = await clients[kind].keys(`${prefix}:*`);
      assert.equal(names.length, 4);
      for (const name of names) assert.ok((await clients[kind].pttl(name)) > 0, name);
      const tags = names.map((name) => name.slice(name.indexOf('{') + 1, name.indexOf('}')));
      assert.equal(new Set(tags).size, 1);
      await limiter.close();
    });

    it('is not sliced', async () => {
      const store = redisStore(clients[kind], { prefix: freshPrefix(), slices: true });
      const limiter = createLimiter({ store, policies: POLICY, warnings: false });
      for (let i = 0; i < 200; i++) await limiter.consume(keyOf('a'));
      assert.equal((await limiter.peek(keyOf('b'))).remaining, 0);
      await limiter.close();
    });
  });
}

describe('share, while the store is down', () => {
  it('is enforced by the substitute', async () => {
    const client = new Redis(1, { lazyConnect: true, retryStrategy: null, enableOfflineQueue: false });
    client.on('error', () => {});
    const limiter = createLimiter({
      store: redisStore(client),
      policies: POLICY,
      timeout: 50,
      connectTimeout: 50,
    });
    const decisions: Decision[] = [];
    for (let i = 0; i < 30; i++)
      decisions.push(await limiter.consume(keyOf(i % 2 ? 'a' : 'b'), { cost: 10 }));
    assert.equal(decisions.at(-1)!.degraded, true);
    assert.equal(decisions.filter(({ allowed }) => allowed).length, 10);
    await limiter.close();
    client.disconnect();
  });
});

describe('share, over HTTP', () => {
  it('shows a client the part of its share', async () => {
    const app = express();
    const clock = new TestClock();
    app.use(
      rateLimit({
        store: memoryStore({ clock: clock.read }),
        policies: POLICY,
        headers: ['legacy', 'draft-11'],
        keys: { provider: () => 'openai', tenant: (req) => req.get('x-tenant') },
        weight: (req) => Number(req.get('x-weight') ?? 1),
        cost: 10,
      }),
      (_req, res) => void res.end('ok'),
    );
    const server = app.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as { port: number };
    const ask = (tenant: string, weight: string) =>
      fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-tenant': tenant, 'x-weight': weight } });
    for (let i = 0; i < 12; i++)
      for (const tenant of ['a', 'b']) await (await ask(tenant, tenant === 'a' ? '3' : '1')).text();
    const response = await ask('a', '3');
    assert.equal(response.status, 429);
    assert.equal(response.headers.get('x-ratelimit-limit'), '75');
    assert.equal(response.headers.get('x-ratelimit-remaining'), '0');
    assert.match(response.headers.get('ratelimit-policy')!, /q=100/);
    server.close();
  });
});

describeSqlite('share, on SQLite', () => {
  for (const policies of SHARED_POLICIES)
    it(`decides random traces as in memory, ${String(policies)}`, () => {
      const path = makeDirectory();
      let files = 0;
      const create = (clock: () => number) => storeOn(join(path, `${files++}.db`), { clock });
      return expectSame([stores.memory, create], policies, runs('sqlite', 20, 6));
    });

  it('decides as in memory, from two stores on one file', async () => {
    const path = join(makeDirectory(), 'limits.db');
    const sqlite = [storeOn(path), storeOn(path)].map((store) => createLimiter({ store, policies: POLICY }));
    let units = 0;
    for (let i = 0; i < 30; i++)
      if ((await sqlite[i % 2]!.consume(keyOf(i % 3 ? 'a' : 'b'), { cost: 10 })).allowed) units += 10;
    assert.equal(units, 100);
    assert.equal((await sqlite[0]!.peek(keyOf('c'))).policies[0]!.share! <= 50, true);
    for (const limiter of sqlite) await limiter.close();
  });
});

describe('share, in a cluster', () => {
  it('has all keys of a limit in one slot', async function () {
    this.timeout(60_000);
    const cluster = await startCluster('redis');
    const client = await cluster.connect();
    try {
      const limiter = createLimiter({
        store: redisStore(client),
        policies: POLICY,
        timeout: '10s',
        warnings: false,
      });
      const decisions = await Promise.all(
        Array.from({ length: 150 }, (_, i) => limiter.consume(keyOf(`t${i % 2}`, `provider ${i % 5}`))),
      );
      assert.equal(decisions.filter(({ allowed, degraded }) => allowed && !degraded).length, 150);
      await limiter.close();
    } finally {
      client.disconnect();
      await cluster.stop();
    }
  });
});
