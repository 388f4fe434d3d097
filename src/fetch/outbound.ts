import { inBackground, warnOfBackground } from '../common/background.js';
import { HeadgateError } from '../common/errors.js';
import type { Decision } from '../common/decision.js';
import { sparingly } from '../common/memo.js';
import { costAt, costsOf, type Cost, type Costs } from '../contract/costs.js';
import { ofLimiter, type LimiterDecision } from '../limiter/decision.js';
import type { Limiter } from '../limiter/limiter.js';
import { MAX_PRIORITY } from '../limiter/options.js';
import { requestOf } from '../limiter/request.js';
import { readAnswer, type Field, type PartnerQuota } from './answer.js';
import { denialOf } from './denial.js';
import { Margins } from './margin.js';
import { MARGIN, MAX_AHEAD_MS, type Partner } from './pacing.js';
import { COLD_MS, MAX_KEYS, Pauses, type Pause } from './pauses.js';

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
  readonly field: Field;
  /** The wait that the option `denied` found, ms. */
  readonly askedMs?: number | undefined;
}

/** A call that waits until it may go out. */
export interface OutboundCall {
  readonly key: string;
  readonly cost: Cost;
  /** The latest moment, by the clock of `performance`, or Infinity. */
  readonly deadline: number;
  readonly signal: AbortSignal | undefined;
  readonly priority: number;
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
/** The fraction of the margin by which a call may be late at its turn. The rest is for the delay until its arrival. */
export const LATE_FRACTION = 3 / 8;
/** The most turns that a call gives up because it goes out late. */
export const MAX_TURNS_GIVEN_UP = 5;
/** The most turns that a call loses because this process is busy. A process that is always busy must go on. */
const MAX_TURNS_LOST = 3;
/** The longest turn, ms, at which a first call over cold connections is sent alone. At longer turns, its delay does not matter. */
const MAX_COLD_TURN_MS = 100;

/** Sends calls when both the limiter and the partner allow it. */
export class Outbound {
  readonly stats = { calls: 0, retries: 0, violations: 0, pauses: 0 };
  readonly limiter: Limiter;
  readonly #partners: readonly Partner[];
  /** The limits whose turns are so short that the delay of a first call matters. */
  readonly #tight: readonly Partner[];
  readonly #pauses: Pauses;
  readonly #learn: boolean;
  /** `undefined` if the margin is not learnt. */
  readonly #margins: Margins | undefined;
  /** By key, the time of the last comparison with the partner's quota. */
  readonly #isDue = sparingly(MAX_KEYS, COMPARE_INTERVAL_MS);

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
    this.#tight = partners.filter(
      ({ isPaced, limit, windowMs }) => isPaced && windowMs / limit <= MAX_COLD_TURN_MS,
    );
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
   * @throws HeadgateError `HEADGATE_INVALID_COST` for a larger cost than those by which calls are spaced; otherwise as `limiter.wait`
   */
  async admit(call: OutboundCall): Promise<Decision> {
    checkSpaced(costsOf(call.cost, this.limiter.set.policies), this.#partners);
    const { tiers, internals } = this.limiter;
    const request = { ...requestOf(call.key, call.cost, tiers.of(undefined)), ...call };
    return internals.waits.reported(request, () => this.#admit(call));
  }

  async #admit({ key, cost, deadline, signal, priority }: OutboundCall): Promise<LimiterDecision> {
    const { waits, decider } = this.limiter.internals;
    let lostAt: number | undefined;
    for (let hasRestarted = false, lost = 0; ;) {
      const isFirst = await this.#warmUp(key, deadline, signal);
      const left = deadline - performance.now();
      const options = {
        cost,
        priority: lostAt === undefined ? priority : MAX_PRIORITY,
        ...(left !== Infinity && { timeout: Math.max(1, Math.ceil(left)) }),
        ...(signal && { signal }),
      };
      const enqueued = waits.enqueue(key, options, { isReported: false, lostAt });
      if (isFirst) this.#giveUp(key, this.#tight, MAX_TURNS_GIVEN_UP);
      const decision = await enqueued;
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
      const turn = decider.turns.of(decision);
      const lateMs = performance.now() - turn;
      // A first call has given up turns.
      const isMissed: boolean = !isFirst && lost < MAX_TURNS_LOST && this.#isMissed(lateMs, deadline);
      if (isMissed) [lostAt, lost] = [turn, lost + 1];
      if (pause <= 0 && !isMissed && !signal?.aborted) {
        this.stats.calls++;
        this.#goesOut(key, lateMs);
        return decision;
      }
      // During a pause, reserved turns become free. The line forms again after the pause.
      await (pause > 0 ? decision.cancel() : this.#loseTurn(decision));
      signal?.throwIfAborted();
      if (pause <= 0) continue;
      if (performance.now() + pause > deadline) throw tooLong(key, pause, decision);
      await waits.sleep(pause, signal);
    }
  }

  /**
   * Lets the first call over cold connections go out alone. Turns are reserved at the store up to two seconds ahead, so if calls were
   * reserved behind a late call at once, the call of one window later could not be moved any more.
   *
   * @returns whether the call is the first
   */
  async #warmUp(key: string, deadline: number, signal: AbortSignal | undefined): Promise<boolean> {
    if (this.#tight.length === 0 || this.#pauses.isOn(key)) return false;
    if (this.#pauses.isFirst(key)) return true;
    const warming = this.#pauses.warming(key);
    const left = Math.min(COLD_MS, deadline - performance.now());
    if (warming && left > 0) await Promise.race([warming, this.limiter.internals.waits.sleep(left, signal)]);
    return false;
  }

  /** Ends a call. If the store cannot release a slot now, the slot expires by itself. */
  async end(key: string, decision: Decision): Promise<void> {
    this.#pauses.ended(key);
    await inBackground('A slot was not given back', decision.release());
  }

  /**
   * Ends an admission whose turn is over. Other calls have the turns behind it, so if this one were returned, the next call would get a turn at
   * the same time as the last of them.
   */
  async #loseTurn(decision: LimiterDecision): Promise<void> {
    const others = this.#partners.filter(({ isPaced }) => !isPaced).map(({ name }) => [name, 0]);
    if (others.length > 0) await decision.settle(Object.fromEntries(others) as Cost);
    await decision.release();
  }

  /** Charges turns without a call. */
  #giveUp(key: string, partners: readonly Partner[], turns: number): void {
    for (const { name } of partners)
      for (let i = 0; i < turns; i++)
        void inBackground('A turn that a call gave up was not charged', this.#charge(key, name, 1));
  }

  /** Reads the store's statement about pauses from a decision. */
  see(decision: Decision): void {
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

  /** Whether a call is too late for its turn, because this process was busy, and has the time to wait for another turn. */
  #isMissed(lateMs: number, deadline: number): boolean {
    return (
      performance.now() + 2 * MAX_AHEAD_MS < deadline &&
      this.#partners.some((each) => tooLate(each, lateMs) > 0)
    );
  }

  /** Gives up turns for a late call, because such a call arrives closer to the calls one window later. The margin compensates for a part. */
  #goesOut(key: string, ms: number): void {
    this.#pauses.goesOut(key);
    for (const partner of this.#partners) {
      const turns = Math.ceil((tooLate(partner, ms) * partner.limit) / partner.windowMs);
      this.#giveUp(key, [partner], Math.min(MAX_TURNS_GIVEN_UP, turns));
    }
  }

  async #charge(key: string, name: string, units: number): Promise<void> {
    const none = Object.fromEntries(this.limiter.policies.map((each) => [each.name, 0]));
    await this.limiter.consume(key, { cost: { ...none, [name]: units } });
  }

