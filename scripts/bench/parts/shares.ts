import { setTimeout as sleep } from 'node:timers/promises';
import Bottleneck from 'bottleneck';
import { createLimiter, memoryStore, type Key, type Policies } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { atMost, barOf, redisPart, spreads, tableOf, type Bench, type Section } from '../lib/part.js';
import { fixed } from '../lib/figures.js';
import { deniedOfLight, lightTenants, serve, type Demand } from '../lib/share-world.js';

/** The requests of a case in each round, one after the other, so that each is a call of its own. */
const REQUESTS = 1500;

const TWO = 'two policies';
const SHARED = 'share, 50 light tenants';
const OWN = 'share, and a policy of each tenant';
const FLOODED = 'share, three of four requests by a hog';
const DENIED = 'share, a hog that is always denied';

const ofTenants = (n: number): Key => ({ provider: 'p', tenant: `t${n % 50}` });
const ofHog = (n: number): Key => ({ provider: 'p', tenant: n % 4 === 0 ? `t${(n / 4) % 50}` : 'hog' });

const cases: Readonly<Record<string, { policies: Policies; keyOf: (n: number) => Key }>> = {
  [TWO]: { policies: ['a=100000/1m by provider', 'b=100000/1m by tenant'], keyOf: ofTenants },
  [SHARED]: { policies: '100000/1m by provider share tenant', keyOf: ofTenants },
  [OWN]: {
    policies: ['a=100000/1m by provider share tenant', 'b=100000/1m by tenant'],
    keyOf: ofTenants,
  },
  [FLOODED]: { policies: '5000/10s by provider share tenant', keyOf: ofHog },
  [DENIED]: {
    policies: '500/1m by provider share tenant',
    keyOf: () => ({ provider: 'p', tenant: 'hog' }),
  },
};

/** The cost of shares in Redis, and fairness beside peers, which do not share. */
export const shares = redisPart('shares', async (bench, port) => [
  await cost(bench, port),
  ...(await fairness()),
]);

async function cost(bench: Bench, port: number): Promise<Section> {
  const redis = new Redis(port);
  const limiters = Object.entries(cases).map(([title, { policies, keyOf }], i) => {
    const store = redisStore(redis, { prefix: `shares${i}`, localDenials: false });
    const limiter = createLimiter({
      store,
      policies,
      timeout: '10s',
      onStoreError: 'throw',
      warnings: false,
    });
    let n = 0;
    return [title, { limiter, ask: () => limiter.consume(keyOf(n++)) }] as const;
  });
  const asks = new Map(limiters);
  for (const { ask } of asks.values()) for (let i = 0; i < REQUESTS; i++) await ask();
  const title = 'Script time of a decision by one limit for many tenants';
  const results = await bench.sample(title, Object.keys(cases), async (name) => {
    await redis.config('RESETSTAT');
    for (let i = 0; i < REQUESTS; i++) await asks.get(name)!.ask();
    const script = /^cmdstat_evalsha:calls=\d+,usec=\d+,usec_per_call=([\d.]+)/m;
    return { script: Number(script.exec(await redis.info('commandstats'))![1]) };
  });
  for (const { limiter } of asks.values()) await limiter.close();
  redis.disconnect();
  const of = (name: string): number => results.get(name)!.script.median;
  return tableOf(
    title,
    results,
    [spreads('script us', 'script', 2), ['ratio', (_, name) => fixed(of(name) / of(TWO), 2)]],
    {
      note: 'One decision a call. Denials without `share` are usually remembered without a call; with `share` each asks the server.',
      bars: [atMost(`${SHARED}: <= 1.6x ${TWO}`, of(SHARED), of(TWO), 1.6)],
    },
  );
}

const LIMIT = 1000;
const WINDOW_MS = 2000;
const SECONDS = 8;
/** The time from which requests are counted, s. */
const SINCE = 3;

type Ask = (tenant: string, cost: number) => Promise<boolean>;

