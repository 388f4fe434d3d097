import { ASKING_OPTIONS, fieldsOf } from '../../features/features.js';
import type { Decision } from '../../common/decision.js';
import { exactMilliseconds, warnOfSeconds } from '../../common/duration.js';
import type { HeadgateError } from '../../common/errors.js';
import { realTiming } from '../../common/timing.js';
import { checkShape, checkSignal } from '../../common/validate.js';
import { costAt, type Cost, type Costs } from '../../contract/costs.js';
import { bothQueues, type Gauges, type KeyQueue } from '../../contract/gauges.js';
import type { Key } from '../../contract/key.js';
import { idsOf } from '../../contract/dimension-sets.js';
import { isNothing, type PolicySet, type Subject } from '../../contract/store.js';
import type { Decider } from '../decide.js';
import { ofLimiter, type LimiterDecision } from '../decision.js';
import { reportWait } from '../observe.js';
import { checkPriority, type HoldOptions, type WaitOptions } from '../options.js';
import { requestOf, type Request, type WaitRequest } from '../request.js';
import type { CheckedOptions } from '../checked-options.js';
import { HoldQueue, holdRequestOf, type HoldPlace } from './hold-queue.js';
import { forWaiting } from './waiting-set.js';
import { processNumber } from './process-line.js';
import { enter, leave } from './wake-ups.js';
import { Sleeps } from './sleeps.js';
import { abortedError, deniedError, fullError, lateError } from './wait-errors.js';
import { WaitingRoom } from './waiting-room.js';

/** The most requests with slots that are read for operators, the oldest first, because a process may have 100,000. */
const MAX_HELD_READ = 1000;

const ofSlots = ({ policies }: PolicySet): boolean =>
  policies.some(({ traits, isHidden }) => traits.holdsSlots && !isHidden);

/** The waits of a limiter: for admission (`wait`), for the turn of an admitted request (`hold`), and for a time (`sleep`). */
export class Waits {
  readonly #setup: CheckedOptions;
  readonly #decider: Decider;
  // Made for the first request that waits: a limiter without waits needs a third less memory, which a process with many limiters notices.
  #held: HoldQueue | undefined;
  #room: WaitingRoom | undefined;
  #sleeps: Sleeps | undefined;

