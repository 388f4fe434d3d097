// The keys that are denied now, whether or not a denial was counted in the last seconds.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter } from 'headgate';
import { USE_LEVELS } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { sqliteStore } from 'headgate/sqlite';
import { Ends } from '../src/ends.js';
import { flagsOf } from '../src/flags.js';
import { completed, hasLimits, multiplied } from '../src/page/plan.js';
import { Now } from '../src/now.js';
import { endOf, otherDenial } from '../src/page/text.js';
import { isSliding, unitsAbove } from '../src/page/use.js';
import { startPage, tokenFields, type Site } from './servers.js';

/** The first answer that is wanted. Counts arrive each second. */
async function until<T>(ask: () => Promise<T>, isWanted: (answer: T) => boolean): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (isWanted(answer)) return answer;
    await sleep(200);
  }
}

const NO_RATES = {
  admitted: 0,
  denied: 4,
  degraded: 0,
  waiting: 0,
  held: 0,
  slots: 0,
  policies: [],
  reasons: [],
};

interface Row {
  readonly key: string;
  readonly policy: string;
  readonly retryAfterMs: number | null;
}

describe('denied keys of the dashboard', () => {
  let site: Site;
  let limiter: Limiter;
  const start = async (options: object): Promise<void> => {
    const store = memoryStore();
    limiter = createLimiter({ store, name: 'api', ...options } as never);
    site = await startPage({ store });
  };
  const get = async <T>(path: string): Promise<T> => (await fetch(site.url + path)).json() as Promise<T>;
  afterEach(async () => {
    await site.close();
    await limiter.close();
  });

  it('with a limit of another key are not simply admitted', async () => {
    await start({ policies: ['minute=9/1h', 'address=2/1h by address'], ban: {} });
    for (let i = 0; i < 4; i++) await limiter.consume({ key: `mal${i}`, address: '203.0.113.66' });
    const headers = await tokenFields(site.url, 'ada');
    const ask = async (key: string) => {
      const response = await fetch(`${site.url}api/key`, {
        ...{ method: 'POST', headers, body: JSON.stringify({ key }) },
      });
      return (await response.json()) as { views: readonly object[] };
    };
    const { views } = await until(
      () => ask('mal3'),
      (answer) => otherDenial([...answer.views]) !== undefined,
    );
    expect(views[0]).to.include({ allowed: true });
    expect(otherDenial([...views])).to.equal(
      'Its own limits admit it, but in api its requests are denied by address, a limit of another key (by address)',
    );
    expect(otherDenial([...(await ask('mal0')).views])).to.equal(undefined);
    const banned = { name: 'api', deniedLately: { reason: 'banned', dimension: 'address' } };
    expect(otherDenial([banned])).to.match(/denied by another key: banned \(by address\)$/);
    expect(endOf({ retryAfterMs: 0, lacksSlots: false, deniedFor: 'address' })).to.match(/another key/);
  });

  it('are found by a search although a limiter has counted traffic without a denial', async () => {
    await start({ policies: ['5/1h'], ban: {} });
    await limiter.consume('eve', { cost: 5 });
    await limiter.consume('ada');
    await limiter.ban('mallory', '1h');
    const { keys } = await until(
      () => get<{ keys: { denied: number }[] }>('api/limiter?name=api'),
      (answer) => answer.keys.length === 2,
    );
    expect(keys.filter(({ denied }) => denied > 0)).to.deep.equal([]);
    const { limited, bans, ageMs } = await get<{
      limited: { rows: Row[] };
      bans: { key: string }[];
      ageMs: number;
    }>('api/denied?name=api');
    expect(limited.rows.map(({ key, policy }) => [key, policy])).to.deep.equal([['eve', 'default']]);
    expect(limited.rows[0]!.retryAfterMs).to.be.within(1, 7_200_000);
    expect(bans.map(({ key }) => key)).to.deep.equal(['mallory']);
    expect(ageMs).to.be.within(0, 5000);
    expect((await fetch(`${site.url}api/denied?name=invented`)).status).to.equal(404);
  });

  it('have an end on the first screen', async () => {
    await start({ policies: ['5/1h'] });
    for (let i = 0; i < 7; i++) await limiter.consume('eve');
    const { set } = await until(
      () => get<{ set: { denied: Row[]; busy: Row[] } }>('api/now'),
      (answer) => answer.set.denied.length === 1,
    );
    expect(set.denied[0]).to.include({ key: 'eve', name: 'api' });
    expect(set.denied[0]!.retryAfterMs).to.be.within(1, 7_200_000);
    expect(set.busy.map(({ key }) => key)).to.deep.equal(['eve']);
  });

  it('have an end on the first screen by the own limit of a tenant, and not by its share', async () => {
    await start({ policies: ['tokens=60/1h by provider share tenant', 'own=5/1h by tenant'] });
    for (let i = 0; i < 7; i++) await limiter.consume({ provider: 'openai', tenant: 'starved' });
    const { set } = await until(
      () => get<{ set: { denied: (Row & { isJudged: boolean })[] } }>('api/now'),
      (answer) => answer.set.denied[0]?.isJudged === true,
    );
    expect(set.denied[0]).to.include({ key: 'starved', policy: 'own' });
    expect(set.denied[0]!.retryAfterMs).to.be.within(1, 7_200_000);
  });

  it('have an end that is over if the own limit of a tenant has room again, unlike its share', async () => {
    const policies = ['tokens=60/1h by provider share tenant', '"own 1"=5/1h by tenant'];
    const admitted = { retryAfterMs: 0, isAdmitted: true, bannedForMs: 0, isOverridden: false };
    const ends = new Ends({ of: () => Promise.resolve(admitted) } as never);
    const configurations = [{ policies, tiers: {} }];
    const view = { name: 'api', traits: { sharesLimits: true }, configurations } as never;
    const row = { ...NO_RATES, name: 'api', key: 'starved', dimension: 'tenant' };
    const endOfPolicy = async (fields: object) => {
      const [end] = await ends.of([{ ...row, ...fields }], [view]);
      return end!.retryAfterMs;
    };
    expect(await endOfPolicy({ policy: 'own 1' })).to.equal(0);
    expect(await endOfPolicy({ policy: 'tokens' })).to.equal(null);
    expect(await endOfPolicy({}), 'for another reason').to.equal(null);
  });

  it('do not delay the first screen, and are judged two at a time', async () => {
    const rates = { admitted: 0, denied: 1, policy: 'minute' };
    const keys = ['a', 'b', 'c', 'd'].map((key) => ({ ...rates, key }));
    const waiting: (() => void)[] = [];
    const view = { likely: true, allowed: false, retryAfterMs: 9000, bannedForMs: 0, override: null };
    const admin = {
      limiters: () => Promise.resolve({ limiters: [] }),
      traffic: () => Promise.resolve({ limiters: [{ name: 'api', ...NO_RATES, keys }], processes: [] }),
      history: () => Promise.resolve({ minutes: [], limiters: [] }),
      queues: () => Promise.resolve({ keys: [], cut: [] }),
      loss: () => Promise.resolve(null),
      memory: () => Promise.resolve([]),
      log: () => [],
      key: (key: string) =>
        new Promise((resolve) =>
          waiting.push(() =>
            resolve([
              { ...view, policies: [], allowed: key === 'a', retryAfterMs: key === 'a' ? null : 9000 },
            ]),
          ),
        ),
    };
    const now = new Now(admin as never, ((key: unknown) => key) as never);
    const ends = async () =>
      ((await now.read())['denied'] as { retryAfterMs: number | null; isJudged: boolean }[]).map(
        ({ retryAfterMs, isJudged }) => isJudged && retryAfterMs,
      );
    const startedAt = performance.now();
    expect(await ends()).to.deep.equal([false, false, false, false]);
    expect(performance.now() - startedAt).to.be.below(2000);
    expect(waiting).to.have.length(2);
    await now.read();
    expect(waiting).to.have.length(2);
    for (const answer of waiting.splice(0)) answer();
    const some = await ends();
    expect(some[0]).to.equal(0);
    expect(some[1]).to.be.within(8000, 9000);
    expect(some.slice(2)).to.deep.equal([false, false]);
    expect(waiting).to.have.length(2);
    for (const answer of waiting.splice(0)) answer();
    expect((await ends())[3]).to.be.within(8000, 9000);
  });

  it('are counted since the first minute of decisions under What if', async () => {
    await start({ policies: ['5/1h'] });
    await limiter.consume('eve');
    // The use is read again after some seconds, so the counts of the first second come before.
    await sleep(1500);
    const { since } = await get<{ since: number }>('api/use?name=api');
    expect(Date.now() - since).to.be.within(0, 130_000);
  });
});

