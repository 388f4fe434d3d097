import type { Algorithm, Policy } from 'headgate';
import { drains, plainPolicy as plain, remainingOf } from './algorithms.js';
import type { Check } from './check.js';
import { expectEqual, expectFields } from './expect.js';
import { contractOfReturns } from './contract-returns.js';
import { AWKWARD, LONGEST_KEYS } from './keys.js';
import { expectExactWait, limiterOn, Suite, type StoreUnderTest } from './subject.js';

/** The times at which the remaining units are checked, s, after 4 of 6 units were charged at 0 s, and the rest at 15 s. */
const TIMES = [15, 30, 59.999, 66, 74.999, 81] as const;

/** Examples that every store must answer correctly. */
export function contractChecks(subject: StoreUnderTest): Check[] {
  const suite = new Suite('contract', subject);
  for (const algorithm of suite.algorithms) contractOf(suite, algorithm);
  contractOfBuckets(suite);
  contractOfSets(suite);
  contractOfReturns(suite);
  contractOfBans(suite);
  return suite.checks;
}

function contractOf(suite: Suite, algorithm: Algorithm): void {
  suite.add(`${algorithm}: admits the limit, then denies until retryAfter`, async (lab) => {
    const { clock, limiter } = await lab.open(plain(algorithm));
    for (const remaining of [2, 1, 0])
      expectFields('a request', await limiter.consume('key'), { allowed: true, remaining });
    const denied = await limiter.consume('key');
    expectFields('the 4th of 3', denied, { allowed: false });
    await expectExactWait(clock, denied, () => limiter.consume('key'));
  });

  suite.add(`${algorithm}: charged units become free at the published times`, async (lab) => {
    const { clock, limiter } = await lab.open(plain(algorithm, 6));
    const start = clock.now;
    await limiter.consume('key', { cost: 4 });
    clock.now += 15_000;
    await limiter.consume('key', { cost: (await limiter.peek('key')).remaining });
    for (const [i, seconds] of TIMES.entries()) {
      clock.now = start + seconds * 1_000;
      const { remaining } = await limiter.peek('key');
      expectEqual(`remaining after ${seconds} s`, remaining, remainingOf(algorithm)[i]);
    }
  });

  suite.add(`${algorithm}: charges a cost whole, or not at all`, async (lab) => {
    const { limiter } = await lab.open(plain(algorithm));
    const costing = async (cost: number, expected: object) =>
      expectFields(`a cost of ${cost}`, await limiter.consume('key', { cost }), expected);
    await costing(4, { allowed: false, reason: 'cost-exceeds-capacity' });
    await costing(2, { allowed: true, remaining: 1 });
    await costing(2, { allowed: false, remaining: 1 });
    await costing(1, { allowed: true, remaining: 0 });
  });

  suite.add(`${algorithm}: peeks without writing`, async (lab) => {
    const { limiter } = await lab.open(plain(algorithm));
    const full = { allowed: true, remaining: 3, resetAfterMs: 0 };
    for (let i = 0; i < 3; i++) expectFields('a peek at no state', await limiter.peek('key'), full);
    await limiter.consume('key', { cost: 3 });
    for (let i = 0; i < 3; i++)
      expectFields('a peek at no quota', await limiter.peek('key'), { allowed: false });
    const free = await limiter.consume('key', { cost: 0 });
    expectFields('a cost of 0', free, { allowed: true, remaining: 0 });
  });

  suite.add(
    `${algorithm}: has its full quota after resetAfter, as if nothing had been charged`,
    async (lab) => {
      const { clock, limiter } = await lab.open(plain(algorithm));
      clock.now += (await limiter.consume('key', { cost: 3 })).resetAfterMs;
      expectFields('a peek', await limiter.peek('key'), { remaining: 3, resetAfterMs: 0 });
      expectFields('a request', await limiter.consume('key'), { remaining: 2 });
    },
  );

  suite.add(`${algorithm}: resets one key, and no other`, async (lab) => {
    const { limiter } = await lab.open(plain(algorithm));
    for (const key of ['user:1', 'user:1:9', 'user:*']) await limiter.consume(key, { cost: 3 });
    await limiter.reset('user:1');
    await limiter.reset('user:*');
    expectFields('the key', await limiter.peek('user:1'), { remaining: 3, resetAfterMs: 0 });
    expectFields('another', await limiter.peek('user:1:9'), { remaining: 0 });
  });
}

