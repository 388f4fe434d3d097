// The waits of denials that last beyond the end of an override which only the caller can apply.
import type { Reply } from '../../contract/reply.js';
import { isPromise, type MaybePromise, type PolicySet, type Query } from '../../contract/store.js';
import { admits, countOf, NEVER, nextWait, replaceWait, waitOf } from '../../contract/verdicts.js';
import type { LimiterDecision } from '../decision.js';

/** Repeats a query by the policies of an override; or looks, without a charge, at the policies that follow. */
export type Again = (
  changes: NonNullable<Reply['clientChanges']> | undefined,
  later?: PolicySet,
) => MaybePromise<LimiterDecision>;

/**
 * A reply whose denials that outlast an override have the wait until the policies behind the override admit, too. Undefined if there are no
 * such denials.
 */
export function acrossEnd(
  { set, again }: Query & { readonly again?: Again | undefined },
  reply: Reply,
): MaybePromise<Reply> | undefined {
  const { at: end, set: later } = set.overrides?.later ?? {};
  const { now, degraded } = reply;
  if (end === undefined || !later || !again || degraded !== undefined || end <= now) return undefined;
  const lasting = lastingWaits(set, reply.verdicts, end - now);
  if (lasting.length === 0) return undefined;
  const withWaitOf = (next: LimiterDecision): Reply => {
    if (next.degraded) return reply;
    const { retryAfterMs = NEVER } = next;
    // An admission may have no time of the store.
    const at = retryAfterMs === 0 ? end : Math.max(end, next.reply.now + retryAfterMs);
    const wait = retryAfterMs === NEVER ? NEVER : at - now;
    const replaced = (all: Reply['verdicts'], { i, isDenial }: Wait) =>
      replaceWait(all, i, isDenial ? wait : 0);
    return { ...reply, verdicts: lasting.reduce(replaced, reply.verdicts) };
  };
  const looked = again(undefined, later());
  return isPromise(looked) ? looked.then(withWaitOf) : withWaitOf(looked);
}

/** The time until the i-th policy admits the next request. A charged attempt that makes it wait was no denial. */
interface Wait {
  readonly i: number;
  readonly isDenial: boolean;
  readonly wait: number;
}

/**
 * The waits of at least `left` ms, after which the policies behind the override decide. The denials contain the time until these admit; if
 * only charged attempts last for so long, the longest denial.
 */
function lastingWaits({ policies }: PolicySet, verdicts: Reply['verdicts'], left: number): Wait[] {
  const waits = [...policies.keys()].slice(0, countOf(verdicts)).flatMap((i): Wait[] => {
    const { shadow, attempts } = policies[i]!;
    const wait = waitOf(verdicts, i);
    return shadow ? [] : [{ i, isDenial: !admits(wait), wait: nextWait(wait, attempts) }];
  });
  const lasting = waits.filter(({ wait }) => wait === NEVER || wait >= left);
  const denials = waits.filter(({ isDenial }) => isDenial);
  if (lasting.length === 0 || denials.length === 0) return [];
  if (lasting.some(({ isDenial }) => isDenial)) return lasting;
  return [denials.reduce((longest, each) => (each.wait > longest.wait ? each : longest)), ...lasting];
}
