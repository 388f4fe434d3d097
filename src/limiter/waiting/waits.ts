import type { Decision } from '../../common/decision.js';
import { toMilliseconds } from '../../common/duration.js';
import type { HeadgateError } from '../../common/errors.js';
import { realTiming } from '../../common/timing.js';
import { checkShape, checkSignal } from '../../common/validate.js';
import { costAt, type Cost } from '../../contract/costs.js';
import type { Gauges } from '../../contract/gauges.js';
import type { Key } from '../../contract/key.js';
import { idsOf } from '../../contract/parts.js';
import { checkWeight } from '../../contract/shares.js';
import type { PolicySet } from '../../contract/store.js';
import { isNothing, type Asking } from '../asking.js';
import { ofLimiter, type LimiterDecision } from '../decision.js';
import type { Lifetime } from '../lifetime.js';
import { reportWait } from '../observe.js';
import { checkPriority, type HoldOptions, type WaitOptions } from '../options.js';
import type { Setup } from '../setup.js';
import { HoldQueue, holdRequestOf } from './hold-queue.js';
import { patient } from './patient.js';
import { processNumber } from './process-line.js';
import { enter, leave } from './rooms.js';
import { Sleeps } from './sleeps.js';
import { abortedError, deniedError, fullError } from './wait-errors.js';
import { WaitingRoom } from './waiting-room.js';

/** The waits of a limiter: for admission (`wait`), for the turn of an admitted request (`hold`), and for a time (`sleep`). */
export class Waits {
  readonly #setup: Setup;
  readonly #asking: Asking;
  readonly #life: Lifetime;
  readonly #held: HoldQueue;
  readonly #room: WaitingRoom;
  readonly #sleeps = new Sleeps(realTiming);