  constructor(setup: CheckedOptions, decider: Decider) {
    this.#setup = setup;
    this.#decider = decider;
    setup.live?.start(() => this.#room?.wakeAll());
    setup.life.onIdle = () => this.#room && leave(setup.set.name, this.#room);
  }

  #openRoom(): WaitingRoom {
    if (this.#room) return this.#room;
    const { source, waiting } = this.#setup;
    const decider = this.#decider;
    const room = new WaitingRoom(...waiting, realTiming, {
      hasPeers: !source.embedded,
      process: source.embedded ? undefined : processNumber,
      get holdMs() {
        return decider.slots.holdMs;
      },
      decide: (request) => decider.decide(request),
      hold: async (decision, signal, { isUnbounded, lostAt }) => {
        const result = await this.#hold(decision, signal, { isLast: true, isUnbounded, lostAt });
        if (!result.allowed) throw fullError(decision.key);
        return result;
      },
    });
    if (this.#setup.life.isClosed) room.close(this.#setup.life.closedError());
    return (this.#room = room);
  }

  #openHoldQueue(): HoldQueue {
    if (this.#held) return this.#held;
    const held = new HoldQueue(...this.#setup.waiting, realTiming);
    if (this.#setup.life.isClosed) held.close();
    return (this.#held = held);
  }

  get gauges(): Pick<Gauges, 'waiting' | 'held' | 'maxWaiting'> {
    const [maxWaiting] = this.#setup.waiting;
    return { waiting: this.#room?.size ?? 0, held: this.#held?.size ?? 0, maxWaiting };
  }

  /** The waiting requests and the slots of each key in this process, by `idsOf`. */
  queues(): ReadonlyMap<string, KeyQueue> {
    const queues = new Map<string, KeyQueue>();
    const add = (id: string, more: KeyQueue): void => {
      queues.set(id, bothQueues(queues.get(id), more));
    };
    for (const [id, waiting, waitedMs] of this.#room?.waiting() ?? [])
      add(id, { waiting, waitedMs, slots: 0, heldMs: 0 });
    let read = 0;
    for (const { units, heldMs, ...subject } of this.#decider.slots.held()) {
      if (read++ === MAX_HELD_READ) break;
      for (const id of idsOf(subject, ofSlots)) add(id, { waiting: 0, waitedMs: 0, slots: units, heldMs });
    }
    return queues;
  }

  wait(key: Key, options: WaitOptions): Promise<Decision> {
    // The shape is checked below.
    warnOfSeconds('timeout', (options as WaitOptions | null)?.timeout, undefined, this.#setup.warn);
    return this.#wait(key, options, { isUnbounded: false, isReported: true });
  }

  /**
   * Like `wait`, for work of this program, which has computed or checked the timeout. Without a `timeout`, and unless the user has set `maxWaiting` or `maxWaitingPerKey`, there is a
   * place for the request however many wait.
   *
   * @param own `isReported`: false within the wait of `reported`; `lostAt`: see `HoldPlace`
   */
  enqueue(key: Key, options: WaitOptions, own: Partial<OwnTerms> = {}): Promise<LimiterDecision> {
    const isUnbounded = options.timeout === undefined && !this.#setup.isWaitingBounded;
    return this.#wait(key, options, { isReported: true, isUnbounded, ...own });
  }

  #wait(key: Key, options: WaitOptions, own: OwnTerms): Promise<LimiterDecision> {
    try {
      const { isReported, isUnbounded, lostAt } = own;
      checkShape('options', options, ['cost', 'tier', 'timeout', 'signal', 'priority', ...ASKING_OPTIONS]);
      checkSignal(options.signal);
      const { cost = 1, signal } = options;
      const priority = checkPriority(options.priority ?? 0);
      const timeout =
        options.timeout === undefined ? Infinity : exactMilliseconds('timeout', options.timeout);
      const set = this.#setup.tiers.of(options.tier);
      const fields = fieldsOf(options);
      // Only the calls of `limitFetch` are reported by themselves, and their charges are not returned.
      const waits = { timeout, signal, priority, isUnbounded, hopes: isReported, lostAt };
      const request: WaitRequest = { ...requestOf(key, cost, set), unreported: 'all', fields, ...waits };
      return isReported ? this.waitBy(request) : this.#lineUp(request);
    } catch (thrown) {
      const error = thrown as Error;
      return Promise.reject(error);
    }
  }

  /** Like `wait`, for a request of an adapter. */
  waitBy(request: WaitRequest): Promise<LimiterDecision> {
    return this.reported(request, () => this.#lineUp(request));
  }

  /** Reports a wait once, at its end. @param wait waits by `lineUp`, and by other means */
  reported(
    request: Pick<WaitRequest, keyof Request | 'signal'>,
    wait: () => Promise<LimiterDecision>,
  ): Promise<LimiterDecision> {
    const { signal } = request;
    const own = keptOf(request);
    const gaveUp: Parameters<typeof reportWait>[1]['gaveUp'] = (reason, denial) => {
      const last = denial ?? this.#decider.unasked.withoutStore(own);
      return last.deniedFor(reason, last.retryAfterMs ?? 0);
    };
    return this.#setup.life.track(reportWait(this.#decider.reports, { signal, gaveUp }, wait));
  }

  /** Like `waitBy`, but unreported. */
  async #lineUp(given: WaitRequest): Promise<LimiterDecision> {
    const { scope, live, shadow } = this.#setup;
    const { key, cost, set } = given;
    const subject = this.#decider.subject(key, set);
    const costs = scope.costs(cost, subject.set, set);
    const request = keptOf(given);
    const isTooMuch = subject.set.policies.some(
      (policy, i) => !policy.shadow && costAt(costs, i) > policy.traits.capacity,
    );
    const isHopeless = isTooMuch && (!live || (await this.#look(request)).reason === 'cost-exceeds-capacity');
    if (!this.#decider.enabled || isNothing(subject.set) || isHopeless) {
      const decision = await this.#decider.decide({ ...request, set: forWaiting(set, 0, 0) });
      if (!decision.allowed) throw deniedError(decision);
      return decision;
    }
    const room = this.#openRoom();
    enter(this.#setup.set.name, room);
    try {
      return await room.wait(request, idsOf(subject));
    } catch (error) {
      const { code, decision } = error as HeadgateError;
      if (code !== 'HEADGATE_WAIT_TIMEOUT') throw error;
      // A shadow rejects no request, even if the store takes longer than the request could wait.
      if (shadow) return this.#decider.unasked.withoutStore(request, 'deny');
      // A request behind others was not asked about, so the denial is that of another request.
      if (!decision || isAbout(ofLimiter(decision), { ...subject, ...costs })) throw error;
      const own = await this.#look(request);
      throw lateError(request.key, own.allowed ? own.deniedFor('wait-timeout', 0) : own);
    }
  }

  /** The decision by the limits that a key has now, without a charge. */
  async #look(request: WaitRequest): Promise<LimiterDecision> {
    return this.#decider.decide({ ...request, set: forWaiting(request.set, 0, 0), peek: true });
  }

  /**
   * A denial for clients, with the expected time until a slot instead of the rest of a lease, at which a slot is free at the latest. By then the
   * slots held now, and those of the requests in line, are expected to be released.
   */
  untilSlot(denial: LimiterDecision): LimiterDecision {
    const { reason, retryAfterMs, policies, set } = denial;
    const { holdMs } = this.#decider.slots;
    if (holdMs === undefined || (reason !== 'quota-exceeded' && reason !== 'queue-full')) return denial;
    const inLine = Math.min(this.#room?.size ?? 0, this.#setup.waiting[1]);
    let waitMs = 0;
    for (const [i, { allowed, retryAfterMs: latestMs = 0 }] of policies.entries()) {
      const { traits, shadow, limit } = set.policies[i]!;
      if (shadow) continue;
      const isOfSlots = traits.holdsSlots && !allowed;
      const expectedMs = holdMs * (1 + inLine / limit);
      waitMs = Math.max(waitMs, isOfSlots ? Math.min(latestMs, expectedMs) : denial.nextWaitOf(i));
    }
    return waitMs < retryAfterMs ? denial.deniedFor(reason, Math.max(1, Math.ceil(waitMs))) : denial;
  }

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
      if (!this.#setup.life.isClosed) return this.#hold(decision, signal);
      await decision.abandon();
      throw this.#setup.life.closedError();
    };
    return this.#setup.life.track(reportWait(this.#decider.reports, { signal, gaveUp, reported }, hold));
  }

  /** @param place with `isLast`, the request waits behind the last even without a delay */
  async #hold(
    decision: LimiterDecision,
    signal: AbortSignal | undefined,
    place: HoldPlace = {},
  ): Promise<LimiterDecision> {
    const { units } = decision;
    if (units.every((each) => each === 0) || (decision.delayMs === 0 && !place.isLast)) return decision;
    const { turns } = this.#decider;
    // Negative if this process has read the answer after the turn.
    const delayMs = turns.of(decision) - realTiming.now();
    if (decision.repeated) return this.#holdRepetition(decision, delayMs, signal);
    const request = { ...holdRequestOf(decision), delayMs };
    if (request.unitMs === Infinity) return decision;
    const onTurn = (at: number): void => turns.move(decision, at);
    const outcome = await this.#openHoldQueue().hold(request, signal, { ...place, onTurn });
    if (outcome === 'turn') return decision;
    await decision.abandon();
    if (outcome === 'full') return decision.deniedFor('queue-full', decision.delayMs);
    if (outcome === 'closed') throw this.#setup.life.closedError();
    throw abortedError(signal);
  }

  /** A repetition has no place in the line, because it has no turn that it could leave to the requests behind. */
  async #holdRepetition(
    decision: LimiterDecision,
    delayMs: number,
    signal: AbortSignal | undefined,
  ): Promise<LimiterDecision> {
    try {
      await this.sleep(delayMs, signal);
      return decision;
    } catch (error) {
      throw signal?.aborted ? abortedError(signal) : error;
    }
  }

  /** Sleeps. @throws the signal's reason; HeadgateError `HEADGATE_CLOSED` as soon as the limiter is closed */
  async sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    this.#setup.life.checkOpen();
    await (this.#sleeps ??= new Sleeps(realTiming)).sleep(ms, signal);
  }

  close(): void {
    this.#held?.close();
    this.#sleeps?.close(this.#setup.life.closedError());
    this.#room?.close(this.#setup.life.closedError());
  }
}

/** The terms of a wait that users do not set. */
interface OwnTerms {
  readonly isUnbounded: boolean;
  readonly isReported: boolean;
  readonly lostAt?: number | undefined;
}

/** Whether a decision is about a request with the same keys, costs and policies. */
function isAbout({ subject }: LimiterDecision, other: Subject & Costs): boolean {
  const textOf = ({ set, key, cost, costs = [cost] }: Subject & Costs): string =>
    JSON.stringify([idsOf({ set, key }), costs, set.policies.map(({ id }) => id)]);
  return textOf(subject) === textOf(other);
}

/** A request whose key and cost the caller cannot change any more. */
function keptOf<R extends Request>(request: R): R {
  return { ...request, key: copyOf(request.key), cost: copyOf(request.cost) };
}

function copyOf<T extends Key | Cost>(value: T): T {
  return typeof value === 'object' && (value as object | null) !== null ? { ...value } : value;
}
