import { HeadgateError } from '../common/errors.js';
import type { Decision } from '../common/decision.js';
import type { Cost } from '../contract/costs.js';
import { ofLimiter } from '../limiter/decision.js';
import type { Limiter } from '../limiter/limiter.js';
import { readAnswer, type Field, type Quota } from './answer.js';
import { denialOf } from './denial.js';
import { Margins } from './margin.js';
import { MARGIN, type Partner } from './pacing.js';
import { MOST_KEYS, Pauses, type Pause } from './pauses.js';

/** A call, as the options `key` and `cost` see it. */
export interface OutboundRequest {
  /** The whole address. */
  readonly url: string;
  /** In upper case. */
  readonly method: string;
  /** The header fields. */
  readonly headers: Headers;
}

/** An answer of the partner, as far as the limits are concerned. */
export interface PartnerAnswer {
  readonly status: number;
  /** Reads a header field. */
  readonly field: Field;
  /** The wait that the option `denied` found, ms. */
  readonly askedMs?: number | undefined;
}

/** What happened to the calls of this process so far. */
export interface OutboundStats {
  /** Calls that were admitted, retries included. */
  readonly calls: number;
  /** Calls that were sent again. */
  readonly retries: number;
  /** Answers that said that a limit was exceeded (429). */
  readonly violations: number;
  /** Pauses that this process began. */
  readonly pauses: number;
}

/** A process compares what is left at most this often, ms, so that others have time to see what it charged. */
const COMPARE = 1000;
/** The part of the margin by which a call may be late before turns are given up for it, and the most turns. */
const LATE_PART = 4 / 5;
const MOST_GIVEN_UP = 5;
/** Calls that may arrive late because connections are cold give up a turn each, if a turn is as short as this, ms. */
const COLD_TURN = 100;

/** Lets calls go out when the limiter and the partner allow it. */
export class Outbound {
  readonly stats = { calls: 0, retries: 0, violations: 0, pauses: 0 };
  readonly limiter: Limiter;
  readonly #partners: readonly Partner[];
  readonly #pauses: Pauses;
  readonly #learn: boolean;
  /** `undefined` if the margin is not learnt. */
  readonly #margins: Margins | undefined;
  /** By key: when a quota was last compared with the partner's. */
  readonly #compared = new Map<string, number>();
  /** When the calls that were decided by the store may go out. */
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
    for (let hasRestarted = false; ;) {
      const left = deadline - performance.now();
      const decision = await this.limiter.internals.waits.enqueue(key, {
        cost,
        priority,
        ...(left !== Infinity && { timeout: Math.max(1, Math.ceil(left)) }),
        ...(signal && { signal }),
      });
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
      // What was reserved is free for others. The line forms anew after the pause.
      await decision.cancel();
      signal?.throwIfAborted();
      if (performance.now() + pause > deadline) throw tooLong(key, pause, decision);
      await this.limiter.internals.waits.sleep(pause, signal);
    }
  }

  /** Notes what the store said. */
  see(decision: Decision): void {
    if (!decision.degraded) this.#due.set(decision, this.limiter.internals.asking.turns.of(decision));
    this.#pauses.see(decision);
  }

  /**
   * Learns from the partner's answer.
   *
   * @param askedMs the wait that the option `denied` found, ms; `undefined` if the status and the fields decide
   * @returns how long the call has to wait before it is sent again, ms; `undefined` if it was not denied
   */
  learn(key: string, { status, field, askedMs }: PartnerAnswer, decision: Decision): number | undefined {
    const answer = readAnswer(field);
    const { quotas } = answer;
    const denial = askedMs === undefined ? denialOf(status, answer) : { ms: askedMs };
    if (denial) {
      if (status === 429) {
        this.stats.violations++;
        // Calls that were under way when a pause began tell nothing new.
        const isNews = !this.#pauses.isOn(key);
        const pauseMs = this.#pauses.turnedAway(key, status, denial.ms);
        if (isNews) this.#margins?.widenAfter(key, pauseMs);
        return pauseMs;
      }
      return this.#pauses.turnedAway(key, status, denial.ms);
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
   * A call that goes out late, or over a cold connection, is nearer to those a window later. So as many of their turns are given up, as far
   * as the margin does not make up for it.
   */
  #goesOut(key: string, ms: number): void {
    const isCold = this.#pauses.goesOut(key);
    for (const { name, limit, windowMs, isPaced } of this.#partners) {
      if (!isPaced) continue;
      const late = Math.max(0, ms - LATE_PART * MARGIN * windowMs);
      const turns = Math.min(MOST_GIVEN_UP, Math.ceil((late * limit) / windowMs));
      const least = isCold && windowMs / limit <= COLD_TURN ? 1 : 0;
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

  /** If the partner has fewer units left than the store thinks, charges the difference in every process. */
  async #compare(
    key: string,
    { name, isPaced }: Partner,
    { remaining }: Quota,
    decision: Decision,
  ): Promise<void> {
    const now = performance.now();
    const ours = verdictOf(decision, name);
    // Calls under way are counted by us, and not yet by the partner. So ours has no reason to be more.
    if (isPaced || remaining === undefined || !ours || ours.remaining <= remaining) return;
    if ((this.#compared.get(key) ?? -Infinity) > now - COMPARE) return;
    if (this.#compared.size >= MOST_KEYS) this.#compared.clear();
    this.#compared.set(key, now);
    try {
      const left = verdictOf(await this.limiter.peek(key), name)?.remaining ?? 0;
      if (left <= remaining) return;
      await this.#charge(key, name, left - remaining);
    } catch {
      // The next answer tells it again.
    }
  }
}

function verdictOf({ policies }: Decision, name: string): Decision['policies'][number] | undefined {
  return policies.find((each) => each.name === name);
}

function tooLong(key: string, pause: number, decision: Decision): HeadgateError {
  const message = `'${key}' pauses for ${Math.ceil(pause)} ms more, because the partner asked for it. Nothing was sent.`;
  const denial = ofLimiter(decision).deniedFor('banned', Math.ceil(pause));
  return new HeadgateError('HEADGATE_WAIT_TIMEOUT', message, { decision: denial });
}
