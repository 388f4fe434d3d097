import { expect } from 'chai';
import { createLimiter, type BanOptions, type HeadgateError } from 'headgate';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { useFakeTimers } from 'sinon';
import { rateLimitHeaders } from 'headgate/http';
import { limiterOn, stores, TestClock } from '../../support/stores.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const policy = { algorithm: 'fixed-window', limit: 1, window: '30d' } as const;

for (const [name, createStore] of Object.entries(stores)) {
  describe(`bans on ${name}`, () => {
    function setup(ban: BanOptions) {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), { ...policy, ban });
      /** Denials in a row. Returns the length of the last one's ban, ms. */
      const deny = async (times = 1) => {
        let last = await limiter.consume('k', { cost: 2 });
        for (let i = 1; i < times; i++) last = await limiter.consume('k', { cost: 2 });
        return last.reason === 'banned' ? last.retryAfterMs : 0;
      };
      return { clock, limiter, deny };
    }

    it('ban a key at the denial that exceeds the number within the span', async () => {
      const { clock, limiter, deny } = setup({ after: 3, within: '10m', for: '1h' });
      expect(await deny(2)).to.equal(0);
      clock.now += 10 * MINUTE;
      expect(await deny(2)).to.equal(0);
      expect(await deny()).to.equal(HOUR);
      clock.now += HOUR - 1;
      expect(await limiter.consume('k')).to.include({ allowed: false, reason: 'banned', retryAfterMs: 1 });
      clock.now += 1;
      expect((await limiter.consume('k')).allowed).to.be.true;
    });

    it('keep banned requests from the policies, and do not affect other keys', async () => {
      const { clock, limiter } = setup({});
      await limiter.ban('k', '1h');
      for (let i = 0; i < 3; i++) {
        const decision = await limiter.consume('k');
        expect(decision).to.include({ allowed: false, reason: 'banned', policy: undefined });
        expect(decision.policies).to.deep.equal([]);
      }
      expect((await limiter.consume('other')).allowed).to.be.true;
      clock.now += HOUR;
      expect((await limiter.consume('k')).allowed).to.be.true;
    });

    it('show an empty quota, whatever its remaining units', async () => {
      const { limiter, deny } = setup({ after: 1, for: '1h' });
      await limiter.ban('by hand', '2h');
      await deny();
      for (const [key, retryAfterMs] of [
        ['by hand', 2 * HOUR],
        ['k', HOUR],
      ] as const) {
        const decision = await limiter.consume(key);
        const { limit } = limiter.policies[0]!;
        expect(decision).to.include({ limit, remaining: 0, charged: 0, resetAfterMs: retryAfterMs });
        const fields = rateLimitHeaders(decision, ['draft-6', 'draft-11', 'legacy']);
        const seconds = String(retryAfterMs / 1000);
        expect(fields).to.include({ 'RateLimit-Remaining': '0', 'RateLimit-Reset': seconds });
        expect(fields).to.include({ 'X-RateLimit-Remaining': '0', 'RateLimit-Limit': String(limit) });
        expect(fields.RateLimit).to.equal(`"default";r=0;t=${seconds}`);
        const { RateLimit } = rateLimitHeaders(decision, 'draft-7');
        expect(RateLimit).to.equal(`limit=${limit}, remaining=0, reset=${seconds}`);
      }
    });

    it('of any length are reported by the denial that starts them', async () => {
      for (let length = 1; length <= 5; length++)
        expect(await setup({ after: 1, for: length }).deny(), `${length} ms`).to.equal(length);
    });

    it('grow by the factor up to the maximum, and are forgotten after the same time again', async () => {
      const { clock, deny } = setup({ after: 1, for: '1h', factor: 3, max: '5h' });
      for (const hours of [1, 3, 5, 5]) {
        expect(await deny()).to.equal(hours * HOUR);
        clock.now += hours * HOUR;
      }
      clock.now += 5 * HOUR - 1;
      expect(await deny()).to.equal(5 * HOUR);
      clock.now += 5 * HOUR + 5 * HOUR;
      expect(await deny()).to.equal(HOUR);
    });

    it('show in a peek, which does not count as a denial', async () => {
      const { limiter, deny } = setup({ after: 2, for: '1h' });
      for (let i = 0; i < 5; i++) await limiter.peek('k', { cost: 2 });
      expect(await deny()).to.equal(0);
      expect((await limiter.peek('k')).reason).to.be.undefined;
      expect(await deny()).to.equal(HOUR);
      expect(await limiter.peek('k')).to.include({ allowed: false, reason: 'banned', retryAfterMs: HOUR });
    });

    it('start and end by hand; a reset does not change them', async () => {
      const { limiter, deny } = setup({ after: 2, for: '1h' });
      expect(await deny()).to.equal(0);
      await limiter.ban('k', '2h');
      await limiter.reset('k');
      expect(await limiter.peek('k')).to.include({ reason: 'banned', retryAfterMs: 2 * HOUR });
      await limiter.unban('k');
      expect((await limiter.consume('k')).allowed).to.be.true;
      // The earlier denial is forgotten as well.
      expect(await deny()).to.equal(0);
      expect(await deny()).to.equal(HOUR);
    });

    it('count denials for no longer than the span when the clock goes back', async () => {
      const { clock, limiter, deny } = setup({ after: 2, within: '1m', for: '1h' });
      expect(await deny()).to.equal(0);
      clock.now -= HOUR;
      await limiter.consume('k');
      clock.now += MINUTE;
      expect(await deny()).to.equal(0);
      expect(await deny()).to.equal(HOUR);
      clock.now -= DAY;
      expect(await limiter.peek('k', { cost: 2 })).to.include({ reason: 'banned', retryAfterMs: HOUR });
      expect(await deny()).to.equal(HOUR);
      clock.now += HOUR;
      expect(await deny(2)).to.equal(2 * HOUR);
    });

    it('count only denials within the span, also while an earlier ban is remembered, and begin anew after it', async () => {
      const { clock, limiter, deny } = setup({ after: 2, within: '1m', for: '1m', factor: 2, max: '1h' });
      const lengths: number[] = [];
      for (const wait of [0, 0, 'end', MINUTE, MINUTE - 1, 'end', HOUR - 1, 0, 'end', HOUR, 0] as const) {
        const { reason, retryAfterMs } = await limiter.peek('k', { cost: 2 });
        clock.now += wait !== 'end' ? wait : reason === 'banned' ? retryAfterMs : 0;
        lengths.push((await deny()) / MINUTE);
      }
      expect(lengths).to.deep.equal([0, 1, 0, 0, 2, 0, 0, 4, 0, 0, 1]);
    });

    it('grow on after a ban by hand, which does not bring back what was forgotten before it', async () => {
      const { clock, limiter, deny } = setup({ after: 1, for: '1m', factor: 2, max: '1h' });
      expect(await deny()).to.equal(MINUTE);
      await limiter.ban('k', '3m');
      clock.now += 3 * MINUTE;
      expect(await deny()).to.equal(2 * MINUTE);
      clock.now += DAY;
      await limiter.ban('k', '1m');
      clock.now += MINUTE;
      expect(await deny()).to.equal(MINUTE);
    });
  });
}

