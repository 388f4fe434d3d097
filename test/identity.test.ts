// Law 4. Memory, a store that keeps bytes, Redis and Valkey give the same decision, verdict for verdict, on the same trace.
import { expect } from 'chai';
import fc from 'fast-check';
import type { BanOptions, Policy, Query, Reply, Store } from 'headgate';
import { admits, resetOf, waitOf } from 'headgate/stores';
import { compileBan } from '../src/ban.js';
import { compilePolicies } from '../src/policy.js';
import { algorithms, policyOf } from './support/policies.js';
import { runs } from './support/random.js';
import { map, memory, redis, TestClock, valkey } from './support/stores.js';
import { regressions } from './vectors/regressions.js';

type Action =
  | { do: 'decide'; cost: number; peek: boolean }
  | { do: 'adjust'; units: number; of: number; marked: boolean }
  | { do: 'lease'; action: 'release' | 'renew'; of: number }
  | { do: 'reset' }
  | { do: 'ban'; ms: number };

export interface Trace {
  /** Tiers: policies by which the same name's keys are decided in turn. */
  readonly tiers: readonly (readonly Policy[])[];
  readonly ban: BanOptions | undefined;
  /** After so many ms, by which tier, for which key, what. `of` counts earlier charges. */
  readonly steps: readonly (readonly [wait: number, tier: number, key: string, action: Action])[];
}

const action = (costs: readonly number[]): fc.Arbitrary<Action> =>
  fc.oneof(
    {
      weight: 15,
      arbitrary: fc.record({
        do: fc.constant('decide' as const),
        cost: fc.constantFrom(...costs),
        peek: fc.constantFrom(false, false, false, false, false, true),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('adjust' as const),
        units: fc.constantFrom(-1, -2, -100, 1, 5, 100),
        of: fc.nat({ max: 100 }),
        marked: fc.boolean(),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('lease' as const),
        action: fc.constantFrom('release' as const, 'renew' as const),
        of: fc.nat({ max: 100 }),
      }),
    },
    fc.record({ do: fc.constant('reset' as const) }),
    fc.record({ do: fc.constant('ban' as const), ms: fc.constantFrom(0, 1_000, 100_000) }),
  );

const limits = [1, 2, 3, 5, 7, 10, 100, 127, 128, 1_000, 32_768, 70_000];
const policiesOf = (some: readonly (typeof algorithms)[number][]) =>
  fc
    .array(
      fc.record({
        policy: fc.constantFrom(...some).chain((algorithm) => policyOf(algorithm, { limits })),
        shadow: fc.constantFrom(false, false, false, false, true),
      }),
      { minLength: 1, maxLength: some.length === 1 ? 2 : 3 },
    )
    // One name may stand for different algorithms in different tiers.
    .map((list) => list.map(({ policy, shadow }, i) => ({ ...policy, shadow, name: `p${i}` })));

const bans = fc.option(
  fc.record({
    after: fc.constantFrom(1, 2, 3),
    within: fc.constant(10_000),
    for: fc.constant(3_000),
    factor: fc.constantFrom(1, 1.5, 2.25),
    max: fc.constant(20_000),
  }),
  { nil: undefined },
);

/** @param jumps whether the clock may go back, and far forth */
function traceOf(some: readonly (typeof algorithms)[number][], jumps: boolean): fc.Arbitrary<Trace> {
  const waits = [0, 0, 0, 1, 1, 3, 50, 500, 2_000, 30_000];
  const wait = jumps
    ? fc.constantFrom(...waits, ...waits, -1, -100, -5_000, 3_600_000)
    : fc.constantFrom(...waits);
  // Of several keys, one that has expired may be gone for good when the clock goes back, in memory sooner than on Redis.
  const key = jumps ? fc.constant('a') : fc.constantFrom('a', 'a', 'a', 'b{}%', '');
  const step = fc.tuple(wait, fc.nat({ max: 1 }), key, action([0, 1, 1, 1, 2, 5, 200]));
  return fc.record({
    tiers: fc.array(policiesOf(some), { minLength: 1, maxLength: 2 }),
    ban: bans,
    steps: fc.array(step, { minLength: 10, maxLength: 60, size: 'max' }),
  });
}

/** What each policy charged. */
function chargesOf({ set, cost }: Query, { ban, verdicts }: Reply): number[] {
  const admitted = set.policies.map((_, i) => ban === 0 && admits(waitOf(verdicts, i)));
  const charged = set.policies.every(({ shadow }, i) => shadow || admitted[i]);
  return admitted.map((each) => (charged && each ? cost : 0));
}

