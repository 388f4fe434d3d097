// `count: 'attempts'`: the policy also charges the requests that another policy denies, but never its own denials.
import { expect } from 'chai';
import express from 'express';
import { consumeAll, createLimiter, type HeadgateError, type Policy } from 'headgate';
import { rateLimit } from 'headgate/express';
import request from 'supertest';
import { limiterOn, stores, TestClock } from '../../support/stores.js';

const ADDRESS = { name: 'address', limit: 20, window: '1m', count: 'attempts' } as const;
const ACCOUNT = { name: 'account', limit: 5, window: '15m' } as const;

for (const [name, createStore] of Object.entries(stores)) {
  describe(`attempts on ${name}`, () => {
    it('leave `retryAfter` true: the request is denied before it, and admitted at it', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), {
        policies: [
          { name: 'attempts', algorithm: 'fixed-window', limit: 3, window: '1m', count: 'attempts' },
          { name: 'quota', algorithm: 'fixed-window', limit: 1, window: '5s' },
        ],
      });
      const decisions = [await limiter.consume('k'), await limiter.consume('k'), await limiter.consume('k')];
      expect(decisions.map(({ allowed, retryAfterMs }) => [allowed, retryAfterMs])).to.deep.equal([
        [true, 0],
        [false, 5_000],
        [false, 60_000],
      ]);
      clock.now += 59_999;
      expect((await limiter.consume('k')).retryAfterMs).to.equal(1);
      clock.now += 1;
      expect((await limiter.consume('k')).allowed).to.be.true;
    });

    it('make a flood at one account visible to the limit by address', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), { policies: [ADDRESS, ACCOUNT] });
      let admitted = 0;
      for (let i = 0; i < 30; i++) if ((await limiter.consume('k')).allowed) admitted++;
      expect(admitted).to.equal(5);
      const { policies: verdicts } = await limiter.peek('k');
      expect(verdicts.map(({ remaining }) => remaining)).to.deep.equal([0, 0]);
    });

    it('are shown in the decision, which has nothing to give back', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), {
        policies: [ADDRESS, { ...ACCOUNT, limit: 1 }],
      });
      await limiter.consume('k');
      const denied = await limiter.consume('k');
      expect(denied.policies.map(({ allowed, remaining }) => [allowed, remaining])).to.deep.equal([
        [true, 18],
        [false, 0],
      ]);
      expect([denied.policy, denied.charged]).to.deep.equal(['account', 0]);
      await denied.cancel();
      expect((await limiter.peek('k')).policies[0]!.remaining).to.equal(18);
    });

    it('do not include waiting requests until they are admitted', async () => {
      const limiter = limiterOn(createStore(), {
        policies: [
          { name: 'attempts', limit: 10, window: '1m', count: 'attempts' },
          { name: 'quota', algorithm: 'fixed-window', limit: 1, window: '50ms' },
        ],
      });
      await Promise.all([limiter.wait('k'), limiter.wait('k'), limiter.wait('k')]);
      expect((await limiter.peek('k')).policies[0]!.remaining).to.equal(7);
      await limiter.close();
    });

    it('stay charged if another limiter denies', async () => {
      const store = createStore(new TestClock().read);
      const address = limiterOn(store, { name: 'address', policies: [ADDRESS, { ...ACCOUNT, limit: 50 }] });
      const account = limiterOn(store, ACCOUNT);
      const asks = [
        { limiter: address, key: '1.2.3.4' },
        { limiter: account, key: 'ada' },
      ];
      for (let i = 0; i < 8; i++) await consumeAll(asks);
      const remainingUnits = (await address.peek('1.2.3.4')).policies.map(({ remaining }) => remaining);
      expect(remainingUnits, 'attempts, and what was admitted').to.deep.equal([12, 45]);
      const admitted = await consumeAll([{ limiter: address, key: 'other' }]);
      await admitted.cancel();
      expect((await address.peek('other')).remaining, 'taken back as a whole').to.equal(20);
    });
  });
}

describe('attempts', () => {
  it('do not include waiting requests, even while the store is down', async () => {
    const fail = () => Promise.reject(new Error('away'));
    const store = { decide: fail, adjust: fail, lease: fail, reset: fail, ban: fail };
    const policies = ['a=fixed-window 1000/1h attempts', 'b=fixed-window 1/200ms'];
    const limiter = createLimiter({ store, policies, warnings: false });
    await limiter.consume('k');
    await limiter.wait('k', { timeout: '5s' });
    expect((await limiter.peek('k')).policies[0]).to.include({ remaining: 998 });
    await limiter.close();
  });

  it('over HTTP: 300 requests at one account use up the address, and ban it', async () => {
    const address = createLimiter({ ...ADDRESS, name: 'address', ban: { after: 3 } });
    const app = express()
      .use(rateLimit({ limiter: address, keyGenerator: () => 'address' }))
      .use(rateLimit({ ...ACCOUNT, name: 'account', keyGenerator: () => 'ada' }))
      .get('/', (_req, res) => void res.end('ok'));
    let admitted = 0;
    let last = '';
    for (let i = 0; i < 300; i++) {
      const { status, text } = await request(app).get('/');
      if (status === 200) admitted++;
      last = text;
    }
    expect(admitted).to.equal(5);
    expect(last).to.contain('abnormal-usage-detected');
  });

  for (const [algorithm, fields] of [
    ['concurrency', { lease: '1m', count: 'attempts' }],
    ['leaky-bucket', { window: '1m', maxDelay: '1s', count: 'attempts' }],
    ['fixed-window', { window: '1m', count: 'denied' }],
  ] as const) {
    it(`are refused for ${algorithm} with ${JSON.stringify(fields)}`, () => {
      const policy = { name: 'p', algorithm, limit: 1, ...fields } as unknown as Policy;
      expect(() => createLimiter({ policies: [policy] }))
        .to.throw()
        .that.satisfies((error: HeadgateError) => error.message.includes('count'));
    });
  }
});
