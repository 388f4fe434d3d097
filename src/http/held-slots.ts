import type { LimiterDecision } from '../limiter/decision.js';
import type { PolicySet } from '../contract/store.js';
import type { Ending } from './ending.js';

/** The shortest lease of a set's concurrency policies, ms. 0 if there are none. */
export function shortestLease({ policies }: PolicySet): number {
  let least = 0;
  for (const { traits, window } of policies) {
    if (traits.holdsSlots && (least === 0 || window < least)) least = window;
  }
  return least;
}

/** Node fires timers with a longer delay immediately. */
const LONGEST_TIMER = 2 ** 31 - 1;

/**
 * Renews the slots of a response until it ends, so that it may take longer than their lease. After `longest` ms the renewing stops, and the
 * slots end with their lease.
 *
 * @returns a function that stops the renewing
 */
export function renewSlots(
  decision: LimiterDecision,
  ending: Pick<Ending<unknown>, 'look'>,
  longest: number,
): () => void {
  const lease = shortestLease(decision.set);
  if (lease === 0) return () => {};
  const until = performance.now() + longest;
  const stop = (): void => clearInterval(timer);
  const renew = (): void => {
    if (ending.look()) return;
    if (performance.now() > until) return stop();
    decision.renew().then((held) => {
      if (!held) stop();
    }, ignore);
  };
  const timer = setInterval(renew, Math.min(Math.ceil(lease / 3), LONGEST_TIMER)).unref();
  return stop;
}

/** Ignores errors while the store is away: the next renewal may still be in time. */
function ignore(): void {}
