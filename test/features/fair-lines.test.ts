// Requests of several tenants that wait for one limit, in one process and in the test's time.
import { expect } from 'chai';
import fc from 'fast-check';
import type { CreateLimiterOptions, HeadgateError, Policy } from 'headgate';
import { subjectOf } from '../../src/contract/dimensions.js';
import { idsOf } from '../../src/contract/parts.js';
import type { LimiterDecision } from '../../src/limiter/decision.js';
import { HoldQueue, holdRequestOf } from '../../src/limiter/waiting/hold-queue.js';
import { WaitingRoom } from '../../src/limiter/waiting/waiting-room.js';
import { runs } from '../support/random.js';
import { limiterOn, stores, type CreateStore } from '../support/stores.js';
import { TestTiming } from '../support/timing.js';

interface Turn {
  readonly tenant: string;
  readonly at: number;
  readonly outcome: string;
}

/** A limiter with keys of a tenant and of all tenants together, its waiting room, and the turns in their order. */
function setup(create: CreateStore, options: CreateLimiterOptions, isShared = false) {
  const timing = new TestTiming();
  const limiter = limiterOn(create(timing.clock), options);
  const queue = new HoldQueue(1e6, 1e6, timing);
  let asked = 0;
  const room = new WaitingRoom(1e6, 1e6, timing, {
    isShared,
    decide: async (key, cost, set, peek) => {
      asked++;
      const decision = await (peek ? limiter.peek(key, { cost }) : limiter.decide(key, cost, set));
      asked--;
      return decision as LimiterDecision;
    },
    hold: async (decision, signal) => {
      const outcome = await queue.hold(holdRequestOf(decision), signal, true);
      if (outcome !== 'turn') throw new Error(outcome);
      return decision;
    },
  });
  const turns: Turn[] = [];
  const keyOf = (tenant: string) => ({ key: 'all', tenant });
  const wait = (tenant: string, { cost = 1, timeout = Infinity, weight = 1, priority = 0 } = {}) => {
    const key = keyOf(tenant);
    const ids = idsOf(subjectOf(limiter.set, key, []));
    return room.wait({ key, set: limiter.set, ids, weight }, cost, timeout, undefined, priority).then(
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
const ofTenant = { algorithm: 'token-bucket', limit: 1000, window: '1s', by: 'tenant', name: 'tenant' } as const;

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
      const policies = [total, ofTenant];

      it('a tenant that comes later gets every second turn, and none of its calls times out', async () => {
        const { pass, turns, wait } = setup(create, { policies });
        for (let i = 0; i < 100; i++) void wait('first');
        await pass(1000);
        for (let i = 0; i < 12; i++) void wait('later', { timeout: 5000 });
        const before = turns.length;
        await pass(2450);
        const since = turns.slice(before);
        expect(countOf(since, 'later')).to.equal(12);
        expect(countOf(since, 'first')).to.be.within(11, 13);
      });
    });
  }
}