  constructor(setup: Setup, asking: Asking, life: Lifetime) {
    const { source, set, waiting } = setup;
    this.#setup = setup;
    this.#asking = asking;
    this.#life = life;
    this.#held = new HoldQueue(...waiting, realTiming);
    this.#room = new WaitingRoom(...waiting, realTiming, {
      isShared: !source.embedded,
      process: source.embedded ? undefined : processNumber,
      get holdMs() {
        return asking.slots.holdMs;
      },
      decide: (key, cost, its, peek, weight) => asking.decide(key, cost, its, peek, 'all', undefined, weight),
      hold: async (decision, signal, isUnbounded) => {
        const result = await this.#hold(decision, signal, true, isUnbounded);
        if (!result.allowed) throw fullError(decision.key);
        return result;
      },
    });
    setup.live?.start(() => this.#room.wakeAll());
    life.onIdle = () => leave(source, set.name, this.#room);
  }

  /** The counts of waiting and held requests. */
  get gauges(): Pick<Gauges, 'waiting' | 'held' | 'maxWaiting'> {
    return { waiting: this.#room.size, held: this.#held.size, maxWaiting: this.#setup.waiting[0] };
  }

  /** See `limiter.wait`. */
  wait(key: Key, options: WaitOptions): Promise<Decision> {
    return this.#wait(key, options, false, true);
  }

  /**
   * Like `wait`, for work of this program. Without a `timeout`, and unless the user has set `maxWaiting` or `maxWaitingPerKey`, there is a
   * place for the request however many wait.
   *
   * @param isReported false within the wait of `reported`
   */
  enqueue(key: Key, options: WaitOptions, isReported = true): Promise<LimiterDecision> {
    return this.#wait(
      key,
      options,
      options.timeout === undefined && !this.#setup.isWaitingBounded,
      isReported,
    );
  }

  #wait(key: Key, options: WaitOptions, isUnbounded: boolean, isReported: boolean): Promise<LimiterDecision> {
    try {
      checkShape('options', options, ['cost', 'tier', 'timeout', 'signal', 'priority', 'weight']);
      checkSignal(options.signal);
      const { cost = 1, signal } = options;
      const priority = checkPriority(options.priority ?? 0);
      const timeout = options.timeout === undefined ? Infinity : toMilliseconds('timeout', options.timeout);
      const set = this.#setup.tiers.of(options.tier);
      const weight = options.weight === undefined ? undefined : checkWeight('weight', options.weight);
      const args = [set, key, cost, timeout, signal, priority, isUnbounded, weight] as const;
      return isReported ? this.waitBy(...args) : this.lineUp(...args);
    } catch (thrown) {
      const error = thrown as Error;
      return Promise.reject(error);
    }
  }

  /** Like `wait`, by the policies of a set. @param timeout ms, or Infinity @param isUnbounded whether there is always a place in line */
  waitBy(
    set: PolicySet,
    key: Key,
    cost: Cost,
    timeout: number,
    signal: AbortSignal | undefined,
    priority = 0,
    isUnbounded = false,
    weight?: number,
  ): Promise<LimiterDecision> {
    return this.reported(set, key, cost, signal, () =>
      this.lineUp(set, key, cost, timeout, signal, priority, isUnbounded, weight),
    );
  }

  /** Reports a wait once, at its end. @param wait waits by `lineUp`, and by other means */
  reported(
    set: PolicySet,
    key: Key,
    cost: Cost,
    signal: AbortSignal | undefined,
    wait: () => Promise<LimiterDecision>,
  ): Promise<LimiterDecision> {
    // The caller may change its objects meanwhile.
    const [sameKey, sameCost] = [copyOf(key), copyOf(cost)];
    const gaveUp: Parameters<typeof reportWait>[1]['gaveUp'] = (reason, denial) => {
      const last = denial ?? this.#asking.withoutStore(set, sameKey, sameCost);
      return last.deniedFor(reason, last.retryAfterMs ?? 0);
    };
    return this.#life.track(reportWait(this.#asking.reports, { signal, gaveUp }, wait));
  }

  /** Like `waitBy`, but unreported. */
  async lineUp(
    set: PolicySet,
    key: Key,
    asked: Cost,
    timeout: number,
    signal: AbortSignal | undefined,
    priority: number,
    isUnbounded: boolean,
    weight?: number,
  ): Promise<LimiterDecision> {
    const { scope, source, live, shadow } = this.#setup;
    const subject = this.#asking.subject(key, set);
    const costs = scope.costs(asked, subject.set, set);
    const cost = copyOf(asked);
    const isTooMuch = subject.set.policies.some(
      (policy, i) => !policy.shadow && costAt(costs, i) > policy.traits.capacity,
    );
    const isHopeless = isTooMuch && (!live || (await this.#isTooMuch(key, cost, set)));
    if (!this.#asking.enabled || isNothing(subject.set) || isHopeless) {
      const decision = await this.#asking.decide(key, cost, patient(set, 0, 0), false, 'all');
      if (!decision.allowed) throw deniedError(decision);
      return decision;
    }
    const who = { key: copyOf(key), set, ids: idsOf(subject), isUnbounded, weight };
    enter(source, this.#setup.set.name, this.#room);
    try {
      return await this.#room.wait(who, cost, timeout, signal, priority);
    } catch (error) {
      // A shadow rejects no request, even if the store takes longer than the request could wait.
      if (!shadow || (error as HeadgateError).code !== 'HEADGATE_WAIT_TIMEOUT') throw error;
      return this.#asking.withoutStore(set, key, cost, 'deny');
    }
  }

  /** Whether a cost exceeds a capacity by the limits that a key has now. */
  async #isTooMuch(key: Key, cost: Cost, set: PolicySet): Promise<boolean> {
    const { reason } = await this.#asking.decide(key, cost, patient(set, 0, 0), true, 'all');
    return reason === 'cost-exceeds-capacity';
  }

  /**
   * A denial for clients, with the expected time until a slot instead of the rest of a lease, at which a slot is free at the latest. By then the
   * slots held now, and those of the requests in line, are expected to be released.
   */
  untilSlot(denial: LimiterDecision): LimiterDecision {
    const { reason, retryAfterMs, policies, set } = denial;
    const { holdMs } = this.#asking.slots;
    if (holdMs === undefined || (reason !== 'quota-exceeded' && reason !== 'queue-full')) return denial;
    const inLine = Math.min(this.#room.size, this.#setup.waiting[1]);
    let waitMs = 0;
    for (const [i, { allowed, retryAfterMs: latestMs = 0 }] of policies.entries()) {
      const { traits, shadow, limit } = set.policies[i]!;
      if (allowed || shadow) continue;
      const expectedMs = holdMs * (1 + inLine / limit);
      waitMs = Math.max(waitMs, traits.holdsSlots ? Math.min(latestMs, expectedMs) : denial.nextWaitOf(i));
    }
    return waitMs < retryAfterMs ? denial.deniedFor(reason, Math.max(1, Math.ceil(waitMs))) : denial;
  }

  /** See `limiter.hold`. */
  async hold(decision: Decision, options: HoldOptions): Promise<Decision> {
    checkShape('options', options, ['signal']);
    checkSignal(options.signal);
    const own = ofLimiter(decision);
    return this.holdReported(own, options.signal, own);
  }

  /** Like `hold`, and reports the outcome. @param reported the decision, if it was reported before */
  holdReported(
    decision: LimiterDecision,
    signal: AbortSignal | undefined,
    reported?: LimiterDecision,
  ): Promise<LimiterDecision> {
    const gaveUp: Parameters<typeof reportWait>[1]['gaveUp'] = (reason) =>
      decision.deniedFor(reason, decision.delayMs);
    const hold = async (): Promise<LimiterDecision> => {
      if (!this.#life.isClosed) return this.#hold(decision, signal);
      await decision.cancel();
      throw this.#life.closedError();
    };
    return this.#life.track(reportWait(this.#asking.reports, { signal, gaveUp, reported }, hold));
  }

  /** @param isLast whether the request came after every held request, and waits behind the last even without a delay */
  async #hold(
    decision: LimiterDecision,
    signal: AbortSignal | undefined,
    isLast = false,
    isUnbounded = false,
  ): Promise<LimiterDecision> {
    const { units } = decision;
    if (units.every((each) => each === 0) || (decision.delayMs === 0 && !isLast)) return decision;
    const delayMs = Math.max(0, this.#asking.turns.of(decision) - realTiming.now());
    const request = { ...holdRequestOf(decision), delayMs };
    if (request.unitMs === Infinity) return decision;
    const outcome = await this.#held.hold(request, signal, isLast, isUnbounded);
    if (outcome === 'turn') return decision;
    await decision.cancel();
    if (outcome === 'full') return decision.deniedFor('queue-full', decision.delayMs);
    if (outcome === 'closed') throw this.#life.closedError();
    throw abortedError(signal);
  }

  /** Sleeps. @throws the signal's reason; HeadgateError `HEADGATE_CLOSED` as soon as the limiter is closed */
  async sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    this.#life.checkOpen();
    await this.#sleeps.sleep(ms, signal);
  }

  /** Ends all waits. */
  close(): void {
    this.#held.close();
    this.#sleeps.close(this.#life.closedError());
    this.#room.close(this.#life.closedError());
  }
}

function copyOf<T extends Key | Cost>(value: T): T {
  return typeof value === 'object' && (value as object | null) !== null ? { ...value } : value;
}
