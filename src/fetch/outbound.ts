import { HeadgateError } from '../common/errors.js';
import type { Decision } from '../common/decision.js';
import { sparingly } from '../common/memo.js';
import type { Cost } from '../contract/costs.js';
import { ofLimiter, type LimiterDecision } from '../limiter/decision.js';
import type { Limiter } from '../limiter/limiter.js';
import { readAnswer, type Field, type Quota } from './answer.js';
import { denialOf } from './denial.js';
import { Margins } from './margin.js';
import { MARGIN, type Partner } from './pacing.js';
import { MAX_KEYS, Pauses, type Pause } from './pauses.js';

/** A call, as the options `key` and `cost` receive it. */
export interface OutboundRequest {
  /** The complete address. */
  readonly url: string;
  /** The method in upper case. */
  readonly method: string;
  /** The header fields. */
  readonly headers: Headers;
}

/** The parts of a partner's answer that concern the limits. */
export interface PartnerAnswer {
  readonly status: number;
  /** Reads a header field. */
  readonly field: Field;
  /** The wait that the option `denied` found, ms. */
  readonly askedMs?: number | undefined;
}

/** Statistics of the calls of this process so far. */
export interface OutboundStats {
  /** Calls that were admitted, including retries. */
  readonly calls: number;
  /** Calls that were sent again. */
  readonly retries: number;
  /** Denials by the partner. */
  readonly violations: number;
  /** Pauses begun by this process. */
  readonly pauses: number;
}

/** The minimum time between two comparisons with the partner's quota, ms, long enough for other processes to see the charge. */
const COMPARE_INTERVAL_MS = 1000;
/** The fraction of the margin by which a call may be late without giving up turns, and the maximum number of turns per call. */
const LATE_FRACTION = 4 / 5;
const MAX_TURNS_GIVEN_UP = 5;
/** The longest turn, ms, at which calls over cold connections, which may arrive late, give up a turn each. */
const MAX_COLD_TURN_MS = 100;

/** Sends calls when both the limiter and the partner allow it. */
export class Outbound {
  readonly stats = { calls: 0, retries: 0, violations: 0, pauses: 0 };
  readonly limiter: Limiter;
  readonly #partners: readonly Partner[];
  readonly #pauses: Pauses;
  readonly #learn: boolean;
  /** `undefined` if the margin is not learnt. */
  readonly #margins: Margins | undefined;
  /** By key, the time of the last comparison with the partner's quota. */
  readonly #isDue = sparingly(MAX_KEYS, COMPARE_INTERVAL_MS);
  /** The times at which the calls that the store admitted may go out. */
  readonly #due = new WeakMap<Decision, number>();