/** Plays a trace on a store; returns all its answers. */
async function play(
  createStore: (clock: () => number) => Store,
  { tiers, ban, steps }: Trace,
): Promise<unknown[]> {
  const clock = new TestClock();
  const start = clock.now;
  const store = createStore(clock.read);
  const sets = tiers.map((policies) => ({
    name: 'identity',
    policies: compilePolicies('policies', policies),
    ban: compileBan(ban),
    timeout: 60_000,
  }));
  const charged: { query: Query; reply: Reply }[] = [];
  // Redis tells by its clock whether a charge came before a reset, memory by their order: a clock that goes back parts them.
  let ordered = true;
  const jumps = steps.some(([wait]) => wait < 0);
  const answers: unknown[] = [];
  for (const [i, [wait, tier, key, action]] of steps.entries()) {
    clock.now += wait;
    const set = sets[tier % sets.length]!;
    switch (action.do) {
      case 'decide': {
        const query = { set, key, cost: action.cost, peek: action.peek || action.cost === 0, lease: `l${i}` };
        const reply = await store.decide(query);
        answers.push([reply.now - start, reply.ban, ...reply.verdicts]);
        if (!query.peek) charged.push({ query, reply });
        break;
      }
      case 'adjust': {
        const past = charged[action.of % charged.length];
        if (!past) break;
        const { query, reply } = past;
        const { set, key } = query;
        const marks = set.policies.map((_, j) => reply.now + (resetOf(reply.verdicts, j) || 0));
        const known = action.marked && ordered ? { step: reply.step, marks } : undefined;
        // Of a known charge no more is given back than was charged. A store that has forgotten the key could not know better.
        const charges = chargesOf(query, reply);
        const units = charges.map((cost) => (known ? Math.max(action.units, -cost) : action.units));
        const adjusted = await store.adjust({ set, key, units, charged: known, degraded: undefined });
        answers.push([adjusted.now - start, ...adjusted.charged, ...adjusted.verdicts]);
        break;
      }
      case 'lease': {
        const past = charged[action.of % charged.length]?.query;
        if (!past?.set.policies.some(({ traits }) => traits.holdsSlots)) break;
        answers.push(await store.lease({ ...past, action: action.action, degraded: undefined }));
        break;
      }
      case 'reset':
        ordered &&= !jumps;
        await store.reset({ set, key });
        break;
      case 'ban':
        if (set.ban) await store.ban({ set, key }, action.ms);
        break;
    }
  }
  return answers;
}

async function expectIdentity(trace: Trace): Promise<void> {
  const [inMemory, inBytes, onRedis, onValkey] = await Promise.all(
    [memory, map, redis, valkey].map((create) => play(create, trace)),
  );
  expect(inBytes, 'a Map of bytes').to.deep.equal(inMemory);
  expect(onRedis, 'Redis').to.deep.equal(inMemory);
  expect(onValkey, 'Valkey').to.deep.equal(inMemory);
}

describe('law 4, identity', function () {
  this.timeout(60_000);

  for (const algorithm of algorithms) {
    it(`${algorithm}: random traces`, () =>
      fc.assert(fc.asyncProperty(traceOf([algorithm], false), expectIdentity), runs('all', 0, 40)));

    it(`${algorithm}: random traces on a clock that jumps`, () =>
      fc.assert(fc.asyncProperty(traceOf([algorithm], true), expectIdentity), runs('all', 0, 40)));
  }

  it('mixed algorithms: random traces', () =>
    fc.assert(fc.asyncProperty(traceOf(algorithms, false), expectIdentity), runs('all', 0, 80)));

  it('mixed algorithms: random traces on a clock that jumps', () =>
    fc.assert(fc.asyncProperty(traceOf(algorithms, true), expectIdentity), runs('all', 0, 80)));

  it('asked all at once: the same as one after the other', () =>
    fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc
            .constantFrom(...algorithms)
            .chain((algorithm) => policyOf(algorithm, { limits }).map((each) => [each])),
          policiesOf(algorithms),
        ),
        bans,
        fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c{}', ''), fc.constantFrom(1, 1, 2, 5)), {
          minLength: 20,
          maxLength: 70,
        }),
        async (policies, ban, requests) => {
          const clock = new TestClock();
          const set = {
            name: 'identity',
            policies: compilePolicies('policies', policies),
            ban: compileBan(ban),
            timeout: 60_000,
          };
          const ask = async (store: Store) => {
            const replies = requests.map(async ([key, cost], i) =>
              store.decide({ set, key, cost, peek: false, lease: `l${i}` }),
            );
            return (await Promise.all(replies)).map(({ ban: banned, verdicts }) => [banned, ...verdicts]);
          };
          const expected = await ask(memory(clock.read));
          expect(await ask(map(clock.read)), 'a Map of bytes').to.deep.equal(expected);
          expect(await ask(redis(clock.read)), 'Redis').to.deep.equal(expected);
          expect(await ask(valkey(clock.read)), 'Valkey').to.deep.equal(expected);
        },
      ),
      runs('all', 0, 40),
    ));

  for (const { title, trace } of regressions) it(title, () => expectIdentity(trace));
});