describe('the units that another limit would have denied', () => {
  const levels = USE_LEVELS;

  it('are the use above the limit, of each window', () => {
    // 100 windows, with each use from 1 to 100 of a limit of 100.
    const counts = [
      ...levels.map(
        (level) => Array.from({ length: 100 }, (_, i) => i + 1).filter((used) => used >= 100 * level).length,
      ),
      0,
    ];
    expect(100 * unitsAbove(levels as number[], counts, 0)).to.be.within(4900, 5200);
    expect(100 * unitsAbove(levels as number[], counts, 0.5)).to.be.within(1150, 1350);
    expect(100 * unitsAbove(levels as number[], counts, 0.9)).to.be.within(30, 80);
    expect(unitsAbove(levels as number[], counts, 1)).to.equal(0);
  });
});

describe('the units that a sliding window would have denied', () => {
  it('are roughly those of whole windows, because it frees units after its oldest segment', () => {
    const texts = ['10/1m', '10/1m segments 60', 'sliding-window 10/1h by address', '5/m'];
    expect(texts.filter((text) => !isSliding(text))).to.deep.equal([]);
    const others = ['fixed-window 10/1m', 'token-bucket 20/1s burst 40', 'concurrency 2/1m'];
    expect(others.filter(isSliding)).to.deep.equal([]);
  });
});

