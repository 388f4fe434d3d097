import { holdsSlots, type PolicySet } from '../../contract/store.js';
import type { LimiterDecision } from '../decision.js';

/** The first sleep, ms, if the time of the next question cannot be predicted. */
const FIRST_POLL_MS = 10;
/** The longest sleep, ms, because another process may end a ban or give units back meanwhile. */
const LAST_POLL_MS = 1000;

/**
 * Once the store has denied, a process asks at most every `PAUSE_MS`, and for so few units that the process would take a whole quota in
 * this part of its window, or in a second. So a process far from the store gets about as much as a process nearby.
 */
const PAUSE_MS = 20;
const PART_OF_WINDOW = 1 / 5;

/**
 * Processes that wait for the same quota vary their sleeps, so that no process is always first: by at most half of the sleep, and at most
 * by this time, ms. Where turns are reserved ahead, sleeps vary by this part of the time ahead, so that freed turns share a call.
 */
const MAX_SPREAD_MS = 5;
const SPREAD_AHEAD = 3 / 10;

/** The expected duration of a denial. */
export interface Delay {
  /** The least duration, ms. Undefined for a cost above a capacity, which is denied forever. */
  readonly leastMs: number | undefined;
  /** The sleep before the next question, ms. */
  readonly sleepMs: number;
  /** The least sleep of a process with competitors for the quota, ms. */
  readonly pauseMs: number;
  /** The furthest turn that the denying policy gives, ms ahead. */
  readonly aheadMs: number;
}

/**
 * The sleeping policy of a line: the time of the next question to the store, and the most units in the question. All times are by the
 * room's clock.
 */
export class AskSchedule {
  /** Whether requests of other processes may wait for the same keys. */
  readonly #hasPeers: boolean;
  #denial: LimiterDecision | undefined;
  /** The time before which the store must not be asked again. */
  #notBefore = 0;
  /** The end of the denial if no unit is given back, or 0 if there is no denial. */
  #deniedUntil = 0;
  /** The next sleep, ms, if the time of the next question cannot be predicted. */
  #pollMs = FIRST_POLL_MS;
  /** The most units in one question. Bounded once the store has denied. */
  #most = Infinity;
  /** Whether a denial was about a set with slots, so that a question is for slots that are known to be free, or for one. */
  #isOfSlots = false;
  /** The remaining units by the store's last answer. */
  #left = 0;
  /** The time until the turn of the last admitted waiter, ms. */
  #turnMs = 0;
  /** The time until a slot is expected for this process after an admission that took the last slot, ms. */
  #slotMs = 0;

  constructor(hasPeers: boolean) {
    this.#hasPeers = hasPeers;
  }

  get denial(): LimiterDecision | undefined {
    return this.#denial;
  }

  /** Whether a denial is in force, so that the store is asked only whether units were given back. */
  get isDenied(): boolean {
    return this.#deniedUntil > 0;
  }

  /** The time until the next question, ms. Not above 0 if the store may be asked now. */
  sleepMs(now: number): number {
    return this.#notBefore - now;
  }

  sleep(ms: number, now: number): void {
    this.#notBefore = now + ms;
  }

  /** Ends a sleep early: the next question is not delayed, and charges if it admits. */
  wake(): void {
    this.#notBefore = this.#deniedUntil = 0;
  }

