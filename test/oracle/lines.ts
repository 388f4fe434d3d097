// Several requests of one key wait in line until a step gives units, slots or the end of a ban back. In the order of
// arrival, those are admitted that the model admits.
import { setTimeout } from 'node:timers/promises';
import type { Decision } from 'headgate';
import type { Both } from './actions.js';
import { compare, plain } from './compare.js';
import { withKnown } from './known.js';
import { isBucket } from './model/overrides.js';
import type { Question } from './model/decide.js';
import type { Decision as Expected } from './model/types.js';
import { NOTICED_MS, type Waiting } from './waits.js';

/** Steps after which a request that waits may be admitted. */
export const RETURNS: ReadonlySet<string> = new Set([
  ...['settle', 'refund', 'cancel', 'giveBack', 'reset', 'unban', 'release', 'remove', 'override'],
]);

/** In the order of arrival: a request that comes while the store is asked about another one stays behind it. */
const PRIORITIES = [1, 0, 0];

/** Whether the model knows who is admitted without a real answer: nobody by a turn ahead, and no event comes at a time of its own. */
export function isOfLines({ model: { def } }: Both): boolean {
  const policies = [def.policies, ...Object.values(def.tiers)].flat();
  return (
    !def.shadow && !def.slices && policies.every((each) => !isBucket(each) && !each.share && !each.thresholds)
  );
}

/** The denial of a request that waits, or undefined if it would not wait. */
export async function denialOf({ real }: Both, { keys, options }: Waiting): Promise<Expected | undefined> {
  const seen = plain(await real.peek(keys, options));
  return seen.allowed || seen.reason === 'cost-exceeds-capacity' ? undefined : seen;
}

/** @param step the step that may give something back @returns the difference, or undefined */
export async function playLine(
  both: Both,
  { keys, options, variable }: Waiting,
  { now, denial }: { readonly now: number; readonly denial: Expected },
  step: () => Promise<unknown>,
): Promise<string | undefined> {
  const { real, model, decisions } = both;
  const question: Question = {
    keys,
    cost: 1,
    isPeek: false,
    isWaiting: true,
    ...options,
    real: denial,
  };
  const isAdmitted = () => model.decide({ ...question, isPeek: true }, now).decision.allowed;
  const abort = new AbortController();
  const admitted: { place: number; decision: Decision }[] = [];
  const waits = PRIORITIES.map(async (priority, place) => {
    const decision = await real.wait(keys, { ...options, priority, signal: abort.signal });
    admitted.push({ place, decision });
  });
  const ended = Promise.allSettled(waits);
  // By then the store has denied the first one.
  await real.peek(keys, options);
  model.denials.push({ keys, policy: denial.policy });
  if (admitted.length > 0) return `${variable}: a request that is denied did not wait`;
  await step();
  let count = 0;
  const order = [...PRIORITIES.keys()].sort((a, b) => PRIORITIES[b]! - PRIORITIES[a]! || a - b);
  try {
    for (const place of order) {
      if (!isAdmitted()) break;
      count++;
      await Promise.race([waits[place], setTimeout(NOTICED_MS)]);
      const decision = admitted.find((each) => each.place === place)?.decision;
      if (!decision) return `${variable}, the request in line at ${place} was not admitted`;
      const answer = model.decide({ ...question, real: plain(decision) }, now);
      decisions.push({ real: decision, handle: answer.handle, name: variable });
      both.used.add('wait');
      const expected = withKnown(plain(decision), answer.decision, model.def, true);
      const difference = compare(plain(decision), expected, `${variable}, the request in line at ${place}`);
      if (difference) return difference;
    }
  } finally {
    abort.abort();
    await ended;
  }
  const expected = order.slice(0, count);
  return compare(
    admitted.map(({ place }) => place),
    expected,
    `${variable}, the order of admission`,
  );
}
