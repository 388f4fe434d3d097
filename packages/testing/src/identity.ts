// Law 4. Two stores give the same decision, verdict for verdict, on the same trace.
import fc from 'fast-check';
import { memoryStore, type Store } from 'headgate';
import { TestClock } from 'headgate/testing';
import type { Check } from './check.js';
import { expectEqual } from './expect.js';
import { slotsOf } from './dimensions.js';
import { list, pick } from './random.js';
import { Suite, type Lab, type StoreUnderTest } from './subject.js';
import {
  bans,
  costsFrom,
  costsIn,
  mixedTraces,
  play,
  policiesOf,
  setOf,
  traces,
  type Trace,
} from './trace.js';

/** A store to compare with another one. */
export interface IdentityOptions extends StoreUnderTest {
  /** Makes the store whose answers count as right. @default a memory store */
  readonly createReference?: StoreUnderTest['createStore'];
  /** Traces to play in addition to the random traces, by topic. Each trace once showed a difference between two stores. */
  readonly traces?: Readonly<Record<string, Trace>>;
}

/** Checks that a store always answers like a memory store, or like another reference. */
export function identityChecks(options: IdentityOptions): Check[] {
  const suite = new Suite('law 4, identity', options);
  const { createReference = (clock) => memoryStore({ clock }) } = options;
  const some = suite.algorithms.map((each) => [each, [each]] as const);

  for (const [what, algorithms] of [...some, ['mixed algorithms', suite.algorithms] as const])
    for (const jumps of [false, true])
      suite.addRandom(
        `${what}: random traces${jumps ? ' on a clock that jumps' : ''}`,
        traces(algorithms, { jumps }),
        (trace, lab) => compare(lab, trace),
      );

  if (options.dimensions ?? true)
    suite.addRandom(
      'keys of several dimensions: random traces',
      mixedTraces(suite.algorithms, slotsOf(suite.subject)),
      (trace, lab) => compare(lab, trace),
    );

  for (const [title, trace] of Object.entries(options.traces ?? {}))
    suite.add(title, (lab) => compare(lab, trace));

  if (options.ordered)
    suite.addRandom(
      'simultaneous calls are answered like successive ones',
      fc.record({
        policies: fc.oneof(
          { weight: suite.algorithms.length, arbitrary: policiesOf(suite.algorithms) },
          ...suite.algorithms.map((each) => policiesOf([each])),
        ),
        ban: bans,
        steps: list(20, 70, fc.tuple(pick(['a', 'b', 'c{}', '']), costsFrom([1, 1, 2, 5], [0, 1, 2, 5]))),
      }),
      async ({ policies, ban, steps }, lab) => {
        const clock = new TestClock();
        const set = setOf(policies, ban);
        const ask = async (store: Store) => {
          const replies = steps.map(async ([key, step], i) => {
            const costs = costsIn(step, policies.length);
            return store.decide({ set, key, ...costs, peek: costs.cost === 0, lease: `l${i}` });
          });
          return (await Promise.all(replies)).map(({ ban: banned, verdicts }) => [banned, ...verdicts]);
        };
        const expected = await ask(await createReference(clock.read));
        expectEqual('a ban and verdicts each', await ask(await lab.createStore(clock)), expected);
      },
    );

  return suite.checks;

  async function compare(lab: Lab, trace: Trace): Promise<void> {
    const [clock, own] = [new TestClock(), new TestClock()];
    own.now = clock.now;
    const reference = await createReference(own.read);
    const store = await lab.createStore(clock);
    const remembersIds = reference.remembersIds === true && store.remembersIds === true;
    const expected = await play(reference, own, trace, remembersIds);
    await reference.close?.();
    const answers = await play(store, clock, trace, remembersIds);
    for (const [i, { step, answer }] of answers.entries())
      expectEqual(`the answer to ${step}, as of the reference`, answer, expected[i]?.answer);
  }
}
