// Law 17, in a model: processes that charge slices from one store, spend each unit as late as possible, give back, refund and are killed.
// No window admits more than the policy allows.
import { expect } from 'chai';
import { createLimiter, memoryStore, type Policy } from 'headgate';
import { live } from '../../../scripts/bench/lib/slice-world.js';
import { chargedOf, type Reply } from '../../../src/contract/reply.js';
import { newCall, type PolicySet } from '../../../src/contract/store.js';
import { resetOf, waitOf } from '../../../src/contract/verdicts.js';
import { HotKey } from '../../../src/stores/redis/local/hot-key.js';
import { Slice } from '../../../src/stores/redis/local/slice.js';
import { Random } from '../../../scripts/bench/lib/random.js';

const TRIALS = Number(process.env['HEADGATE_SLICE_TRIALS'] ?? 1_500);

const WINDOW = 1_000;

interface Admission {
  readonly at: number;
  readonly units: number;
  /** The time at which its charge ends. */
  readonly mark: number;
  readonly reply: Reply;
}

const policies: Record<string, Policy> = {
  'fixed-window': { algorithm: 'fixed-window', limit: 60, window: WINDOW },
  'sliding-window': { limit: 60, window: WINDOW },
  'sliding-window of few segments': { limit: 60, window: WINDOW, segments: 3 },
  'token-bucket': { algorithm: 'token-bucket', limit: 60, window: WINDOW, burst: 40 },
  'a large token-bucket': { algorithm: 'token-bucket', limit: 30, window: WINDOW, burst: 200 },
  'a fast leaky-bucket': { algorithm: 'leaky-bucket', limit: 3_000, window: WINDOW, burst: 50 },
};

/** The largest excess of the admissions over the policy's bound. */
function excess(policy: Policy, admissions: readonly Admission[]): number {
  const { algorithm, limit, burst = limit } = policy as Policy & { burst?: number };
  let largest = -Infinity;
  for (const [i, first] of admissions.entries()) {
    let sum = 0;
    for (let j = i; j < admissions.length; j++) {
      const { at, units, mark } = admissions[j]!;
      const passed = at - first.at;
      if (algorithm === 'fixed-window') {
        if (mark === first.mark) sum += units;
        largest = Math.max(largest, sum - limit, at >= mark ? units : 0);
      } else if (algorithm === undefined) {
        if (passed >= WINDOW) break;
        largest = Math.max(largest, (sum += units) - limit);
      } else {
        largest = Math.max(largest, (sum += units) - burst - Math.floor((passed * limit) / WINDOW));
      }
    }
  }
  return largest;
}

