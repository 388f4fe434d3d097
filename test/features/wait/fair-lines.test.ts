// Requests of several tenants that wait for one limit, in one process and by a clock of the test.
import { expect } from 'chai';
import fc from 'fast-check';
import type { CreateLimiterOptions, HeadgateError, Policy } from 'headgate';
import { subjectOf } from '../../../src/contract/dimensions.js';
import { idsOf } from '../../../src/contract/dimension-sets.js';
import type { LimiterDecision } from '../../../src/limiter/decision.js';
import { HoldQueue, holdRequestOf } from '../../../src/limiter/waiting/hold-queue.js';
import { WaitingRoom } from '../../../src/limiter/waiting/waiting-room.js';
import { runs } from '../../support/random.js';
import { waitRequest } from '../../support/requests.js';
import { limiterOn, stores, type CreateStore } from '../../support/stores.js';
import { TestTiming } from '../../support/timing.js';

interface Turn {
  readonly tenant: string;
  readonly at: number;
  readonly outcome: string;
}

/** A limiter with keys per tenant and for all tenants together, its waiting room, and the order of the turns. */
function setup(create: CreateStore, options: CreateLimiterOptions, hasPeers = false) {
  const timing = new TestTiming();
  const limiter = limiterOn(create(timing.clock), options);
  const queue = new HoldQueue(1e6, 1e6, timing);
  let asked = 0;
  const room = new WaitingRoom(1e6, 1e6, timing, {
    hasPeers,
    decide: async ({ key, cost, set, peek }) => {
      asked++;
      const decision = await (peek ? limiter.peek(key, { cost }) : limiter.decide(key, cost, set));
      asked--;
      return decision as LimiterDecision;
    },
    hold: async (decision, signal) => {
      const outcome = await queue.hold(holdRequestOf(decision), signal, { isLast: true });
      if (outcome !== 'turn') throw new Error(outcome);
      return decision;
    },
  });
  const turns: Turn[] = [];
  const keyOf = (tenant: string) => ({ key: 'all', tenant });
  const wait = (tenant: string, { cost = 1, timeout = Infinity, weight = 1, priority = 0 } = {}) => {
    const key = keyOf(tenant);
    const ids = idsOf(subjectOf(limiter.set, key, []));
    return room
      .wait(waitRequest(key, limiter.set, { cost, timeout, fields: { weight }, priority }), ids)
      .then(
        (decision) => {
          turns.push({ tenant, at: timing.now(), outcome: 'admitted' });
          return decision;
        },
        (error: HeadgateError) => void turns.push({ tenant, at: timing.now(), outcome: error.code }),
      );
  };
  /** Advances the time. The store answers each question before the next timer fires. */
  const pass = (ms: number) =>
    timing.advance(ms, async () => {
      do await new Promise(setImmediate);
      while (asked > 0);
    });
  return { pass, limiter, room, turns, wait, keyOf };
}

const bucket = { algorithm: 'token-bucket', limit: 10, window: '1s', burst: 1 } as const;
const ofTenant = {
  algorithm: 'token-bucket',
  limit: 1000,
  window: '1s',
  by: 'tenant',
  name: 'tenant',
} as const;

/** Limits of all tenants together, with ten turns a second. */
const totals: Readonly<Record<string, Policy>> = {
  'a bucket': { ...bucket, name: 'total' },
  'a window': { algorithm: 'fixed-window', limit: 1, window: '100ms', name: 'total' },
  'a log': { algorithm: 'sliding-log', limit: 1, window: '100ms', name: 'total' },
};

const countOf = (turns: readonly Turn[], tenant: string, outcome = 'admitted') =>
  turns.filter((turn) => turn.tenant === tenant && turn.outcome === outcome).length;

