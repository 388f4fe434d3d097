import { fork } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'chai';
import { createLimiter, type HeadgateError, type Store } from 'headgate';
import { ofLimiter } from '../../../src/limiter/decision.js';
import { redisStore } from 'headgate/redis';
import { TYPESCRIPT } from '../../../scripts/lib/run.mjs';
import { serverKinds, servers } from '../../support/shared-servers.js';
import { clients, freshPrefix, limiterOn, stores, TestClock } from '../../support/stores.js';

const LEASE = 30_000;

for (const [name, createStore] of Object.entries(stores)) {
  describe(`concurrency on ${name}`, () => {
    const slots = (limit: number) => ({ algorithm: 'concurrency', limit, lease: LEASE }) as const;

    it('holds a slot from acquire to release, and gives it back once', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), slots(2));
      const [a, b, c] = [await limiter.acquire('k'), await limiter.acquire('k'), await limiter.acquire('k')];
      expect([a, b, c].map(({ allowed, remaining }) => [allowed, remaining])).to.deep.equal([
        [true, 1],
        [true, 0],
        [false, 0],
      ]);
      expect(c.retryAfterMs).to.equal(LEASE);
      expect(await c.release()).to.be.false;
      const first = a.release();
      // A call while the first is under way ends with it.
      expect(await a.release()).to.be.true;
      expect((await limiter.peek('k')).remaining).to.equal(1);
      expect(await first).to.be.true;
      expect(await a.release()).to.be.false;
      expect((await limiter.peek('other')).remaining).to.equal(2);
    });

    it('takes as many slots as it costs', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), slots(5));
      const held = await limiter.acquire('k', { cost: 3 });
      expect((await limiter.acquire('k', { cost: 3 })).allowed).to.be.false;
      expect(await limiter.acquire('k', { cost: 6 })).to.include({ reason: 'cost-exceeds-capacity' });
      await held.release();
      expect((await limiter.acquire('k', { cost: 5 })).allowed).to.be.true;
    });

    it('renews a lease, and reports when it is too late', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), slots(1));
      const held = await limiter.acquire('k');
      clock.now += LEASE - 1;
      expect(await held.renew()).to.be.true;
      clock.now += LEASE - 1;
      expect((await limiter.acquire('k')).allowed).to.be.false;
      clock.now += 1;
      const next = await limiter.acquire('k');
      expect(next.allowed).to.be.true;
      expect(await held.renew()).to.be.false;
      expect(await held.release()).to.be.false;
      // A holder whose lease has ended takes no slot from a later holder.
      expect((await limiter.peek('k')).remaining).to.equal(0);
      expect(await next.release()).to.be.true;
      expect(await next.renew()).to.be.false;
    });

    it('holds a slot whose lease has ended again, beyond the limit, until its release or another end', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), slots(3));
      const first = ofLimiter(await limiter.acquire('k', { cost: 2 }));
      clock.now += LEASE - 1;
      expect(await first.hold()).to.be.true;
      expect((await limiter.peek('k')).remaining).to.equal(1);
      clock.now += LEASE;
      const second = ofLimiter(await limiter.acquire('k', { cost: 3 }));
      expect(second.allowed).to.be.true;
      expect(await first.hold()).to.be.true;
      expect(await first.hold()).to.be.true;
      expect(await second.release()).to.be.true;
      expect((await limiter.peek('k')).remaining).to.equal(1);
      expect(await second.hold()).to.be.false;
      expect(await first.renew()).to.be.true;
      clock.now += LEASE - 1;
      expect((await limiter.peek('k')).remaining).to.equal(1);
      clock.now += 1;
      expect((await limiter.peek('k')).remaining).to.equal(3);
      // Without state of the key, too.
      clock.now += LEASE;
      expect(await first.hold()).to.be.true;
      expect((await limiter.acquire('k', { cost: 2 })).retryAfterMs).to.equal(LEASE);
      expect([await first.release(), await first.hold()]).to.deep.equal([true, false]);
      expect((await limiter.peek('k')).remaining).to.equal(3);
    });

    it('holds only the slots that a request took, each for its own lease', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), {
        policies: [
          { name: 'enforced', ...slots(2) },
          { name: 'full', ...slots(1), shadow: true },
          { name: 'short', algorithm: 'concurrency', limit: 5, lease: 1000 },
        ],
      });
      await limiter.acquire('k');
      const second = ofLimiter(await limiter.acquire('k'));
      clock.now += 1000;
      expect(await second.renew()).to.be.false;
      expect(await second.hold()).to.be.true;
      const left = async () => (await limiter.peek('k')).policies.map(({ remaining }) => remaining);
      expect(await left()).to.deep.equal([0, 0, 4]);
      clock.now += LEASE;
      expect(await second.hold()).to.be.true;
      expect(await left()).to.deep.equal([1, 1, 4]);
    });

    it('gives back all slots of a request, and reports if one of their leases had ended', async () => {
      for (const by of ['account', 'key']) {
        const clock = new TestClock();
        const policies = [`p=concurrency 1/1200ms by account`, `q=concurrency 1/1m by ${by}`];
        const limiter = limiterOn(createStore(clock.read), { policies });
        const key = { account: 'a', [by]: 'a' };
        const decision = await limiter.consume(key);
        clock.now += 3000;
        expect(await decision.renew(), by).to.be.false;
        expect(await decision.release(), by).to.be.false;
        expect((await limiter.peek(key)).remaining, by).to.equal(1);
      }
    });

    it('a shadow without a slot, or whose slot has ended, does not affect the enforced one', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), {
        policies: [
          { name: 'enforced', ...slots(2) },
          { name: 'full', ...slots(1), shadow: true },
          { name: 'short', algorithm: 'concurrency', limit: 5, lease: 1000, shadow: true },
        ],
      });
      const [first, second] = [await limiter.acquire('k'), await limiter.acquire('k')];
      clock.now += LEASE - 1;
      expect(await Promise.all([first.renew(), second.renew()])).to.deep.equal([true, true]);
      clock.now += LEASE - 1;
      expect((await limiter.acquire('k')).allowed).to.be.false;
      expect(await second.release()).to.be.true;
      expect(await second.renew()).to.be.false;
      expect((await limiter.peek('k')).policies.map(({ remaining }) => remaining)).to.deep.equal([1, 0, 5]);
      expect(await first.release()).to.be.true;
      expect((await limiter.peek('k')).policies.map(({ remaining }) => remaining)).to.deep.equal([2, 1, 5]);
    });

    it('shadows alone report their own slots', async () => {
      const clock = new TestClock();
      const shadow = { ...slots(1), shadow: true };
      const limiter = limiterOn(createStore(clock.read), shadow);
      const [held, none] = [await limiter.acquire('k'), await limiter.acquire('k')];
      expect(none.allowed).to.be.true;
      expect([await held.renew(), await none.renew(), await none.release()]).to.deep.equal([
        true,
        false,
        false,
      ]);
      expect((await limiter.peek('k')).remaining).to.equal(0);
      expect([await held.release(), await held.release()]).to.deep.equal([true, false]);
    });

    it('releases at the end of a block, even by an error', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), slots(1));
      const work = async () => {
        await using slot = await limiter.acquire('k');
        expect(slot.allowed).to.be.true;
        throw new Error('failed');
      };
      for (let i = 0; i < 2; i++)
        expect(await work().catch((error: Error) => error.message)).to.equal('failed');
      expect((await limiter.peek('k')).remaining).to.equal(1);
    });

    it('has released when the block has ended, however long the store takes; a failed release is repeated later', async () => {
      const inner = createStore(new TestClock().read);
      let release: 'late' | 'fails' = 'late';
      const store: Store = {
        decide: (query) => inner.decide(query),
        adjust: (change) => inner.adjust(change),
        lease: async (change) => {
          await new Promise((resolve) => setTimeout(resolve, 5));
          if (release === 'fails') throw new Error('the store failed');
          return inner.lease(change);
        },
        reset: (subject) => inner.reset(subject),
        ban: (subject, duration) => inner.ban(subject, duration),
      };
      const limiter = limiterOn(store, slots(1));
      const work = async () => {
        await using slot = await limiter.acquire('k');
        return slot.allowed;
      };
      expect([await work(), await work()], 'one after the other').to.deep.equal([true, true]);
      const held = await limiter.acquire('k');
      expect(await work(), 'a denied one releases nothing').to.be.false;
      expect(await held.release()).to.be.true;
      release = 'fails';
      expect(await work()).to.be.true;
      release = 'late';
      while (!(await work())) await new Promise((resolve) => setTimeout(resolve, 5));
    });

    it('is decided together with quotas: a denial by either takes neither', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), {
        policies: [
          { ...slots(2), name: 'slots' },
          { name: 'quota', algorithm: 'fixed-window', limit: 3, window: '1h' },
        ],
      });
      const remainingUnits = async () => (await limiter.peek('k')).policies.map(({ remaining }) => remaining);
      const [a, b] = [await limiter.acquire('k'), await limiter.acquire('k')];
      expect(await limiter.acquire('k')).to.include({ allowed: false, policy: 'slots' });
      expect(await remainingUnits()).to.deep.equal([0, 1]);
      await a.release();
      const c = await limiter.acquire('k');
      await b.release();
      expect(await limiter.acquire('k')).to.include({ allowed: false, policy: 'quota' });
      expect(await remainingUnits()).to.deep.equal([1, 0]);
      await c.cancel();
      expect(await remainingUnits()).to.deep.equal([2, 1]);
    });
  });
}

