// Law 11, for policies: a memory store keeps the state of a bounded number of policies, and as much of their counts as there is room for.
import { spawnSync } from 'node:child_process';
import { expect } from 'chai';
import fc from 'fast-check';
import { memoryStore, type Decision, type Limiter, type Policy } from 'headgate';
import { TYPESCRIPT } from '../../scripts/lib/run.mjs';
import { compilePolicies } from '../../src/contract/compile-policies.js';
import { Selections, type Freed } from '../../src/stores/memory/selections.js';
import type { PolicySet } from '../../src/contract/store.js';
import { runs } from '../support/random.js';
import { limiterOn, TestClock } from '../support/clock.js';

/** The number of policies in docs/memory.md. */
const MAX_POLICIES = 1000;
const MINUTE = 60_000;

function open() {
  const clock = new TestClock();
  const store = memoryStore({ clock: clock.read });
  return { clock, store, limiter: limiterOn(store, { limit: 1, window: '1m', ban: {} }) };
}

const named = (i: number): Policy => ({ name: `p${i}`, limit: 1, window: '1m' });

/** Decides by the policies of a single request. */
function by(limiter: Limiter, key: string, ...policies: Policy[]): Decision {
  return limiter.decide(key, 1, limiter.compile(policies)) as Decision;
}

const COMBINATIONS = [[0], [1], [2], [0, 1], [2, 1], [0, 1, 2]];

/** Kinds of policies that live for at most two and a half seconds. */
const KINDS: readonly Policy[] = [
  { algorithm: 'fixed-window', limit: 2, window: 1_000 },
  { algorithm: 'sliding-window', limit: 2, window: 1_000 },
  { algorithm: 'sliding-log', limit: 2, window: 1_000 },
  { algorithm: 'token-bucket', limit: 2, window: 1_000, burst: 3 },
  { algorithm: 'concurrency', limit: 1, lease: 1_000 },
];

const policyOf = (group: number, i: number): Policy => KINDS[(group * 7 + i) % KINDS.length]!;