for (const [name, createStore] of Object.entries(stores)) {
  describe(`fresh bans, ${name}`, () => {
    it('end with a full quota, however long its window is', async () => {
      for (const fresh of [true, false]) {
        const clock = new TestClock();
        const limiter = limiterOn(createStore(clock.read), {
          policies: 'fixed-window 2/90d',
          ban: { after: 1, for: '1h', factor: 1, fresh },
        });
        const charged = await limiter.consume('k');
        await limiter.consume('k');
        const { retryAfterMs } = await limiter.consume('k');
        if (fresh) expect(retryAfterMs).to.equal(HOUR);
        await charged.refund();
        clock.now += HOUR - 1;
        expect(await limiter.consume('k')).to.include({ reason: 'banned', retryAfterMs: 1 });
        clock.now += 1;
        expect((await limiter.peek('k')).remaining).to.equal(fresh ? 2 : 1);
        await limiter.close();
      }
    });
  });
}

describe('a fresh ban and the blockDuration of rate-limiter-flexible', () => {
  it('admit the same requests', async () => {
    const time = useFakeTimers({ now: Date.now(), toFake: ['Date', 'setTimeout', 'clearTimeout'] });
    try {
      const theirs = new RateLimiterMemory({ points: 3, duration: (90 * DAY) / 1000, blockDuration: 3600 });
      const ours = createLimiter({
        policies: 'fixed-window 3/90d',
        ban: { after: 1, for: '1h', factor: 1, fresh: true },
      });
      const log: boolean[][] = [[], []];
      for (const wait of [0, 0, 0, 0, 0, HOUR - 1, 1, 0, 0, 0, MINUTE, HOUR, 0]) {
        await time.tickAsync(wait);
        log[0]!.push(
          await theirs.consume('ada').then(
            () => true,
            () => false,
          ),
        );
        log[1]!.push((await ours.consume('ada')).allowed);
      }
      expect(log[1]).to.deep.equal(log[0]);
      expect(log[0]).to.include(true).and.include(false);
    } finally {
      time.restore();
    }
  });
});

