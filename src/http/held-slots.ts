import { warnOfBackground } from '../common/background.js';
import { MAX_TIMER_MS } from '../common/timing.js';
import type { LimiterDecision } from '../limiter/decision.js';
import type { PolicySet } from '../contract/store.js';
import type { ResponseEnd } from './response-end.js';

/** The shortest lease of a set's concurrency policies, ms, or 0 if the set has no such policies. */
export function shortestLease({ policies }: PolicySet): number {
  let least = 0;
  for (const { traits, window } of policies) {
    if (traits.holdsSlots && (least === 0 || window < least)) least = window;
  }
  return least;
}

/**
 * Renews the slots of a response until the response ends, so that a response may take longer than the lease. After `longest` ms the renewal
 * stops, and the slots expire with their lease.
 *
 * @returns a function that stops the renewal
 */
export function renewSlots(
  decision: LimiterDecision,
  ending: Pick<ResponseEnd<unknown>, 'look'>,
  longest: number,
): () => void {
  const lease = shortestLease(decision.set);
  if (lease === 0) return () => {};
  const until = performance.now() + longest;
  const stop = (): void => clearInterval(timer);
  const renew = (): void => {
    if (ending.look()) return;
    if (performance.now() > until) return stop();
    decision.renew().then(
      (held) => {
        if (!held) stop();
      },
      // The next renewal may still be in time.
      (error: unknown) => warnOfBackground('The slot of a response was not renewed', error),
    );
  };
  const timer = setInterval(renew, Math.min(Math.ceil(lease / 3), MAX_TIMER_MS)).unref();
  return stop;
}