for (const kind of serverKinds) {
  describe(`a killed process on ${kind}`, () => {
    it('loses its slots after their lease', async () => {
      const prefix = freshPrefix();
      const args = [servers[kind].url, prefix];
      const child = fork(new URL('../../support/hold-child.ts', import.meta.url), args, {
        execArgv: TYPESCRIPT,
      });
      expect((await once(child, 'message'))[0]).to.equal('held');
      const limiter = limiterOn(redisStore(clients[kind], { prefix }), {
        ...{ name: 'slots', algorithm: 'concurrency', limit: 2, lease: 1500 },
      });
      const before = await limiter.acquire('k');
      expect(before.allowed).to.be.false;
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
      // The waiting call sleeps for the time that the store returns, and asks again.
      expect((await limiter.wait('k', { cost: 2, timeout: '10s' })).allowed).to.be.true;
    });
  });
}

describe('acquire', () => {
  const codeOf = (promise: Promise<unknown>) => promise.catch((error: HeadgateError) => error.code);

  it('needs a concurrency policy', async () => {
    const limiter = createLimiter({ limit: 5, window: '1h' });
    expect(await codeOf(limiter.acquire('k'))).to.equal('HEADGATE_INVALID_OPTION');
    expect((await limiter.peek('k')).remaining).to.equal(5);
  });

  it('refuses the same arguments as consume', async () => {
    const limiter = createLimiter({ algorithm: 'concurrency', limit: 5, lease: '1m' });
    expect(await codeOf(limiter.acquire(7 as never))).to.equal('HEADGATE_INVALID_KEY');
    expect(await codeOf(limiter.acquire('k', { cost: -1 }))).to.equal('HEADGATE_INVALID_COST');
    expect(await codeOf(limiter.acquire('k', { units: 1 } as object))).to.equal('HEADGATE_UNKNOWN_OPTION');
    expect((await limiter.peek('k')).remaining).to.equal(5);
  });

  for (const fields of [
    { lease: undefined },
    { lease: 0 },
    { lease: 'long' },
    { limit: 0 },
    { limit: 100_001 },
    { window: '1m' },
  ]) {
    it(`refuses a policy with ${JSON.stringify(fields)}`, () => {
      const policy = { algorithm: 'concurrency', limit: 5, lease: '1m', ...fields };
      expect(() => createLimiter(policy as never))
        .to.throw()
        .with.property('code')
        .that.matches(/HEADGATE_(INVALID|UNKNOWN)_OPTION/);
    });
  }
});