function contractOfBuckets(suite: Suite): void {
  for (const algorithm of suite.algorithms.filter((each) => drains(plain(each)))) {
    suite.add(`${algorithm}: burst is the most that can be spent at once`, async (lab) => {
      const { clock, limiter } = await lab.open({ ...plain(algorithm, 6), burst: 2 } as Policy);
      expectFields('all at once', await limiter.consume('key', { cost: 2 }), { allowed: true, remaining: 0 });
      expectFields('one more', await limiter.consume('key'), { allowed: false, retryAfterMs: 10_000 });
      clock.now += 60_000;
      expectFields('a window later', await limiter.peek('key'), { remaining: 2 });
    });
  }

  if (!suite.algorithms.includes('leaky-bucket')) return;
  suite.add(
    'leaky-bucket: maxDelay holds requests until their turn, and denies requests that would wait longer',
    async (lab) => {
      const { limiter } = await lab.open({ policies: ['leaky-bucket 6/1m burst 1 max-delay 20s'] });
      for (const delayMs of [0, 10_000, 20_000])
        expectFields('a request', await limiter.consume('key'), { allowed: true, delayMs });
      expectFields('the 4th', await limiter.consume('key'), { allowed: false, retryAfterMs: 10_000 });
    },
  );
}

function contractOfSets(suite: Suite): void {
  suite.add('decides several policies together: all are charged, or none is', async (lab) => {
    const policies = suite.algorithms.map((each, i) => ({ ...plain(each, 5 - (i % 2)), name: each }));
    const { limiter } = await lab.open({ policies });
    const cost = Math.max(...policies.map(({ limit }) => limit)) - 2;
    await limiter.consume('key', { cost });
    // With limits 5 and 4, the smaller limit has one unit left, too little for a cost of two.
    const { allowed, policies: verdicts } = await limiter.consume('key', { cost: 2 });
    expectEqual('allowed', allowed, policies.length === 1);
    if (policies.length === 1) return;
    const remaining = verdicts.map((each) => each.remaining);
    expectEqual(
      'remaining',
      remaining,
      policies.map(({ limit }) => limit - cost),
    );
    expectFields('a smaller cost', await limiter.consume('key'), { allowed: true });
  });

  suite.add('lets a shadow report, but not deny', async (lab) => {
    const { limiter } = await lab.open({ policies: ['shadow=1/1m shadow', 'real=2/1m'] });
    for (const expected of ['true,true', 'false,true', 'false,false']) {
      const { policies } = await limiter.consume('key');
      expectEqual('shadow and real', policies.map(({ allowed }) => allowed).join(), expected);
    }
  });

  suite.add('shares state within a name, and with no other name or key', async (lab) => {
    const { store, limiter } = await lab.open({ name: 'a', ...plain('fixed-window') });
    const same = limiterOn(store, { name: 'a', ...plain('fixed-window') });
    const other = limiterOn(store, { name: 'b', ...plain('fixed-window') });
    await limiter.consume('key', { cost: 2 });
    expectFields('the same name', await same.consume('key'), { remaining: 0 });
    expectFields('another name', await other.peek('key'), { remaining: 3 });
    expectFields('another key', await limiter.peek('key2'), { remaining: 3 });
  });

  suite.add('keeps awkward keys apart', async (lab) => {
    const { limiter } = await lab.open({ limit: 1, window: '1m' });
    for (const allowed of [true, false])
      for (const key of AWKWARD)
        expectFields(JSON.stringify(key.slice(0, 40)), await limiter.consume(key), { allowed });
  });

  suite.add('keeps long keys apart, whatever their length', async (lab) => {
    const { limiter } = await lab.open({ name: LONGEST_KEYS.name, limit: 1, window: '1m' });
    for (const allowed of [true, false])
      for (const key of LONGEST_KEYS.keys)
        expectFields(key.slice(-8), await limiter.consume(key), { allowed });
  });

  suite.add('decides by other policies in the same scope', async (lab) => {
    const { limiter } = await lab.open({ limit: 2, window: '1m' });
    const paying = limiter.compile([{ limit: 10, window: '1m' }]);
    await limiter.consume('key', { cost: 2 });
    expectFields('the larger', await limiter.decide('key', 1, paying), { allowed: true, remaining: 7 });
    expectFields('the smaller', await limiter.consume('key'), { allowed: false });
  });
}

