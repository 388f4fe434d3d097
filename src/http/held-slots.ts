import { warnOfBackground } from '../common/background.js';
import { MAX_TIMER_MS } from '../common/timing.js';
import type { LimiterDecision } from '../limiter/decision.js';
import type { PolicySet } from '../contract/store.js';
import type { ResponseEnd } from './response-end.js';

/** The renewals of slots in each lease, and the attempts in each lease after a renewal that failed. */
const RENEWALS = 3;
const ATTEMPTS = 12;

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
  const renewal = new Renewal(decision, ending, lease, longest);
  return () => renewal.stop();
}

class Renewal {
  readonly #decision: LimiterDecision;
  readonly #ending: Pick<ResponseEnd<unknown>, 'look'>;
  readonly #lease: number;
  readonly #until: number;
  #timer: NodeJS.Timeout | undefined;
  #renewals = 0;
  #isRenewing = false;
  #hasFailed = false;
  /** The time at which the slots were certainly held, ms. */
  #heldAt = performance.now();

  constructor(
    decision: LimiterDecision,
    ending: Pick<ResponseEnd<unknown>, 'look'>,
    lease: number,
    longest: number,
  ) {
    this.#decision = decision;
    this.#ending = ending;
    this.#lease = lease;
    this.#until = performance.now() + longest;
    this.#start(RENEWALS);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #start(renewals: number): void {
    this.#renewals = renewals;
    const ms = Math.min(Math.ceil(this.#lease / renewals), MAX_TIMER_MS);
    this.#timer = setInterval(() => void this.#renew(), ms).unref();
  }

  async #renew(): Promise<void> {
    if (this.#ending.look() || this.#isRenewing) return;
    const asked = performance.now();
    if (asked > this.#until) return this.stop();
    this.#isRenewing = true;
    try {
      const held =
        (await this.#decision.renew()) || (this.#mayHaveEnded() ? await this.#decision.hold() : undefined);
      // An operator has reset the key.
      if (held === undefined) return this.stop();
      if (held) this.#heldAt = asked;
      this.#hasFailed = !held;
    } catch (error) {
      this.#hasFailed = true;
      warnOfBackground('The slot of a response was not renewed', error);
    } finally {
      this.#isRenewing = false;
    }
    const renewals = this.#hasFailed ? ATTEMPTS : RENEWALS;
    if (this.#timer === undefined || renewals === this.#renewals) return;
    this.stop();
    this.#start(renewals);
  }

  /** Whether slots that are not held were lost in an outage, or because this process was busy or the store was slow for a whole lease. */
  #mayHaveEnded(): boolean {
    return this.#hasFailed || performance.now() - this.#heldAt >= this.#lease;
  }
}
