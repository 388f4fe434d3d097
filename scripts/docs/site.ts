// A shop that runs on a Redis: ten limiters in four processes' stores, with their clients. The pictures of the dashboard and its measurement use it.
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter, type CreateLimiterOptions, type Limiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';

/** The limiters, and the requests a second that the site sends through each. */
const LIMITERS: Readonly<Record<string, { options: object; rate: number; cost?: number }>> = {
  api: {
    options: {
      policies: ['second=token-bucket 20/1s burst 40', 'minute=300/1m'],
      ban: {},
      overrides: true,
    },
    rate: 92,
  },
  login: {
    options: {
      policies: ['address=10/1m', 'account=20/1h by account'],
      ban: { after: 500, within: '10m', for: '15m' },
      overrides: true,
    },
    rate: 6,
  },
  search: { options: { policies: ['60/10s'], overrides: true, ban: {} }, rate: 38 },
  checkout: { options: { policies: ['30/1m'], ban: {} }, rate: 6 },
  webhooks: { options: { policies: ['leaky-bucket 6/1s burst 1 max-delay 3s'] }, rate: 6.2 },
  'image-upload': { options: { policies: ['concurrency 6/30s'] }, rate: 4 },
  'chat-tokens': {
    options: { policies: ['tokens=90000/1m', 'month=calendar 20000000/month by org'], overrides: true },
    rate: 7,
    cost: 850,
  },
  signup: { options: { policies: ['5/1h'], shadow: true }, rate: 0.7 },
  exports: { options: { policies: ['10/1h'] }, rate: 0.3 },
  'password-reset': { options: { policies: ['3/1h'], ban: {} }, rate: 0.2 },
};

const ATTACKER = '203.0.113.86';
const ORGS = ['acme', 'globex', 'initech', 'umbrella', 'hooli'];

/** A client: few are frequent, most are rare. */
function client(): string {
  const n = 23 + Math.floor(2400 * Math.random() ** 1.7);
  return `${[84, 91, 178, 188][n % 4]}.${(n * 37) % 251}.${(n * 101) % 253}.${(n * 17) % 249}`;
}

/** The rate of a limiter at a time, which rises and falls like that of a real site. */
const waves = (second: number, phase: number): number =>
  1 + 0.28 * Math.sin(second / 110 + phase) + 0.14 * Math.sin(second / 23 + 2 * phase);

const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)]!;

/** Runs the site until the returned function is called. */
export function startSite(url: string): () => Promise<void> {
  let isRunning = true;
  const clients = Array.from({ length: 4 }, () => new Redis(url));
  const stores = clients.map((redis) => redisStore(redis, { counts: true, publish: '2s' }));
  const fleet = stores.map((store, i) => {
    const all = Object.entries(LIMITERS).map(([name, { options }]) => {
      // One process still has the last deployment's limit.
      const old = name === 'checkout' && i === 3 ? { policies: ['20/1m'] } : {};
      return [
        name,
        createLimiter({ name, store, timeout: '5s', ...options, ...old } as CreateLimiterOptions),
      ] as const;
    });
    return new Map<string, Limiter>(all);
  });

  const use = async (name: string, limiter: Limiter, key: string): Promise<void> => {
    if (name === 'webhooks') return void (await limiter.wait('partner:courier', { timeout: '4s' }));
    if (name === 'image-upload') {
      const decision = await limiter.consume('uploads');
      if (!decision.allowed) return;
      await sleep(900 + 700 * Math.random());
      return void (await decision.release());
    }
    const org = pick(ORGS);
    if (name === 'chat-tokens')
      return void (await limiter.consume(
        { key: `org:${org}`, org },
        { cost: Math.round(300 + 1400 * Math.random()) },
      ));
    if (name === 'login')
      return void (await limiter.consume({ key, account: `user-${Math.floor(4000 * Math.random() ** 2)}` }));
    await limiter.consume(key);
  };

  const startedAt = Date.now();
  const loop = async (name: string, rate: number, phase: number, keyOf: () => string): Promise<void> => {
    let due = 0;
    let last = Date.now();
    while (isRunning) {
      await sleep(50);
      const now = Date.now();
      due += (rate * waves((now - startedAt) / 1000, phase) * (now - last)) / 1000;
      last = now;
      for (; due >= 1; due--) {
        const limiter = pick(fleet).get(name)!;
        // Denials, and calls that end with the site.
        void use(name, limiter, keyOf()).catch(() => {});
      }
    }
  };
  const loops = Object.entries(LIMITERS).map(([name, { rate }], i) => loop(name, rate, 1.3 * i, client));
  // An attacker on two limiters, a scraper, and an impatient customer.
  loops.push(
    loop('api', 21, 4, () => ATTACKER),
    loop('login', 4, 5, () => ATTACKER),
    loop('search', 11, 6, () => '198.51.100.23'),
    loop('api', 8, 7, () => 'customer:4711'),
  );
  return async () => {
    isRunning = false;
    await Promise.all(loops);
    await Promise.allSettled(fleet.flatMap((limiters) => [...limiters.values()].map((each) => each.close())));
    for (const redis of clients) redis.disconnect();
  };
}

/** The changes of a morning, by several operators. */
export async function makeChanges(url: string): Promise<void> {
  const redis = new Redis(url);
  const admin = createAdmin(redisStore(redis));
  const changes: (() => Promise<unknown>)[] = [
    () => admin.ban('198.51.100.0/28', '7d', { name: 'api', by: 'ops-bot', reason: 'abuse feed, list 12' }),
    () =>
      admin.override(
        'customer:4711',
        { minute: '900/1m' },
        { name: 'api', for: '7d', by: 'grace', reason: 'migration, SUP-2214' },
      ),
    () => admin.ban('45.83.64.17', '2h', { name: 'search', by: 'linus', reason: 'scraping product pages' }),
    () => admin.reset('91.74.202.34', { name: 'checkout', by: 'ada', reason: 'customer called, SUP-2231' }),
    () => admin.unban('45.83.64.17', { name: 'search', by: 'ada', reason: 'it is our price monitor' }),
    () =>
      admin.override(
        'org:globex',
        { tokens: '200000/1m' },
        { name: 'chat-tokens', for: '1d', by: 'grace', reason: 'launch day' },
      ),
    () => admin.ban('192.0.2.44', '1d', { name: 'api', by: 'linus', reason: 'credential stuffing, INC-41' }),
  ];
  for (const change of changes) await change();
  await admin.close();
  redis.disconnect();
}