function contractOfBans(suite: Suite): void {
  const banned = (retryAfterMs: number) => ({ allowed: false, reason: 'banned', retryAfterMs });

  suite.add('bans after repeated denials, longer each time, and forgives after unban', async (lab) => {
    const ban = { after: 2, within: 60_000, for: 60_000, factor: 3, max: 3_600_000 };
    const { clock, limiter } = await lab.open({ limit: 1, window: 1_000, ban });
    const next = async (what: string, expected: object) =>
      expectFields(what, await limiter.consume('key'), expected);
    await limiter.consume('key');
    await next('the first denial', { reason: 'quota-exceeded' });
    await next('the second denial', banned(60_000));
    clock.now += 59_999;
    await next('1 ms before the end', banned(1));
    clock.now += 1;
    await next('at the end', { allowed: true });
    await limiter.consume('key');
    await next('the second ban', banned(180_000));
    await limiter.reset('key');
    await next('after a reset', { reason: 'banned' });
    await limiter.unban('key');
    await limiter.reset('key');
    await next('after unban', { allowed: true });
    await limiter.consume('key');
    await next('unban forgets earlier bans', banned(60_000));
  });

  suite.add('counts denials only for `within`: older ones do not lead to a ban', async (lab) => {
    const ban = { after: 2, within: 10_000, for: 60_000 };
    const { clock, limiter } = await lab.open({ limit: 1, window: 60_000, ban });
    await limiter.consume('key', { cost: 1 });
    for (let i = 0; i < 3; i++) {
      expectFields('a denial', await limiter.consume('key'), { reason: 'quota-exceeded' });
      clock.now += 10_001;
    }
  });

  suite.add('bans one key by hand, for the given time', async (lab) => {
    const { clock, limiter } = await lab.open({ limit: 1, window: '1m', ban: {} });
    await limiter.ban('key', '1h');
    expectFields('a request', await limiter.consume('key'), banned(3_600_000));
    expectFields('a peek', await limiter.peek('key'), { reason: 'banned' });
    expectFields('another key', await limiter.consume('other'), { allowed: true });
    clock.now += 3_600_000;
    expectFields('at the end', await limiter.consume('key'), { allowed: true });
  });

  suite.add('a ban by hand replaces an earlier one, even a longer one', async (lab) => {
    const { limiter } = await lab.open({ limit: 1, window: '1m', ban: {} });
    for (const hours of [1, 3, 2]) {
      await limiter.ban('key', hours * 3_600_000);
      expectFields('a request', await limiter.consume('key'), banned(hours * 3_600_000));
    }
  });

  suite.add('bans one key by hand, for as long as a year', async (lab) => {
    const { clock, limiter } = await lab.open({ limit: 1, window: '1m', ban: { max: '1h', for: '1h' } });
    await limiter.ban('key', '366d');
    clock.now += 365 * 86_400_000;
    expectFields('a year later', await limiter.consume('key'), banned(86_400_000));
  });
}
