// The line of the processes that wait for slots: a hidden policy of waiting requests, which is the same on every store.
import { expect } from 'chai';
import fc from 'fast-check';
import { createLimiter, type CreateLimiterOptions, type Policy } from 'headgate';
import type { LimiterDecision } from '../../../src/limiter/decision.js';
import { inLine } from '../../../src/limiter/waiting/process-line.js';
import { runs } from '../../support/random.js';
import { limiterOn, memory, stores, TestClock, type CreateStore } from '../../support/stores.js';
import { around } from '../../support/around.js';

const slots: Policy = { algorithm: 'concurrency', limit: 2, lease: '1m', name: 'slots' };
const quota: Policy = { algorithm: 'fixed-window', limit: 1000, window: '1m', name: 'quota', by: 'tenant' };
const KEY = { key: 'k', tenant: 'acme' };
const sharedSlots: Policy = { ...slots, share: 'tenant' };

interface Step {
  readonly process: number;
  readonly waits: boolean;
  readonly cost: number;
  readonly after: number;
  readonly release: boolean;
}

/** The answers to the questions of several processes, as users and the waiting room see them. */
async function answers(create: CreateStore, options: CreateLimiterOptions, steps: readonly Step[]) {
  const clock = new TestClock();
  const limiter = limiterOn(create(clock.read), options);
  const held: LimiterDecision[] = [];
  const seen: unknown[] = [];
  for (const { process, waits, cost, after, release } of steps) {
    clock.now += after;
    if (release) await held.shift()?.release();
    const set = inLine(limiter.set, { process, waits, holdMs: 300 });
    const decision = await limiter.decide(KEY, cost, set);
    if (decision.allowed) held.push(decision);
    const { allowed, policy, remaining, retryAfterMs, reason, policies, reply } = decision;
    seen.push({ allowed, policy, remaining, retryAfterMs, reason, policies, standing: reply.standing });
  }
  return seen;
}

const steps = fc.array(
  fc.record({
    process: fc.constantFrom(1, 2, 2 ** 48 - 1),
    waits: fc.boolean(),
    cost: fc.constantFrom(1, 1, 2),
    after: fc.constantFrom(0, 1, 50, 300, 1999, 2000, 5000),
    release: fc.boolean(),
  }),
  { minLength: 1, maxLength: 30 },
);

for (const [name, create] of Object.entries(stores)) {
  it(`the line of processes goes with thresholds of slots on ${name}`, async () => {
    const crossed: number[] = [];
    const limiter = createLimiter({
      policies: [{ ...slots, thresholds: [0.5, 1] }, quota],
      ...{ store: create(), onStoreError: 'throw', timeout: '20s' },
      onThreshold: ({ threshold }) => void crossed.push(threshold),
    });
    const first = await limiter.wait(KEY, { timeout: '20s' });
    const second = await limiter.wait(KEY, { timeout: '20s' });
    const third = limiter.wait(KEY, { timeout: '20s' });
    await first.release();
    expect(await third).to.include({ allowed: true, degraded: false });
    expect(crossed.slice(0, 2)).to.deep.equal([0.5, 1]);
    await Promise.all([second.release(), (await third).release()]);
    await limiter.close();
  });

  describe(`the line of processes for shared slots on ${name}`, () => {
    it('a tenant in one process gets as many slots as a tenant in two', async () => {
      const limiter = limiterOn(create(new TestClock().read), { policies: [sharedSlots] });
      const ask = (tenant: string, process: number) =>
        limiter.decide({ key: 'k', tenant }, 1, inLine(limiter.set, { process, waits: true, holdMs: 300 }));
      expect(await ask('two', 1)).to.include({ allowed: true });
      for (let turn = 0; turn < 20; turn++) {
        const decision = await ask('one', 3);
        expect(decision, `turn ${turn}`).to.include({ allowed: true });
        for (const process of [1, 2]) expect(await ask('two', process)).to.include({ allowed: false });
        await decision.release();
      }
    });

    it('the processes of a tenant take turns', async () => {
      const limiter = limiterOn(create(new TestClock().read), { policies: [sharedSlots] });
      const ask = (process: number) =>
        limiter.decide(KEY, 1, inLine(limiter.set, { process, waits: true, holdMs: 300 }));
      const turns = { 1: 0, 2: 0 };
      for (let turn = 0; turn < 40; turn++) {
        // The first process asks three times as often.
        for (const process of [1, 1, 1, 2] as const) {
          const decision = await ask(process);
          if (decision.allowed) turns[process]++;
          await decision.release();
        }
      }
      expect(turns[1] - turns[2]).to.be.within(0, 4);
    });
  });

  if (name === 'memory' || name === 'map') continue;
  describe(`the line of processes on ${name}`, () => {
    it('gives the same answers as on a store that keeps bytes', async () => {
      const property = fc.asyncProperty(steps, async (each) => {
        for (const policies of [[quota, slots], [sharedSlots]]) {
          const options = { policies };
          expect(await answers(create, options, each)).to.deep.equal(
            await answers(stores.map, options, each),
          );
        }
      });
      await fc.assert(property, runs('redis', 60, 0));
    });
  });
}