for (const [store, create] of Object.entries(stores)) {
  for (const [name, total] of Object.entries(totals)) {
    describe(`fair lines on ${store}, behind ${name} of all tenants`, () => {
      const start = (options: CreateLimiterOptions = { policies: [total, ofTenant] }) =>
        setup(create, options, store !== 'memory');

      it('a tenant that comes later gets every second turn, and none of its calls times out', async () => {
        const { pass, turns, wait } = start();
        for (let i = 0; i < 100; i++) void wait('first');
        await pass(1000);
        for (let i = 0; i < 12; i++) void wait('later', { timeout: 5000 });
        const before = turns.length;
        await pass(3000);
        const since = turns.slice(before);
        expect(countOf(since, 'later')).to.equal(12);
        const last = since.findLastIndex(({ tenant }) => tenant === 'later');
        expect(countOf(since.slice(0, last), 'first')).to.be.within(11, 13);
      });

      it('tenants get their turns in the same order as on every store', async () => {
        const { pass, turns, wait } = start();
        const come = (calls: string) => {
          for (const tenant of calls) void wait(tenant);
        };
        come('aaaaaabbb');
        await pass(250);
        come('ccd');
        await pass(2000);
        expect(turns.map(({ tenant }) => tenant).join('')).to.equal('ababacdbacaa');
      });

      it('the limit of one tenant holds up no other tenant', async () => {
        const slow = { ...ofTenant, limit: 1, burst: 1 };
        const { pass, turns, wait } = start({ policies: [total, slow] });
        for (let i = 0; i < 100; i++) void wait('busy');
        await pass(10);
        for (let tenant = 0; tenant < 30; tenant++) void wait(String(tenant));
        await pass(3800);
        expect(turns.filter(({ tenant }) => tenant !== 'busy')).to.have.length(30);
        expect(countOf(turns, 'busy')).to.be.within(2, 4);
      });
    });
  }
}

