// Named tiers: policies that are checked when the limiter is created, and that each request selects.
import { expect } from 'chai';
import {
  consumeAll,
  createLimiter,
  memoryStore,
  type CreateLimiterOptions,
  type HeadgateError,
} from 'headgate';
import { rateLimited } from 'headgate/decorators';
import { rateLimit } from 'headgate/express';
import { limiterOn, stores, TestClock } from '../../support/stores.js';

const tiers = { free: '10/1m', pro: ['100/1m'] } as const;

async function errorOf(action: () => unknown): Promise<HeadgateError> {
  try {
    await action();
  } catch (error) {
    return error as HeadgateError;
  }
  throw new Error('No error was thrown.');
}

for (const [name, createStore] of Object.entries(stores)) {
  describe(`tiers on ${name}`, () => {
    const open = (options: CreateLimiterOptions = { tiers }) => {
      const clock = new TestClock();
      return { clock, limiter: limiterOn(createStore(clock.read), options) };
    };

    it('a change of the tier neither loses nor doubles earlier charges', async () => {
      const { limiter } = open();
      expect(await limiter.consume('k', { cost: 10, tier: 'free' })).to.include({ allowed: true });
      expect(await limiter.consume('k', { tier: 'free' })).to.include({ allowed: false, limit: 10 });
      expect(await limiter.peek('k', { tier: 'pro' })).to.include({ remaining: 90, limit: 100 });
      expect(await limiter.consume('k', { cost: 90, tier: 'pro' })).to.include({ remaining: 0 });
      expect(await limiter.consume('k', { tier: 'pro' })).to.include({ allowed: false });
      expect(await limiter.peek('k', { tier: 'free' })).to.include({ allowed: false, remaining: 0 });
    });

    it('policies beside them are for requests without a tier', async () => {
      const { limiter } = open({ limit: 2, window: '1m', tiers });
      await limiter.consume('k');
      expect(await limiter.peek('k')).to.include({ limit: 2, remaining: 1 });
      expect(await limiter.peek('k', { tier: 'pro' })).to.include({ remaining: 99 });
    });

    it('a reset forgets the charges of all tiers, or of one', async () => {
      const buckets = { free: 'token-bucket 5/1h', pro: 'token-bucket 50/1h' };
      const { limiter } = open({ tiers: buckets });
      const spend = async () => {
        for (const tier of ['free', 'pro']) await limiter.consume('k', { cost: 5, tier });
      };
      const remainingUnits = async () =>
        Promise.all(['free', 'pro'].map(async (tier) => (await limiter.peek('k', { tier })).remaining));
      await spend();
      await limiter.reset('k', { tier: 'free' });
      expect(await remainingUnits()).to.deep.equal([5, 45]);
      await limiter.reset('k');
      await spend();
      await limiter.reset('k');
      expect(await remainingUnits()).to.deep.equal([5, 50]);
    });

    it('refund, wait, acquire, bans', async () => {
      const { limiter } = open({ tiers: { ...tiers, slots: 'concurrency 1/10s' }, ban: {} });
      await limiter.consume('k', { cost: 10, tier: 'free' });
      await limiter.refund('k', 4, { tier: 'free' });
      expect(await limiter.peek('k', { tier: 'free' })).to.include({ remaining: 4 });
      expect(await limiter.wait('k', { tier: 'pro', cost: 94 })).to.include({ allowed: true, limit: 100 });
      const slot = await limiter.acquire('k', { tier: 'slots' });
      expect(await limiter.acquire('k', { tier: 'slots' })).to.include({ allowed: false });
      await slot.release();
      expect((await errorOf(() => limiter.acquire('k', { tier: 'free' }))).code).to.equal(
        'HEADGATE_INVALID_OPTION',
      );
      await limiter.ban('k', '1h');
      for (const tier of ['free', 'pro'])
        expect(await limiter.peek('k', { tier })).to.include({ reason: 'banned' });
    });

    it('a waiter of one tier is woken by a give-back of another', async () => {
      const { limiter } = open({ tiers: { one: 'concurrency 1/1h', two: 'concurrency 2/1h' } });
      const held = await limiter.acquire('k', { tier: 'two' });
      const waiting = limiter.wait('k', { tier: 'one' });
      await held.release();
      expect(await waiting).to.include({ allowed: true, limit: 1 });
    });
  });
}

describe('an unknown tier', () => {
  it('is refused by every call, and no policy is charged', async () => {
    const limiter = createLimiter({ tiers, ban: {} });
    const calls = [
      (tier?: string) => limiter.consume('k', { tier }),
      (tier?: string) => limiter.peek('k', { tier }),
      (tier?: string) => limiter.wait('k', { tier }),
      (tier?: string) => limiter.acquire('k', { tier }),
      (tier?: string) => limiter.refund('k', 1, { tier }),
      (tier?: string) => consumeAll([{ limiter, key: 'k', ...(tier !== undefined && { tier }) }]),
    ];
    for (const call of calls) {
      for (const tier of [undefined, 'gold', 'toString', 5 as never]) {
        const { code, message } = await errorOf(() => call(tier));
        expect([String(call), code]).to.deep.equal([String(call), 'HEADGATE_UNKNOWN_TIER']);
        expect(message).to.contain('"free", "pro"');
      }
    }
    expect((await errorOf(() => limiter.reset('k', { tier: 'gold' }))).code).to.equal(
      'HEADGATE_UNKNOWN_TIER',
    );
    expect(await limiter.peek('k', { tier: 'pro' })).to.include({ remaining: 100 });
    await limiter.close();
  });

  it('is refused by a limiter without tiers', async () => {
    const limiter = createLimiter('1/1m');
    expect((await errorOf(() => limiter.consume('k', { tier: 'pro' }))).message).to.contain('`tiers`');
    await limiter.close();
  });
});