  #partnerOf({ limit, windowMs }: PartnerQuota): Partner | undefined {
    return this.#partners.find(
      (each) => each.limit === limit && (windowMs === undefined || each.windowMs === windowMs),
    );
  }

  /** Charges the difference in every process if the partner has fewer units left than the store. */
  async #compare(
    key: string,
    { name, isPaced }: Partner,
    { remaining }: PartnerQuota,
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
    } catch (error) {
      warnOfBackground('The difference to the server was not charged', error);
      // The next answer reports the quota again.
    }
  }
}

/** The time by which a late call exceeds the allowed part of the margin, ms. */
function tooLate({ windowMs, isPaced }: Partner, lateMs: number): number {
  return isPaced ? Math.max(0, lateMs - LATE_FRACTION * MARGIN * windowMs) : 0;
}

function verdictOf({ policies }: Decision, name: string): Decision['policies'][number] | undefined {
  return policies.find((each) => each.name === name);
}

function tooLong(key: string, pause: number, decision: Decision): HeadgateError {
  const message = `'${key}' is paused for another ${Math.ceil(pause)} ms at the server's request. Nothing was sent.`;
  const denial = ofLimiter(decision).deniedFor('banned', Math.ceil(pause));
  return new HeadgateError('HEADGATE_WAIT_TIMEOUT', message, { decision: denial });
}

/** Refuses a cost that spaced calls never have, instead of a denial that no wait ends. @throws HeadgateError `HEADGATE_INVALID_COST` */
function checkSpaced(costs: Costs, partners: readonly Partner[]): void {
  for (const [i, { name, most }] of partners.entries()) {
    const units = costAt(costs, i);
    if (most === undefined || units <= most) continue;
    const why = `The policy '${name}' spaces calls that cost ${most} each, as the option \`cost\` of limitFetch says.`;
    const fix = 'If costs differ, pass a function as `cost`, or choose an algorithm, such as token-bucket.';
    throw new HeadgateError('HEADGATE_INVALID_COST', `cost: ${units} is never admitted. ${why} ${fix}`);
  }
}