/** @param seed the seed of a trial @returns its admissions */
function play(set: PolicySet, seed: number): Admission[] {
  const random = new Random(seed);
  const below = (n: number): number => Math.floor(random.fraction() * n);
  let time = 1e12 + below(1_000) / 7;
  const store = memoryStore({ clock: () => Math.floor(time) });
  const key = 'k';
  const { limit } = set.policies[0]!;
  const hold = [5, 50, 200, 900, 3_000][below(5)]!;
  const held: Slice[] = [];
  const admissions: Admission[] = [];
  const pause = (): number => below(3) * 0.37;
  const decide = (cost: number): Reply | undefined => {
    const query = { set, key, cost, peek: false, lease: '', call: newCall() };
    const reply = store.decide(query) as Reply;
    return waitOf(reply.verdicts, 0) === 0 ? reply : undefined;
  };
  const admit = (units: number, reply: Reply): void => {
    const mark = reply.now + resetOf(reply.verdicts, 0);
    admissions.push({ at: Math.floor(time), units, mark, reply });
  };
  const adjust = (change: Parameters<typeof store.adjust>[0]): void => void store.adjust(change);
  const steps: (() => void)[] = [
    () => {
      const units = 1 + below(Math.ceil(limit / 3));
      const sentAt = time;
      time += pause();
      const reply = decide(units);
      time += pause();
      if (reply) {
        const subject = { set, key };
        held.push(new Slice({ subject, units, reply, asked: sentAt, received: time, hold }));
      }
    },
    () => {
      const cost = 1 + below(3);
      const reply = decide(cost);
      if (reply) admit(cost, reply);
    },
    // Spends a slice completely or partly.
    () => {
      const slice = held[below(held.length)];
      const units = slice?.left(time) ?? 0;
      const cost = below(3) > 0 ? units : Math.ceil(units / 2);
      if (cost > 0) admit(cost, slice!.spend(set, cost, time));
    },
    // Gives back, or is killed.
    () => {
      const [slice] = held.splice(below(held.length), 1);
      const rest = below(5) > 0 ? slice?.rest(time) : undefined;
      if (rest) adjust(rest);
    },
    () => {
      if (below(3) > 0) return;
      const [refunded] = admissions.splice(below(admissions.length), 1);
      if (!refunded) return;
      const { units, reply } = refunded;
      const charged = chargedOf(reply);
      adjust({ set, key, units: [-units], charged, degraded: undefined });
    },
    () => (time += [0, 1, 7, 33, 95, 250][below(6)]! + below(100) / 100),
    // Waits until the last moment at which a slice may be spent.
    () => {
      const slice = held[below(held.length)];
      if (!slice || slice.left(time) <= 0) return;
      let [from, to] = [time, time + 4_000];
      while (to - from > 0.01) {
        const middle = (from + to) / 2;
        if (slice.left(middle) > 0) from = middle;
        else to = middle;
      }
      time = from;
    },
  ];
  for (let step = 0; step < 60; step++) steps[below(steps.length)]!();
  return admissions;
}

describe('law 17: slices, in a model', () => {
  for (const [what, policy] of Object.entries(policies)) {
    it(`${what}: no window admits more, however late units are spent`, () => {
      const { set } = createLimiter({ policies: [policy] });
      let spent = 0;
      for (let seed = 1; seed <= TRIALS; seed++) {
        const admissions = play(set, seed);
        spent += admissions.length;
        expect(excess(policy, admissions), `seed ${seed}`).to.be.at.most(0);
      }
      expect(spent).to.be.above(TRIALS * 5);
    }).timeout(60_000);
  }
});

describe('law 17: slices deny no more requests than they must', () => {
  it('units that came ahead are spent, even after a look that finds the current slice spent', async () => {
    const { set } = createLimiter({ algorithm: 'fixed-window', limit: 100_000, window: '1h' });
    const subject = { set, key: 'k' };
    const nothing = { holds: () => {}, giveBack: () => {}, connectionOf: () => ({ isLost: false }) };
    const hot = new HotKey({ ...nothing, size: 100, hold: 1_000, store: memoryStore() });
    const now = performance.now();
    for (let i = 0; i < 200; i++) hot.ask(set, 1, now);
    hot.refill(subject, 1, now);
    await new Promise(setImmediate);
    const current = hot.take(set, 1, now)!;
    while (!hot.isLow(now)) current.spend(set, 1, now);
    hot.refill(subject, 1, now);
    await new Promise(setImmediate);
    while (current.left(now) > 0) current.spend(set, 1, now);
    expect(hot.held(now)).to.be.above(0);
    expect(hot.sweep(now)).to.be.true;
    expect(hot.take(set, 1, now)?.left(now)).to.equal(hot.held(now));
  });

  it('in each of several windows, few are denied while another process holds units', async () => {
    let [requests, falsely] = [0, 0];
    for (let seed = 1; seed <= 5; seed++) {
      const outcome = await live({
        ...{ seed, policy: { algorithm: 'fixed-window', limit: 1_000, window: 2_000 }, window: 2_000 },
        ...{ hold: 1_000, distances: Array.from({ length: 8 }, () => 0.2), rate: 2, duration: 5_990 },
        ...{ faults: false, process: (random) => random.integer(0, 7), key: () => 0 },
      });
      requests += outcome.requests;
      falsely += outcome.falselyDenied;
      expect(outcome.admissions.length).to.equal(3_000);
    }
    expect(falsely).to.be.below(requests / 1_000);
  }).timeout(30_000);
});