describe('tiers are checked when the limiter is made', () => {
  const wrong: [tiers: unknown, ...says: string[]][] = [
    [{}, 'tiers: ', '100'],
    [[], 'tiers: '],
    ['pro', 'tiers: "pro"'],
    [{ '': '1/1m' }, '64'],
    [{ free: '1/1m', pro: [] }, 'tiers.pro: '],
    [{ free: ['1/1m', '5/1x'] }, 'tiers.free[1]: "5/1x", at character 3'],
    [{ free: [{ limit: 0, window: '1m' }] }, 'tiers.free.limit: 0'],
  ];
  for (const [given, ...says] of wrong) {
    it(JSON.stringify(given), () => {
      for (const words of says) expect(() => createLimiter({ tiers: given } as never)).to.throw(words);
    });
  }

  it('limiters of one name have equal tiers', async () => {
    const store = memoryStore();
    const one = createLimiter({ name: 'x', store, tiers: { a: '1/1m', b: '2/1m' } });
    const same = createLimiter({ name: 'x', store, tiers: { b: ['2/60s'], a: '1/1m' } });
    const { code } = await errorOf(() =>
      createLimiter({ name: 'x', store, tiers: { a: '1/1m', b: '3/1m' } }),
    );
    expect(code).to.equal('HEADGATE_POLICY_MISMATCH');
    await Promise.all([one.close(), same.close()]);
  });

  it('over HTTP, so is the tier of a request', async () => {
    const limiter = createLimiter({ tiers });
    const plain = createLimiter('1/1m');
    const errorFor = (options: object) => errorOf(() => rateLimit(options as never));
    for (const [options, value] of [
      [{ tiers }, 'tier: '],
      [{ limiter }, 'tier: '],
      [{ tiers, tier: 'gold' }, '"free", "pro"'],
      [{ limiter, tier: 'gold' }, '"free", "pro"'],
      [{ limiter: plain, tier: () => 'pro' }, '`tiers`'],
      [{ limit: 1, window: '1m', tier: () => 'pro' }, '`tiers`'],
      [{ tiers, tier: 5 }, 'tier: 5'],
      [{ policies: () => '1/1m', tiers, tier: 'pro' }, 'policies'],
    ] as const) {
      const { code, message } = await errorFor(options);
      expect([code, message.includes(value)], message).to.deep.equal(['HEADGATE_INVALID_OPTION', true]);
    }
    await Promise.all([limiter.close(), plain.close()]);
  });
});

describe('tiers and a fixed cost', () => {
  const both = { limit: 20, window: '1m', tiers: { pro: '1000/1m' } } as const;

  it('is refused if the tiers that decide never admit it, and only then', async () => {
    const limiter = createLimiter(both);
    const work = () => Promise.resolve();
    for (const make of [
      (options: object) => rateLimit({ ...both, ...options } as never),
      (options: object) => rateLimit({ limiter, ...options } as never),
      (options: object) => rateLimited(work, { ...both, ...options }),
      (options: object) => rateLimited(work, { limiter, ...options }),
    ]) {
      make({ cost: 50, tier: 'pro' });
      make({ cost: 50, tier: () => 'pro' });
      for (const refused of [{ cost: 50 }, { cost: 1001, tier: 'pro' }, { cost: 1001, tier: () => 'pro' }]) {
        const { code, message } = await errorOf(() => make(refused));
        expect(message).to.match(/^cost: /);
        expect(code).to.equal('HEADGATE_INVALID_OPTION');
      }
    }
    const only = { tiers: { free: '5/1m' }, tier: 'free', cost: 6 } as const;
    expect((await errorOf(() => rateLimit(only))).code).to.equal('HEADGATE_INVALID_OPTION');
  });
});

describe('tiers of functions', () => {
  it('by the arguments, or a fixed one', async () => {
    const planOf = (user: { plan: string }) => Promise.resolve(user.plan);
    const limited = rateLimited(planOf, { tiers: { free: '1/1m', pro: '2/1m' }, tier: ({ plan }) => plan });
    const calls = ['free', 'free', 'pro', 'pro'].map((plan) => () => limited({ plan }));
    const outcomes: string[] = [];
    for (const call of calls) outcomes.push(await call().catch(({ code }: HeadgateError) => code));
    expect(outcomes).to.deep.equal(['free', 'HEADGATE_DENIED', 'pro', 'HEADGATE_DENIED']);
    const one = rateLimited(planOf, { limiter: limited.limiter, tier: 'pro' });
    expect((await errorOf(() => one({ plan: '' }))).code).to.equal('HEADGATE_DENIED');
    for (const tier of ['gold', undefined]) {
      const options = { limiter: limited.limiter, ...(tier !== undefined && { tier }) };
      expect((await errorOf(() => rateLimited(planOf, options))).code).to.equal('HEADGATE_UNKNOWN_TIER');
    }
    await limited.limiter.close();
  });
});