describe('fair lines', () => {
  for (const [name, total] of Object.entries(totals)) {
    it(`a light tenant waits one round behind 10,000 calls of a heavy one: ${name}`, async () => {
      const { pass, turns, wait } = setup(stores.memory, { policies: [total, ofTenant] });
      for (let i = 0; i < 10_000; i++) void wait('heavy');
      await pass(1000);
      for (let n = 0; n < 5; n++) {
        const before = turns.length;
        const came = wait('light');
        await pass(400);
        await came;
        expect(turns.slice(before).findIndex(({ tenant }) => tenant === 'light')).to.be.below(2);
      }
    });
  }

  it('tenants of different weights and costs get units by weight', async () => {
    const { pass, turns, wait } = setup(stores.memory, {
      policies: [
        { ...bucket, limit: 100, burst: 20, name: 'total' },
        { ...ofTenant, limit: 1e6 },
      ],
    });
    const costs: Readonly<Record<string, number>> = { one: 20, two: 3, five: 1 };
    const weights: Readonly<Record<string, number>> = { one: 1, two: 2, five: 5 };
    const [units, unweighed] = [new Map<string, number>(), 'one'];
    for (let i = 0; i < 3000; i++)
      for (const [tenant, weight] of Object.entries(weights))
        void wait(tenant, { weight, cost: costs[tenant]! });
    await pass(40_000);
    for (const { tenant } of turns) units.set(tenant, (units.get(tenant) ?? 0) + costs[tenant]!);
    for (const [tenant, weight] of Object.entries(weights))
      expect(units.get(tenant)! / weight / units.get(unweighed)!).to.be.within(0.9, 1.1);
  });

  it('a tenant of a shared limit waits only for its own share', async () => {
    const { pass, turns, wait } = setup(stores.memory, { limit: 100, window: 1000, share: 'tenant' });
    for (let i = 0; i < 1000; i++) void wait('hog');
    await pass(3000);
    const before = turns.length;
    for (let i = 0; i < 5; i++) void wait('light');
    await pass(600);
    expect(countOf(turns.slice(before), 'light')).to.equal(5);
    await pass(2000);
    for (let i = 0; i < 1000; i++) void wait('second');
    await pass(2000);
    const since = turns.length;
    await pass(4000);
    const [hog, second] = [countOf(turns.slice(since), 'hog'), countOf(turns.slice(since), 'second')];
    expect(hog + second).to.be.above(350);
    expect(hog / second).to.be.within(0.9, 1.1);
  });

  it('a slot that is released goes to the next tenant, and the calls of a tenant keep their order', async () => {
    const { pass, turns, wait, room } = setup(stores.memory, {
      policies: [
        { algorithm: 'concurrency', limit: 2, lease: '1h', name: 'slots' },
        { ...ofTenant, limit: 1000 },
      ],
    });
    const order: number[] = [];
    const work = async (tenant: string, n: number, priority = 0) => {
      const decision = await wait(tenant, { priority });
      if (tenant === 'b') order.push(n);
      await pass(0);
      await decision!.release();
      room.wake(['all']);
    };
    for (let n = 0; n < 20; n++) void work('a', n);
    for (let n = 0; n < 8; n++) void work('b', n, n === 7 ? 1 : 0);
    for (let round = 0; round < 100; round++) await pass(1);
    expect(turns).to.have.length(28);
    expect(countOf(turns.slice(0, 18), 'b')).to.equal(8);
    // The first call was asked about before the urgent one came.
    expect(order).to.deep.equal([0, 7, 1, 2, 3, 4, 5, 6]);
  });

  it('any calls: each is served or ends at its timeout, in order within its tenant, and leaves nothing behind', async () => {
    const call = fc.record({
      after: fc.constantFrom(0, 0, 0, 50, 300),
      tenant: fc.constantFrom('a', 'b', 'c'),
      cost: fc.integer({ min: 1, max: 4 }),
      timeout: fc.constantFrom(Infinity, Infinity, Infinity, 70, 1500),
    });
    const property = fc.asyncProperty(
      fc.array(call, { minLength: 1, maxLength: 40 }),
      fc.constantFrom(...Object.values(totals)),
      fc.integer({ min: 1, max: 10 }),
      async (calls, total, own) => {
        const policies = [
          { ...total, limit: 4, ...(total.algorithm === 'token-bucket' && { burst: 4 }) } as Policy,
          { ...ofTenant, limit: 4 * own, burst: 4 },
        ];
        const { pass, room, limiter, wait, keyOf } = setup(stores.memory, { policies });
        const served: number[] = [];
        let ended = 0;
        for (const [n, { after, tenant, cost, timeout }] of calls.entries()) {
          await pass(after);
          void wait(tenant, { cost, timeout }).then((decision) => {
            ended++;
            if (decision) served.push(n);
          });
        }
        await pass(200_000);
        expect(ended).to.equal(calls.length);
        expect(room.size).to.equal(0);
        for (const tenant of 'abc') {
          const ofOne = served.filter((n) => calls[n]!.tenant === tenant);
          expect(ofOne).to.deep.equal([...ofOne].sort((one, other) => one - other));
          expect(await limiter.peek(keyOf(tenant))).to.include({ allowed: true, resetAfterMs: 0 });
        }
      },
    );
    await fc.assert(property, runs('memory', 200, 0));
  });

  it('tenants that always wait get the same units, to a round', async () => {
    const property = fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 2, maxLength: 6 }),
      fc.constantFrom(...Object.values(totals)),
      async (costs, total) => {
        const policies = [
          { ...total, limit: 4 },
          { ...ofTenant, burst: 1000 },
        ];
        if (total.algorithm === 'token-bucket') Object.assign(policies[0]!, { burst: 4 });
        const { pass, wait, room } = setup(stores.memory, { policies });
        const units = costs.map(() => 0);
        costs.forEach((cost, n) => {
          for (let i = 0; i < 500; i++) void wait(String(n), { cost }).then(() => (units[n]! += cost));
        });
        await pass(3000);
        expect(room.size).to.be.above(0);
        // The largest cost is the quantum of a round; the first turns happened before the gate was known.
        expect(Math.max(...units) - Math.min(...units)).to.be.at.most(3 * Math.max(...costs));
      },
    );
    await fc.assert(property, runs('memory', 30, 0));
  });
});