const headgate = (policies: string): Ask => {
  const limiter = createLimiter({ store: memoryStore(), policies, warnings: false });
  return async (tenant, cost) => (await limiter.consume({ key: 'limit', tenant }, { cost })).allowed;
};

const flexible = (limit: number, keyOf: (tenant: string) => string): Ask => {
  const limiter = new RateLimiterMemory({ points: limit, duration: WINDOW_MS / 1000 });
  return (tenant, cost) =>
    limiter.consume(keyOf(tenant), cost).then(
      () => true,
      () => false,
    );
};

const subjects: Readonly<Record<string, (tenants: number) => Ask>> = {
  'headgate, share': () => headgate(`${LIMIT}/${WINDOW_MS}ms share tenant`),
  'rate-limiter-flexible, one limit for all': () => flexible(LIMIT, () => 'limit'),
  'rate-limiter-flexible, a fixed part for each': (tenants) =>
    flexible(Math.floor(LIMIT / tenants), (tenant) => tenant),
  'bottleneck, a reservoir for all': () => {
    const limiter = new Bottleneck({
      ...{ reservoir: LIMIT, reservoirRefreshAmount: LIMIT, reservoirRefreshInterval: WINDOW_MS },
      ...{ highWater: 0, strategy: Bottleneck.strategy.OVERFLOW },
    });
    return (_, weight) =>
      limiter
        .schedule({ weight }, () => Promise.resolve())
        .then(
          () => true,
          () => false,
        );
  },
};

/** Serves demands in real time, which all subjects measure by. */
async function inRealTime(demands: readonly Demand[], create: (tenants: number) => Ask) {
  const ask = create(demands.length);
  const start = performance.now();
  return serve(demands, {
    ...{ limit: LIMIT, window: WINDOW_MS, seconds: SECONDS, since: SINCE },
    ask: async ({ at, tenant, cost }) => {
      const early = start + at - performance.now();
      if (early > 0) await sleep(early);
      return ask(tenant, cost);
    },
  });
}

async function fairness(): Promise<Section[]> {
  const perSecond = LIMIT / (WINDOW_MS / 1000);
  const flood = [...lightTenants(20, 0.44 * perSecond), { tenant: 'hog', rate: 2 * perSecond, from: 1 }];
  const retries = [
    { tenant: 'patient', rate: 0.8 * perSecond },
    { tenant: 'eager', rate: 2 * perSecond },
  ];
  const results = new Map<string, { denied: number; used: number; eager: number; most: number }>();
  for (const [name, create] of Object.entries(subjects)) {
    const [one, two] = [await inRealTime(flood, create), await inRealTime(retries, create)];
    const units = [...one.served.values()].reduce((sum, each) => sum + each.units, 0);
    const of = (tenant: string): number => two.served.get(tenant)!.units;
    results.set(name, {
      denied: deniedOfLight(one.served),
      used: units / (perSecond * (SECONDS - SINCE)),
      eager: of('eager') / of('patient'),
      most: Math.max(one.most, two.most) / LIMIT,
    });
  }
  const ours = results.get('headgate, share')!;
  return [
    tableOf(
      `Fairness: ${LIMIT} units in ${WINDOW_MS / 1000} s, twenty light tenants (44 %) and a hog (200 %); then an eager and a patient tenant`,
      results,
      [
        ['light ones denied', ({ denied }) => `${fixed(100 * denied, 1)} %`],
        ['limit used', ({ used }) => `${fixed(100 * used, 0)} %`],
        ['eager : patient', ({ eager }) => fixed(eager, 2)],
        ['most in any window', ({ most }) => `${fixed(most, 2)} x limit`],
      ],
      {
        bars: [
          barOf(
            'headgate: light ones denied <= 1 %',
            `${fixed(100 * ours.denied, 1)} %`,
            ours.denied <= 0.01,
          ),
          barOf('headgate: eager : patient <= 1.05', fixed(ours.eager, 2), ours.eager <= 1.05),
          barOf('headgate: never above the limit', `${fixed(ours.most, 2)} x limit`, ours.most <= 1),
        ],
      },
    ),
  ];
}