  constructor(
    limiter: Limiter,
    partners: readonly Partner[],
    options: {
      maxPause: number;
      learn: boolean;
      margin: number | undefined;
      onPause: ((pause: Pause) => void) | undefined;
    },
  ) {
    this.limiter = limiter;
    this.#partners = partners;
    const { maxPause, onPause } = options;
    const areSpaced = partners.some(({ isPaced }) => isPaced);
    this.#pauses = new Pauses(limiter, { maxPause, onPause, areSpaced, stats: this.stats });
    this.#learn = options.learn;
    if (options.margin !== undefined)
      this.#margins = new Margins(limiter, options.margin, partners, (key, name, units) =>
        this.#charge(key, name, units),
      );
  }

  /**
   * Waits until a call may go out, and charges it.
   *
   * @param deadline by the clock of `performance`, or Infinity
   * @throws as `limiter.wait`
   */
  async admit(
    key: string,
    cost: Cost,
    deadline: number,
    signal: AbortSignal | undefined,
    priority: number,
  ): Promise<Decision> {
    const { tiers, internals } = this.limiter;
    return internals.waits.reported(tiers.of(undefined), key, cost, signal, () =>
      this.#admit(key, cost, deadline, signal, priority),
    );
  }

  async #admit(
    key: string,
    cost: Cost,
    deadline: number,
    signal: AbortSignal | undefined,
    priority: number,
  ): Promise<LimiterDecision> {
    const { waits } = this.limiter.internals;
    for (let hasRestarted = false; ;) {
      const left = deadline - performance.now();
      const options = {
        cost,
        priority,
        ...(left !== Infinity && { timeout: Math.max(1, Math.ceil(left)) }),
        ...(signal && { signal }),
      };
      const decision = await waits.enqueue(key, options, false);
      let pause: number;
      try {
        pause = await this.#pauses.left(key, decision);
      } catch (error) {
        await decision.cancel();
        throw error;
      }
      if (pause <= 0 && !hasRestarted) {
        pause = this.#pauses.restart(key);
        hasRestarted = true;
      }
      if (pause <= 0 && !signal?.aborted) {
        this.stats.calls++;
        this.#goesOut(key, performance.now() - (this.#due.get(decision) ?? Infinity));
        return decision;
      }
      // The reserved turn becomes free. The line forms again after the pause.
      await decision.cancel();
      signal?.throwIfAborted();
      if (performance.now() + pause > deadline) throw tooLong(key, pause, decision);
      await waits.sleep(pause, signal);
    }
  }

  /** Reads the store's statement about pauses from a decision. */
  see(decision: Decision): void {
    if (!decision.degraded) this.#due.set(decision, this.limiter.internals.asking.turns.of(decision));
    this.#pauses.see(decision);
  }

  /**
   * Learns from the partner's answer.
   *
   * @param askedMs the wait that the option `denied` found, ms, or `undefined` if the status and the fields decide
   * @returns the wait before the call is sent again, ms, or `undefined` if the call was not denied
   */
  learn(key: string, { status, field, askedMs }: PartnerAnswer, decision: Decision): number | undefined {
    const answer = readAnswer(field);
    const { quotas } = answer;
    const denial = askedMs === undefined ? denialOf(status, answer) : { ms: askedMs };
    if (denial) {
      if (status === 429) {
        this.stats.violations++;
        // Answers to calls from before the pause contain no news.
        const isNews = !this.#pauses.isOn(key);
        const pauseMs = this.#pauses.turnedAway(key, status, denial);
        if (isNews) this.#margins?.widenAfter(key, pauseMs);
        return pauseMs;
      }
      return this.#pauses.turnedAway(key, status, denial);
    }
    this.#pauses.answered(key);
    void this.#margins?.narrow(key, decision);
    if (!this.#learn) return undefined;
    for (const quota of quotas) {
      const partner = this.#partnerOf(quota);
      if (partner) void this.#compare(key, partner, quota, decision);
      else if (quota.remaining === 0 && quota.resetMs) this.#pauses.begin(key, quota.resetMs, status);
    }
    return undefined;
  }

  /**
   * Gives up turns for a late call, or for a call over a cold connection, because such a call arrives closer to the calls one window later.
   * The margin compensates for a part.
   */
  #goesOut(key: string, ms: number): void {
    const isCold = this.#pauses.goesOut(key);
    for (const { name, limit, windowMs, isPaced } of this.#partners) {
      if (!isPaced) continue;
      const late = Math.max(0, ms - LATE_FRACTION * MARGIN * windowMs);
      const turns = Math.min(MAX_TURNS_GIVEN_UP, Math.ceil((late * limit) / windowMs));
      const least = isCold && windowMs / limit <= MAX_COLD_TURN_MS ? 1 : 0;
      for (let i = 0; i < Math.max(turns, least); i++) void this.#charge(key, name, 1).catch(() => {});
    }
  }

  /** Charges a single policy. */
  async #charge(key: string, name: string, units: number): Promise<void> {
    const none = Object.fromEntries(this.limiter.policies.map((each) => [each.name, 0]));
    await this.limiter.consume(key, { cost: { ...none, [name]: units } });
  }

  #partnerOf({ limit, windowMs }: Quota): Partner | undefined {
    return this.#partners.find(
      (each) => each.limit === limit && (windowMs === undefined || each.windowMs === windowMs),
    );
  }

  /** Charges the difference in every process if the partner has fewer units left than the store. */
  async #compare(
    key: string,
    { name, isPaced }: Partner,
    { remaining }: Quota,
    decision: Decision,
  ): Promise<void> {
    const ours = verdictOf(decision, name);
    // The store also counts calls under way, which the partner does not yet. So the store should not have more units than the partner.
    if (isPaced || remaining === undefined || !ours || ours.remaining <= remaining) return;
    if (!this.#isDue(key)) return;
    try {
      const left = verdictOf(await this.limiter.peek(key), name)?.remaining ?? 0;
      if (left <= remaining) return;
      await this.#charge(key, name, left - remaining);
    } catch {
      // The next answer reports the quota again.
    }
  }
}

function verdictOf({ policies }: Decision, name: string): Decision['policies'][number] | undefined {
  return policies.find((each) => each.name === name);
}

function tooLong(key: string, pause: number, decision: Decision): HeadgateError {
  const message = `'${key}' is paused for another ${Math.ceil(pause)} ms at the server's request. Nothing was sent.`;
  const denial = ofLimiter(decision).deniedFor('banned', Math.ceil(pause));
  return new HeadgateError('HEADGATE_WAIT_TIMEOUT', message, { decision: denial });
}