describe('bans', () => {
  const refusal = (promise: Promise<unknown>) =>
    promise.then(
      () => 'done',
      (error: HeadgateError) => error.code,
    );

  it('need the option, a key and a duration', async () => {
    const without = createLimiter(policy);
    expect(await refusal(without.ban('k', '1h'))).to.equal('HEADGATE_INVALID_OPTION');
    expect(await refusal(without.unban('k'))).to.equal('HEADGATE_INVALID_OPTION');
    const limiter = createLimiter({ ...policy, ban: {} });
    for (const note of [
      { by: '' },
      { by: 'x'.repeat(101) },
      { reason: 'x'.repeat(501) },
      { reason: ' ' },
      { reason: 5 },
      { why: 'x' },
      5,
    ]) {
      expect(await refusal(limiter.ban('k', '1h', note as never))).to.match(/INVALID_OPTION|UNKNOWN_OPTION/);
      expect(await refusal(limiter.unban('k', note as never))).to.match(/INVALID_OPTION|UNKNOWN_OPTION/);
    }
    await limiter.ban('noted', '1h', { by: 'ada', reason: 'a test' });
    expect((await limiter.peek('noted')).reason).to.equal('banned');
    const longest = { by: 'x'.repeat(100), reason: 'x'.repeat(500) };
    expect(await refusal(limiter.ban('noted', '1h', longest))).to.equal('done');
    expect(await refusal(limiter.unban('noted', longest))).to.equal('done');
    expect(await refusal(limiter.ban(5 as never, '1h'))).to.equal('HEADGATE_INVALID_KEY');
    for (const duration of [0, -1, 1.5, 'soon', '400d', undefined]) {
      expect(await refusal(limiter.ban('k', duration as never))).to.equal('HEADGATE_INVALID_OPTION');
    }
    expect((await limiter.peek('k')).allowed).to.be.true;
  });

  for (const ban of [
    { after: 0 },
    { after: 1.5 },
    { within: 0 },
    { for: 'long' },
    { factor: 0.5 },
    { factor: NaN },
    { for: '2h', max: '1h' },
    5,
    null,
  ]) {
    it(`refuse ${JSON.stringify(ban)}`, () => {
      expect(() => createLimiter({ ...policy, ban: ban as BanOptions }))
        .to.throw()
        .with.property('code', 'HEADGATE_INVALID_OPTION');
    });
  }
});