for (const [name, create] of Object.entries({ map: stores.map, redis: stores.redis })) {
  describe(`requests that wait for slots on ${name}`, () => {
    it('users do not see the line, in decisions and in errors', async () => {
      const seen: string[][] = [];
      const limiter = limiterOn(create(), {
        policies: [quota, slots],
        onDecision: ({ policies }) => seen.push(policies.map((verdict) => verdict.name)),
      });
      const first = await limiter.wait(KEY, { cost: { slots: 2, quota: 5 } });
      expect(first.policies.map(({ remaining }) => remaining)).to.deep.equal([995, 0]);
      expect(first.costs).to.deep.equal({ quota: 5, slots: 2 });
      const error = await limiter.wait(KEY, { timeout: 50 }).catch((reason: unknown) => reason);
      expect(error).to.have.nested.property('decision.policies').with.length(2);
      await first.settle({ quota: 3 });
      expect(await first.release()).to.equal(true);
      expect((await limiter.peek(KEY)).policies.map(({ remaining }) => remaining)).to.deep.equal([997, 2]);
      for (const names of seen) expect(names).to.deep.equal(['quota', 'slots']);
      await limiter.close();
    });

    it('a request without the key of the slots waits for the other policies only', async () => {
      const limiter = limiterOn(create(), {
        policies: [
          { ...quota, by: 'key' },
          { ...slots, by: 'account' },
        ],
      });
      const decision = await limiter.wait({ key: 'k' }, { cost: { quota: 2, slots: 2 } });
      expect(decision.policies.map((verdict) => verdict.name)).to.deep.equal(['quota']);
      expect(decision.costs).to.deep.equal({ quota: 2 });
      const [slot, other] = [await limiter.wait({ account: 'a' }), await limiter.wait({ account: 'b' })];
      expect(slot.policies).to.have.length(1);
      for (const each of [decision, slot, other]) await each.cancel();
      expect(
        (await limiter.peek({ key: 'k', account: 'a' })).policies.map(({ remaining }) => remaining),
      ).to.deep.equal([1000, 2]);
      await limiter.close();
    });

    it('an override changes the number of slots of requests that wait', async () => {
      const limiter = limiterOn(create(), { policies: [{ ...slots, limit: 1 }], overrides: true });
      const first = await limiter.wait('k');
      const second = limiter.wait('k', { timeout: '10s' });
      await limiter.override('k', { limit: 2 });
      expect(await second).to.deep.include({ allowed: true, limit: 2 });
      expect((await second).policies).to.have.length(1);
      await first.release();
      await (await second).release();
      await limiter.close();
    });
  });
}

describe('requests that wait for slots', () => {
  it('get a slot of this process while the store is down', async () => {
    const store = around(memory(), { decide: () => Promise.reject(new Error('down')) });
    const limiter = createLimiter({ store, name: 'down', policies: [slots], warnings: false });
    const slot = await limiter.wait('k');
    expect(slot).to.include({ allowed: true, degraded: true });
    expect(slot.policies).to.have.length(1);
    await limiter.close();
  });
});
