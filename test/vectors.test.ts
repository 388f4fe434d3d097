// The tables in test/vectors, on every store.
import { expect } from 'chai';
import type { Decision, Limiter, Store } from 'headgate';
import { limiterOn, START, stores, TestClock } from './support/stores.js';
import { concurrency } from './vectors/concurrency.js';
import { fixedWindow } from './vectors/fixed-window.js';
import { gcra } from './vectors/gcra.js';
import { redisCell } from './vectors/redis-cell.js';
import { sets } from './vectors/sets.js';
import { slidingLog } from './vectors/sliding-log.js';
import { slidingWindow } from './vectors/sliding-window.js';
import type { Admitted, Call, Vectors } from './vectors/vectors.js';

const tables = { fixedWindow, slidingWindow, slidingLog, gcra, concurrency };

for (const [name, createStore] of Object.entries(stores)) {
  describe(`vectors on ${name}`, () => {
    const clock = new TestClock();
    let store: Store;
    beforeEach(() => (store = createStore(clock.read)));

    for (const [algorithm, vectors] of Object.entries(tables)) {
      for (const { title, policy, rows } of vectors) {
        it(`${algorithm}: ${title}`, () => play(limiterOn(store, policy), rows));
      }
    }

    it("redis-cell's published table", async () => {
      const limiter = limiterOn(store, redisCell.policy);
      for (const [at, quantity, limited, remaining, reset, retry] of redisCell.rows) {
        clock.now = START + 1000 * at;
        const decision = await limiter.consume('key', { cost: quantity });
        const { allowed, retryAfterMs = -1000 } = decision;
        const answer = [Number(!allowed), decision.remaining, decision.resetAfterMs / 1000];
        expect([...answer, allowed ? -1 : retryAfterMs / 1000], `${at} s, ${quantity}`).to.deep.equal([
          ...[limited, remaining, reset, retry],
        ]);
      }
    });

    for (const { title, policies, ban, rows } of sets) {
      it(title, async () => {
        const limiter = limiterOn(store, ban ? { policies, ban } : { policies });
        for (const [at, cost, allowed, reason, retryAfterMs, remaining] of rows) {
          clock.now = START + at;
          const decision = await limiter.consume('key', { cost });
          expect(decision, `${at} ms`).to.include({ allowed, reason, retryAfterMs });
          expect(decision.policies.map((verdict) => verdict.remaining)).to.deep.equal(remaining);
        }
      });
    }

    async function play(limiter: Limiter, rows: Vectors['rows']) {
      const admitted: Decision[] = [];
      for (const [at, call, ...expected] of rows) {
        clock.now = START + at;
        const decision = await perform(limiter, call, admitted);
        const verdict = decision && [admittedAs(decision), decision.remaining, decision.resetAfterMs];
        expect(verdict ?? [], `${at} ms: ${JSON.stringify(call)}`).to.deep.equal(expected);
      }
    }
  });
}

async function perform(limiter: Limiter, call: number | Call, admitted: Decision[]) {
  if (typeof call === 'number') {
    const decision = await limiter.consume('key', { cost: call });
    if (decision.allowed && call > 0) admitted.push(decision);
    return decision;
  }
  if (call === 'reset') return void (await limiter.reset('key'));
  if ('peek' in call) return limiter.peek('key', { cost: call.peek });
  if ('refund' in call) return void (await limiter.refund('key', call.refund));
  if ('settle' in call) return void (await admitted[call.settle]!.settle(call.to));
  // Another process asks again: the decision itself remembers its release.
  const held =
    'release' in call ? await admitted[call.release]!.release() : await admitted[call.renew]!.renew();
  expect(held, JSON.stringify(call)).to.equal(call.held);
  return undefined;
}

function admittedAs({ allowed, retryAfterMs, delayMs }: Decision): Admitted {
  if (!allowed) return retryAfterMs === undefined ? 'never' : { after: retryAfterMs };
  return delayMs > 0 ? { held: delayMs } : 'yes';
}