describe('the end of a denial', () => {
  it('is a text, also if it is over', () => {
    expect(endOf({ retryAfterMs: 61_000 })).to.equal('for 1 min 1 s');
    expect(endOf({ retryAfterMs: 0 })).to.equal('may pass now, at a cost of 1');
    expect(endOf({ retryAfterMs: 0, lacksSlots: true })).to.equal('until a slot is returned');
  });
});

describe('the options of the command line for a store', () => {
  it('name the file of SQLite, and are absent where no command line can open the store', () => {
    const database = { name: ':memory:', exec: () => {}, prepare: () => {} };
    expect(flagsOf(memoryStore(), undefined)).to.equal(null);
    expect(flagsOf('limits.db', undefined)).to.deep.equal(['--sqlite', 'limits.db']);
    expect(flagsOf(database as never, undefined)).to.deep.equal(['--sqlite', 'FILE']);
    expect(flagsOf(sqliteStore(database as never), undefined)).to.deep.equal(['--sqlite', 'FILE']);
    expect(flagsOf({ ...database, name: '/var/limits.db' } as never, undefined)).to.deep.equal([
      ...['--sqlite', '/var/limits.db'],
    ]);
    const client = { evalsha: () => {}, status: 'ready', options: {}, on: () => {} } as never;
    expect(flagsOf(client, 'mine')).to.deep.equal(['--prefix', 'mine']);
    expect(flagsOf(client, undefined)).to.deep.equal([]);
    expect(flagsOf(redisStore(client), undefined)).to.deep.equal([]);
    expect(flagsOf(redisStore(client, { prefix: 'shop' }), undefined)).to.deep.equal(['--prefix', 'shop']);
  });
});

interface Wish {
  readonly change: string | Record<string, string>;
  readonly plan?: unknown;
}

describe('a limit that an operator writes', () => {
  const row = { name: 'api', policies: ['minute=60/1m', 'day=calendar 900/day UTC'], tiers: {} };
  const given = multiplied(row, { name: 'api', all: true }, 0.5) as Wish;

  it('has the window of its policy if it is a number alone', () => {
    const change = { minute: '10', day: ' 7 ' };
    expect(completed({ ...given, change }, given)).to.deep.equal({ minute: '10/1m', day: '7/day' });
    const sole = multiplied({ ...row, policies: ['60/1m'] }, { name: 'api', all: true }, 0.5) as Wish;
    expect(sole.change).to.equal('30/1m');
    expect(completed({ ...sole, change: '10' }, sole)).to.equal('10/1m');
    expect(completed({ ...sole, change: '10/5m' }, sole)).to.equal('10/5m');
    const { plan: _, ...planless } = sole;
    expect(completed({ ...planless, change: '8' }, planless)).to.equal('8/1m');
    expect(completed({ ...sole, change: { tier: 'pro' } }, sole)).to.deep.equal({ tier: 'pro' });
  });

  it('is invalid without a number or a window', () => {
    const isValid = (change: unknown) => hasLimits({ action: 'override', change });
    for (const change of [
      '10/1m',
      'token-bucket 20/1s burst 40',
      '5 / day',
      { minute: '1/1m' },
      { tier: 'a' },
      'unlimited',
      { minute: 'Unlimited' },
    ])
      expect(isValid(change), JSON.stringify(change)).to.equal(true);
    for (const change of ['', '10', 'ten', '10/', '/1m', { minute: '1/1m', day: '' }])
      expect(isValid(change), JSON.stringify(change)).to.equal(false);
  });
});