  awake(): void {
    if (this.#deniedUntil < this.#notBefore + 1) this.#deniedUntil = 0;
    this.#notBefore = 0;
  }

  /** Begins the growing sleeps anew, because a waiter has left the line. */
  resetPoll(): void {
    this.#pollMs = FIRST_POLL_MS;
  }

  /**
   * Whether units may be added to a question. A smaller cost might be admitted although an earlier, larger cost is denied. So the smaller
   * cost has to be asked later, unless the store has units for all costs.
   *
   * @param isReturned whether this process gave units back since the last question that no earlier waiter of the question asks for
   */
  hasUnits(sum: number, isLess: boolean, isReturned: boolean): boolean {
    const isFree = !this.#isOfSlots || isReturned || sum <= Math.max(1, this.#left);
    return isFree && sum <= this.#most && (sum <= this.#left || !isLess);
  }

  /**
   * Records a denial.
   *
   * @param holdMs the time for which this process usually holds a slot, ms
   * @param isCrowded whether further tenants of the process wait, whose turn may come first
   */
  deny(decision: LimiterDecision, holdMs?: number, isCrowded = false): Delay {
    const pauseMs = this.#denial ? PAUSE_MS : 1;
    this.#denial = decision;
    return { ...delayOf(decision, this.#pollMs, holdMs, isCrowded), pauseMs, aheadMs: aheadOf(decision) };
  }

  /** @returns the sleep after the denial of a waiter that goes on waiting, ms @param asked the time of the question */
  sleepAfterDenial(
    decision: LimiterDecision,
    { leastMs = 0, sleepMs, pauseMs, aheadMs }: Delay,
    asked: number,
    now: number,
  ): number {
    this.#pollMs = Math.min(2 * this.#pollMs, LAST_POLL_MS);
    this.#left = 0;
    this.#most = mostOf(decision.set);
    this.#isOfSlots = holdsSlots(decision.set);
    this.#deniedUntil = asked + leastMs;
    if (!this.#hasPeers) return sleepMs;
    const spread = Math.max(Math.min(sleepMs / 2, MAX_SPREAD_MS), SPREAD_AHEAD * aheadMs);
    // The store's time began after the question, and the next question takes as long to arrive.
    const time = asked - now + Math.max(pauseMs, sleepMs + spread * Math.random());
    return Math.max(1, Math.min(time, LAST_POLL_MS));
  }

  admit(decision: LimiterDecision, holdMs: number | undefined): void {
    const { remaining, delayMs } = decision;
    this.#left = remaining;
    this.#slotMs = remaining === 0 ? slotMs(decision, holdMs, undefined) : 0;
    this.#turnMs = delayMs;
    this.#deniedUntil = 0;
  }

  /** @returns the sleep after a question that was not denied, ms @param asked the time of the question */
  sleepAfterAdmission(asked: number, now: number): number {
    if (!this.#hasPeers || (!this.#denial && this.#slotMs === 0)) return 0;
    // Each release of this process would delay a later question for the slots of other processes again.
    if (this.#isOfSlots && this.#left > 0) return 0;
    // The process must ask again before its turns are used up, because a question is only for a part of the turns ahead.
    const ahead = this.#denial ? SPREAD_AHEAD * aheadOf(this.#denial) : 0;
    const spread = Math.min(ahead, this.#turnMs / 2);
    return Math.max(1, asked + Math.max(PAUSE_MS, this.#slotMs, spread * Math.random()) - now);
  }

  /** @returns the sleep after a look that found no units, ms, or 0 if the denial has ended */
  sleepAfterLook(now: number): number {
    const left = this.#deniedUntil - now;
    return left > 0 ? Math.min(LAST_POLL_MS, left) : 0;
  }

  endDenial(): void {
    this.#deniedUntil = 0;
  }
}

/** The most units in one question after a denial: see {@link PART_OF_WINDOW}. The line of processes divides slots. */
function mostOf({ policies }: PolicySet): number {
  let most = Infinity;
  for (const { limit, window, shadow, traits } of policies) {
    if (shadow || traits.holdsSlots) continue;
    most = Math.min(most, Math.ceil((limit * PAUSE_MS) / Math.min(PART_OF_WINDOW * window, 1000)));
  }
  return most;
}

function aheadOf({ set, policy: decider }: LimiterDecision): number {
  return set.policies.find(({ name }) => name === decider)?.traits.aheadMs ?? 0;
}

/**
 * The duration of a denial, and the sleep before the next question. The release of a concurrency slot, the recovery of a store, or new room
 * in it cannot be predicted, so the sleeps grow.
 */
function delayOf(
  decision: LimiterDecision,
  pollMs: number,
  holdMs: number | undefined,
  isCrowded: boolean,
): Pick<Delay, 'leastMs' | 'sleepMs'> {
  const { reason, retryAfterMs: waitMs } = decision;
  if (waitMs === undefined) return { leastMs: undefined, sleepMs: 0 };
  if (reason === 'store-error' || reason === 'store-full' || reason === 'process-late')
    return { leastMs: 0, sleepMs: pollMs };
  const { policies } = decision.set;
  let leastMs = 0;
  let slots = 0;
  decision.policies.forEach(({ allowed, retryAfterMs = 0 }, i) => {
    const { traits, shadow } = policies[i]!;
    if (allowed || shadow) return;
    if (traits.holdsSlots)
      slots = Math.max(slots, slotMs(decision, holdMs, retryAfterMs, isCrowded) || pollMs);
    else leastMs = Math.max(leastMs, retryAfterMs);
  });
  if (reason === 'banned') leastMs = waitMs;
  return { leastMs, sleepMs: Math.max(leastMs, Math.min(slots, waitMs), 1) };
}

/** The place of a process whose turn is next. */
const FIRST = { before: 0, turns: 0, isAhead: false };

/**
 * The time until a slot is expected for this process, ms, if further processes wait for slots, too. Otherwise 0.
 *
 * @param holdMs the time for which this process usually holds a slot, ms
 * @param endsMs the time until the lease of the oldest slot ends, ms
 */
function slotMs(
  { reply: { standing }, set: { policies } }: LimiterDecision,
  holdMs?: number,
  endsMs?: number,
  isCrowded = false,
): number {
  const slots = policies.find(({ traits, shadow }) => traits.holdsSlots && !shadow);
  if (!slots || holdMs === undefined || (!standing && slots.share === undefined)) return 0;
  // Other tenants may wait, which are not in the line of this tenant's processes.
  const { before, turns, isAhead } = standing && !isCrowded ? standing : FIRST;
  const gapMs = holdMs / slots.limit;
  const leftMs = isAhead || endsMs === undefined ? gapMs : holdMs - (slots.window - endsMs);
  const next = leftMs > 0 ? leftMs + 2 : gapMs;
  return Math.min(Math.max(next + (turns + 3 * before) * gapMs, FIRST_POLL_MS), LAST_POLL_MS);
}