describe('law 11, policies that come with each request', () => {
  it('of one name and different limits share their state: they need no room', () => {
    const { store, limiter } = open();
    for (let i = 0; i < 5 * MAX_POLICIES; i++) {
      const policy = { name: 'plan', limit: 10 + i, window: '1m' };
      expect(by(limiter, `customer ${i}`, policy)).to.include({ reason: undefined, remaining: 9 + i });
      expect(by(limiter, 'shared', policy)).to.include({ reason: undefined, remaining: 9 });
    }
    expect(store.health!.unremembered).to.equal(0);
  });

  it('with a name each cost the same however many came before, and expired ones make room', () => {
    const { clock, store, limiter } = open();
    for (let i = 0; i < 2.5 * MAX_POLICIES; i++) {
      // 1,000 policies in the lifetime of a sliding window: one window and one segment.
      if (i % 100 === 0) clock.now += 7_000;
      if (by(limiter, `key ${i}`, named(i)).reason !== undefined) expect.fail(`${i} is denied`);
      if (by(limiter, `key ${i}`, named(i)).allowed) expect.fail(`${i} is admitted twice`);
    }
    expect(store.health!.unremembered).to.equal(0);
  }).timeout(180_000);

  for (const [kind, policy] of [
    ['names', named],
    ['rates', (i: number): Policy => ({ algorithm: 'token-bucket', limit: 1, window: MINUTE + i })],
    ['windows', (i: number): Policy => ({ algorithm: 'sliding-log', limit: 1, window: MINUTE + i })],
  ] as const) {
    it(`with more ${kind} than there is room for: the least recently used are evicted`, () => {
      const { clock, limiter } = open();
      for (let i = 0; i < 3 * MAX_POLICIES; i++) {
        clock.now++;
        if (!by(limiter, 'a', policy(i)).allowed) expect.fail(`${i} is denied`);
        // A client that comes again and again stays denied.
        if (by(limiter, 'a', policy(0)).allowed) expect.fail(`0 is admitted after ${i}`);
      }
      // In reverse order: each admitted policy evicts another policy.
      for (let i = 3 * MAX_POLICIES - 1; i > 2 * MAX_POLICIES; i--)
        expect(by(limiter, 'a', policy(i)).allowed, `${i}`).to.equal(false);
      for (let i = 1; i < MAX_POLICIES; i++)
        expect(by(limiter, 'a', policy(i)).allowed, `${i}`).to.equal(true);
    });
  }

  it('hold beside policies of ever new names', () => {
    const { clock, limiter } = open();
    const address: Policy = { name: 'address', limit: 5, window: '1h' };
    for (let i = 0; i < 5 * MAX_POLICIES; i++, clock.now++) {
      const { allowed } = by(limiter, 'a', address, named(i));
      expect(allowed, `${i}`).to.equal(i < 5);
    }
  });

  it('emit a warning if they are too many, and bans hold', async () => {
    const script = `
      import { createLimiter, memoryStore } from './src/index.ts';
      process.on('warning', ({ name, code }) => console.log(name, code));
      const limiter = createLimiter({ limit: 1, window: '1m', ban: {} });
      await limiter.ban('banned', '1h');
      for (let i = 0; i < 3000; i++) {
        if (i === 999) await new Promise((resolve) => setImmediate(resolve, console.log('room')));
        const set = limiter.compile([{ name: 'p' + i, limit: 1, window: '1m' }]);
        if (limiter.decide('banned', 1, set).reason !== 'banned') throw new Error(String(i));
      }`;
    const args = [...TYPESCRIPT, '--input-type=module', '-e', script];
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(stdout.trim().split('\n'), stderr).to.deep.equal([
      'room',
      'HeadgateWarning HEADGATE_TOO_MANY_POLICIES',
    ]);
  });

  it('are evicted only after they have expired: each decision equals that of a store that keeps all', () =>
    fc.assert(
      fc.property(fc.infiniteStream(fc.nat(2 ** 31 - 1)), (random) => {
        const below = (n: number): number => Number(random.next().value) % n;
        const { clock, limiter } = open();
        const oracles = new Map<number, Limiter>();
        const sets = new Map<string, [PolicySet, PolicySet]>();
        let last: [string, number, Limiter] | undefined;
        for (let i = 0; i < 10_000; i++) {
          // A second holds 333 of these requests, and no policy lives longer than two and a half seconds.
          clock.now += 3;
          const group = below(5) === 0 && last ? last[1] : Math.floor(i / 10) + below(60);
          const oracle =
            oracles.get(group) ?? limiterOn(memoryStore({ clock: clock.read }), policyOf(group, 0));
          oracles.set(group, oracle);
          oracles.delete(group - 200);
          const which = COMBINATIONS[below(COMBINATIONS.length)]!;
          const id = `${group} ${which.join()}`;
          if (!sets.has(id)) {
            const policies = which.map((j) => ({ ...policyOf(group, j), name: `${group}-${j}` }));
            sets.set(id, [limiter.compile(policies), oracle.compile(policies)]);
          }
          const [set, all] = sets.get(id)!;
          const key = `key ${below(2)}`;
          const decision = limiter.decide(key, 1, set) as Decision;
          const expected = oracle.decide(key, 1, all) as Decision;
          const { allowed, reason, policies } = expected;
          expect(decision, `${i}`).to.deep.include({ allowed, reason, policies });
          last = [id, group, oracle];
          const then = below(6);
          for (const each of [decision, expected])
            void (then === 0 ? each.cancel() : then === 1 ? each.release() : 0);
        }
      }),
      runs('memory', 2, 0),
    ));

  describe('are numbered', () => {
    const compiled = (lives: Record<string, number>) => {
      const shape = { algorithm: 'fixed-window', limit: 1 } as const;
      const policies = Object.entries(lives).map(([name, window]) => ({ ...shape, name, window }));
      return policies.length === 0 ? [] : compilePolicies('policies', policies);
    };
    const select = (selections: Selections, lives: Record<string, number>, now: number) => {
      let freed: Freed = { policies: [], selections: [] };
      const selection = selections.select(compiled(lives), now, (which) => (freed = which));
      return { selection, freed };
    };

    it('from 0 on, with no more numbers than there is room for', () => {
      for (const lives of [
        (i: number) => ({ [`p${i}`]: MINUTE }),
        // Many sets of few policies.
        (i: number) => Object.fromEntries([...i.toString(2)].map((bit, j) => [`p${j}-${bit}`, MINUTE])),
      ]) {
        const selections = new Selections(() => {});
        const live = new Map<number, object>();
        let highest = 0;
        for (let i = 0; i < 3 * MAX_POLICIES; i++) {
          const { selection, freed } = select(selections, lives(i), i);
          for (const number of freed.selections) live.delete(number);
          expect(live.has(selection.number)).to.equal(false);
          live.set(selection.number, selection);
          highest = Math.max(highest, selection.number, ...selection.policies.map(({ number }) => number));
          expect(selections.size).to.be.at.most(MAX_POLICIES);
          expect(live.size).to.be.at.most(MAX_POLICIES);
        }
        expect(highest).to.equal(MAX_POLICIES);
      }
    });

    it('and forgotten when the longest life of a set has ended, except the set that asks', () => {
      const selections = new Selections(() => {});
      select(selections, { short: 1_000, long: MINUTE }, 0);
      for (let i = 1; i < MAX_POLICIES - 1; i++) select(selections, { [`p${i}`]: 1_000 }, 0);
      const { freed } = select(selections, { last: 1_000 }, 1_000);
      expect(freed.policies).to.have.lengthOf(MAX_POLICIES - 2);
      expect(select(selections, { short: 1_000, long: MINUTE }, 2_000).selection).to.include({ number: 0 });
      for (let i = 2; i < MAX_POLICIES - 1; i++) select(selections, { [`p${i}`]: MINUTE }, 2_000);
      select(selections, { p2: MINUTE, p3: MINUTE }, 2_000);
      const empty = select(selections, {}, 2_000);
      expect(empty.freed.selections).to.have.lengthOf(1).and.not.to.include(empty.selection.number);
    });
  });
});
