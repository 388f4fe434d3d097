import { onAbort } from '../../common/abort.js';
import type { Decision } from '../../common/decision.js';
import type { LimiterDecision } from '../decision.js';
import type { Key } from '../../contract/key.js';
import { HeadgateError, show } from '../../common/errors.js';
import { Line, Lines } from './lines.js';
import type { Link } from '../../common/list.js';
import type { MaybePromise, PolicySet } from '../../contract/store.js';
import type { Timing } from '../../common/timing.js';
import { costsOf, type Cost, type Costs } from '../../contract/costs.js';
import { joined } from '../../contract/parts.js';
import { patient } from './patient.js';

/** The functions of the limiter that waiting uses. */
export interface Host {
  /** Whether requests of other processes may wait for the same keys. */
  readonly isShared: boolean;
  decide(key: Key, cost: Cost, set: PolicySet, peek: boolean): MaybePromise<LimiterDecision>;
  /** Holds an admitted request until its turn. It came after all that are held. */
  hold(
    decision: LimiterDecision,
    signal: AbortSignal | undefined,
    isUnbounded: boolean,
  ): Promise<LimiterDecision>;
}

/** The subject of a wait. */
export interface Who {
  readonly key: Key;
  /** The policies that decide. */
  readonly set: PolicySet;
  /** Texts that distinguish the keys: see `idsOf`. */
  readonly ids: readonly string[];
  /** Whether there is a place for it however many wait. Default `false`. */
  readonly isUnbounded?: boolean;
}

interface Waiter {
  readonly who: Who;
  readonly cost: Cost;
  readonly costs: Costs;
  readonly priority: number;
  /** The time at which the waiter gives up, by the room's clock. */
  readonly deadline: number;
  /** The time at which the waiter came. */
  readonly came: number;
  readonly resolve: (decision: LimiterDecision) => void;
  readonly reject: (error: unknown) => void;
  /** Stops the waiter's timer, and stops listening to its signal. */
  stop: () => void;
  /** Whether the waiter has a place in line. A bounded one counts for `maxWaiting` then. It has none until it is known to have to wait. */
  hasPlace: boolean;
  /** Whether a question to the store for this waiter is under way. */
  isAsked: boolean;
  /** Gives up the waiter's turn, if it has one. */
  turn: AbortController | undefined;
  /** The reason why the waiter gave up. Its charge is given back before the wait ends with this error. */
  error: unknown;
}

/** The first sleep, ms, if the time of the next question cannot be predicted. */
const FIRST_POLL = 10;
/** The longest sleep, ms, because another process may end a ban or give units back meanwhile. */
const LAST_POLL = 1000;

/**
 * Once the store has denied, a process asks it at most every `PAUSE` ms, and for so few units that it would take a whole quota in this part
 * of its window, or in a second. So a process that is far from the store gets about as much as a near one.
 */
const PAUSE = 20;
const PART = 1 / 5;

/**
 * Processes that wait for the same quota vary their sleeps, so that none is always the first: by at most half of the sleep, and this time,
 * ms. Where turns are reserved ahead, sleeps vary by this part of the time ahead, so that the turns that became free share a call.
 */
const MOST_SPREAD = 5;
const SLACK = 3 / 10;

/**
 * The waiters of one key, or of the same keys of several dimensions: first the waiters that have their turn, then the others by priority and
 * in order of arrival.
 */
class WaitingLine extends Line<Waiter> {
  ids: readonly string[] = [this.key];
  /** The first waiter without a turn. Questions to the store are for this waiter, and for the ones behind it. */
  next: Link<Waiter> | undefined;
  /** The first waiter without a place. The waiters behind it have none either. */
  newcomer: Link<Waiter> | undefined;
  asking = false;
  /** Whether units were given back during a question. The store is then asked again at once. */
  again = false;
  /** The most units in one question to the store. Bounded once it has denied. */
  most = Infinity;
  /** The remaining units by the store's last answer. */
  left = 0;
  /** Whether the last admitted waiter got its turn ahead of time. */
  isAhead = false;
  /** The last denial. */
  denial: LimiterDecision | undefined;
  /** The time before which the store must not be asked again, by the room's clock. */
  notBefore = 0;
  /** The end of the denial if nothing is given back, by the room's clock, or 0 if there is none. */
  deniedUntil = 0;
  /** The next sleep, ms, if the time of the next question cannot be predicted. */
  poll = FIRST_POLL;
  stopTimer = (): void => {};
}

/** The requests that wait for admission, by key and in order of arrival. */
export class WaitingRoom {
  readonly #timing: Timing;
  readonly #host: Host;
  readonly #lines: Lines<Waiter, WaitingLine>;
  /** Lines that wait for several keys, under each of these keys. */
  readonly #byPart = new Map<string, Set<WaitingLine>>();
  #isClosed = false;

  /**
   * @param most the most requests that wait at a time
   * @param mostPerKey the most of one key
   */
  constructor(most: number, mostPerKey: number, timing: Timing, host: Host) {
    this.#timing = timing;
    this.#host = host;
    const make = (key: string): WaitingLine => new WaitingLine(key);
    this.#lines = new Lines(most, mostPerKey, make, (line) => this.#giveWay(line));
  }

  /** The number of requests that wait now. */
  get size(): number {
    return this.#lines.size;
  }

  /**
   * @param timeout ms, or Infinity
   * @param priority the higher one is served first
   * @throws HeadgateError `HEADGATE_QUEUE_FULL`, `HEADGATE_WAIT_TIMEOUT`, `HEADGATE_ABORTED`, `HEADGATE_DENIED`, the error that `close`
   * gets, or the store's error; in every case nothing stays charged
   */
  wait(
    who: Who,
    cost: Cost,
    timeout: number,
    signal: AbortSignal | undefined,
    priority = 0,
  ): Promise<LimiterDecision> {
    if (signal?.aborted) return Promise.reject(aborted(signal));
    const line = this.#lines.open(joined(who.ids));
    const before = lastOf(line, priority);
    const after = before ? before.after : line.first;
    // Beside a waiter that was denied, the newcomer has to wait, too. Otherwise the store's answer decides.
    const hasPlace = (line.next !== undefined && !line.asking) || after?.value.hasPlace === true;
    if (hasPlace && !this.#lines.take(line, who.isUnbounded)) return Promise.reject(fullError(who.key));
    if (!line.first) this.#enter(line, who.ids);
    return new Promise((resolve, reject) => {
      const came = this.#timing.now();
      const deadline = came + timeout;
      const waiter: Waiter = {
        who,
        cost,
        costs: costsOf(cost, who.set.policies),
        priority,
        came,
        deadline,
        resolve,
        reject,
        hasPlace,
        isAsked: false,
        turn: undefined,
        error: undefined,
        stop: () => {},
      };
      const onTimeout = (): void => this.#giveUp(line, link, late(who.key, line.denial));
      let stopTimer = (): void => {};
      let stopListening = (): void => {};
      waiter.stop = () => {
        stopTimer();
        stopListening();
      };
      const link = line.insert(waiter, before);
      if (line.next === after) line.next = link;
      if (!hasPlace && line.newcomer === after) line.newcomer = link;
      if (timeout !== Infinity) stopTimer = this.#timing.after(timeout, onTimeout);
      stopListening = onAbort(signal, () => this.#giveUp(line, link, aborted(signal)));
      if (line.next === link) void this.#ask(line);
    });
  }

  #enter(line: WaitingLine, ids: readonly string[]): void {
    line.ids = ids;
    if (ids.length === 1) return;
    for (const id of ids) {
      const lines = this.#byPart.get(id) ?? new Set();
      this.#byPart.set(id, lines.add(line));
    }
  }

  #close(line: WaitingLine): void {
    this.#lines.close(line);
    for (const id of line.ids) {
      const lines = this.#byPart.get(id);
      if (lines?.delete(line) && lines.size === 0) this.#byPart.delete(id);
    }
  }

  /**
   * Wakes the first waiter of each key, because units were given back. Of the lines that wait for several keys, one asks the store. If that
   * ends a wait, the next line follows.
   */
  wake(ids: readonly string[]): void {
    for (const id of ids) {
      const line = this.#lines.get(id);
      if (line) this.#wake(line);
      const lines = this.#byPart.get(id);
      const [next] = lines ?? [];
      if (!lines || !next) continue;
      lines.delete(next);
      lines.add(next);
      this.#wake(next);
    }
  }

  /** Wakes the first waiter of each line, because limits may have changed. */
  wakeAll(): void {
    for (const line of [...this.#lines]) this.#wake(line);
  }

  #wake(line: WaitingLine): void {
    line.again = true;
    line.notBefore = line.deniedUntil = 0;
    void this.#ask(line);
  }

  /** Ends every wait with an error. */
  close(error: HeadgateError): void {
    this.#isClosed = true;
    for (const line of this.#lines) {
      line.stopTimer();
      // From the end, because the first wait may have to go on until the store answers.
      for (let link = line.last; link; link = link.before) this.#end(line, link, error);
    }
  }

  /** The last bounded waiter of a line that has a place loses it. */
  #giveWay(line: WaitingLine): void {
    let link = line.newcomer ? line.newcomer.before! : line.last!;
    while (link.value.who.isUnbounded || !link.value.hasPlace) link = link.before!;
    link.value.hasPlace = false;
    if (line.newcomer === link.after) line.newcomer = link;
    this.#lines.vacate(line);
    this.#end(line, link, fullError(link.value.who.key));
  }

  #giveUp(line: WaitingLine, link: Link<Waiter>, error: unknown): void {
    const isNext = line.next === link && !link.value.isAsked;
    this.#end(line, link, error);
    if (isNext) this.#wake(line);
  }

  /** Ends a wait: at once, after the store's answer, or when the waiter's turn was given back. */
  #end(line: WaitingLine, link: Link<Waiter>, error: unknown): void {
    const waiter = link.value;
    waiter.error ??= error;
    waiter.turn?.abort();
    if (!waiter.turn && !waiter.isAsked) this.#leave(line, link, error);
  }

  #remove(line: WaitingLine, link: Link<Waiter>): void {
    if (line.next === link) line.next = link.after;
    if (line.newcomer === link) line.newcomer = link.after;
    line.remove(link);
    if (link.value.hasPlace) this.#lines.vacate(line, link.value.who.isUnbounded);
    line.poll = FIRST_POLL;
    link.value.isAsked = false;
    link.value.stop();
    if (!line.first) void this.#ask(line);
  }

  /** Asks the store for the first waiters, and for the next ones as long as it admits. Never rejects. */
  async #ask(line: WaitingLine): Promise<void> {
    if (line.asking) return;
    line.asking = true;
    line.stopTimer();
    let sleep = line.notBefore - this.#timing.now();
    while (line.next && sleep <= 0) {
      line.again = false;
      const isDenied = line.deniedUntil > 0;
      sleep = await (isDenied ? this.#peek(line, line.next) : this.#askFor(line));
      if (line.again) sleep = 0;
      line.notBefore = this.#timing.now() + sleep;
    }
    this.#takePlaces(line);
    // A denial of waiters that have left may not apply to the others.
    if (!line.next && line.deniedUntil > 0) sleep = line.notBefore = line.deniedUntil = 0;
    // After an admission, a line stays open for its pause, because the next request has to wait for it.
    const isOpen = line.first ? line.next : sleep > 0 && !this.#isClosed;
    if (isOpen) line.stopTimer = this.#timing.after(sleep, () => this.#awake(line));
    else if (!line.first) this.#close(line);
    line.asking = false;
  }

  #awake(line: WaitingLine): void {
    if (line.deniedUntil < line.notBefore + 1) line.deniedUntil = 0;
    line.notBefore = 0;
    void this.#ask(line);
  }

  /** Asks the store whether units were given back since the denial. @returns the sleep if not, ms */
  async #peek(line: WaitingLine, { value }: Link<Waiter>): Promise<number> {
    const now = this.#timing.now();
    try {
      const set = setOf(value, now);
      const { allowed } = await this.#host.decide(value.who.key, value.cost, set, true);
      const left = line.deniedUntil - this.#timing.now();
      if (!allowed && left > 0) return Math.min(LAST_POLL, left);
    } catch {
      // The first waiter gets the error from the next question.
    }
    line.deniedUntil = 0;
    return 0;
  }

  /** Asks the store for the first waiters. @returns the sleep before the next question, ms */
  async #askFor(line: WaitingLine): Promise<number> {
    const asked = this.#timing.now();
    const { set, group } = groupOf(line, asked);
    const answers = await Promise.allSettled(group.map(({ value }) => this.#decide(value, set)));
    const givenBack: Promise<void>[] = [];
    let sleep = 0;
    for (let i = 0; i < group.length; i++) {
      const link = group[i]!;
      const answer = answers[i]!;
      if (answer.status === 'rejected') this.#leave(line, link, answer.reason);
      else if (!answer.value.allowed) sleep ||= this.#deny(line, link, answer.value, asked);
      else if (sleep > 0 || !this.#admit(line, link, answer.value))
        givenBack.push(this.#giveBack(link, answer.value));
    }
    await Promise.all(givenBack);
    for (const link of group) {
      const waiter = link.value;
      if (!waiter.isAsked) continue;
      waiter.isAsked = false;
      if (waiter.error === undefined) continue;
      this.#leave(line, link, waiter.error);
      this.#wake(line);
    }
    // Another line may wait for one of the keys, and for the units that this line left.
    if (line.ids.length > 1 && line.next !== group[0]) this.wake(line.ids);
    if (sleep > 0 || !line.denial || !this.#host.isShared) return sleep;
    const slack = line.isAhead ? SLACK * aheadOf(line.denial) : 0;
    return Math.max(1, asked + Math.max(PAUSE, slack * Math.random()) - this.#timing.now());
  }

  async #decide(waiter: Waiter, set: PolicySet): Promise<LimiterDecision> {
    waiter.isAsked = true;
    return this.#host.decide(waiter.who.key, waiter.cost, set, false);
  }

  /** Records the denial of a waiter. @returns its sleep, ms, or 0 if its wait has ended */
  #deny(line: WaitingLine, link: Link<Waiter>, decision: LimiterDecision, asked: number): number {
    const waiter = link.value;
    const now = this.#timing.now();
    const pause = line.denial ? PAUSE : 1;
    line.denial = decision;
    const { known, sleep } = delays(decision, line.poll);
    const ahead = aheadOf(decision);
    if (known === undefined) waiter.error ??= deniedError(decision);
    else if (now + known + ahead >= waiter.deadline) waiter.error ??= late(waiter.who.key, decision);
    if (known === undefined || waiter.error !== undefined) {
      this.#leave(line, link, waiter.error);
      return 0;
    }
    line.poll = Math.min(2 * line.poll, LAST_POLL);
    line.left = 0;
    line.most = mostOf(decision.set);
    line.deniedUntil = asked + known;
    if (!this.#host.isShared) return sleep;
    const spread = Math.max(Math.min(sleep / 2, MOST_SPREAD), SLACK * ahead);
    // The store's time began after the question, and the next question takes as long to arrive.
    const time = asked - now + Math.max(pause, sleep + spread * Math.random());
    return Math.max(1, Math.min(time, LAST_POLL));
  }

  /** Records the admission of a waiter. @returns false if its charge must be given back */
  #admit(line: WaitingLine, link: Link<Waiter>, decision: LimiterDecision): boolean {
    const waiter = link.value;
    const { delayMs, remaining } = decision;
    const { key } = waiter.who;
    // Earlier waiters may still have their turns before this one.
    const waits = delayMs > 0 || line.first !== link;
    if (this.#timing.now() + delayMs > waiter.deadline)
      waiter.error ??= late(key, delayMs > 0 ? decision.tooLate() : line.denial);
    else if (waits && !this.#takePlace(line, link)) waiter.error ??= fullError(key);
    if (waiter.error !== undefined) return false;
    line.left = remaining;
    line.isAhead = delayMs > 0;
    line.deniedUntil = 0;
    if (waits) {
      this.#hold(line, link, decision);
    } else {
      this.#remove(line, link);
      waiter.resolve(decision);
    }
    return true;
  }

  /** Gives a charge back. If that fails, the wait ends with the error. */
  async #giveBack({ value: waiter }: Link<Waiter>, decision: LimiterDecision): Promise<void> {
    try {
      await decision.cancel();
    } catch (error) {
      waiter.error ??= error;
    }
  }

  /** Ends a wait with an error. */
  #leave(line: WaitingLine, link: Link<Waiter>, error: unknown): void {
    this.#remove(line, link);
    link.value.reject(link.value.error ?? error);
  }

  /** A waiter that has its turn stays in line until then. */
  #hold(line: WaitingLine, link: Link<Waiter>, decision: LimiterDecision): void {
    const waiter = link.value;
    line.next = link.after;
    waiter.isAsked = false;
    waiter.turn = new AbortController();
    this.#host.hold(decision, waiter.turn.signal, waiter.who.isUnbounded ?? false).then(
      () => {
        this.#remove(line, link);
        waiter.resolve(decision);
      },
      (error: unknown) => this.#leave(line, link, error),
    );
  }

  #takePlace(line: WaitingLine, link: Link<Waiter>): boolean {
    const waiter = link.value;
    if (line.newcomer === link) line.newcomer = link.after;
    return (waiter.hasPlace ||= this.#lines.take(line, waiter.who.isUnbounded));
  }

  /** Gives places to all waiters in line, because they have to wait, and rejects the ones for whom there is no place. */
  #takePlaces(line: WaitingLine): void {
    for (let link = line.newcomer; link; link = line.newcomer) {
      if (link.value.error === undefined && this.#takePlace(line, link)) continue;
      line.newcomer = link.after;
      this.#end(line, link, fullError(link.value.who.key));
    }
  }
}

/** The waiter behind which a newcomer waits. It passes no waiter that has a turn, or a question under way. */
function lastOf(line: WaitingLine, priority: number): Link<Waiter> | undefined {
  let link = line.last;
  while (link && link.value.priority < priority && !link.value.isAsked && !link.value.turn)
    link = link.before;
  return link;
}

/** The set that decides for a waiter. */
function setOf({ who, came, deadline }: Waiter, now: number): PolicySet {
  return patient(who.set, deadline - now, now - came);
}

/**
 * The waiters that share one question to the store, by one set. A smaller cost might be admitted although an earlier, larger one is denied.
 * So it has to be asked later, unless the store has units for all of them.
 */
function groupOf(line: WaitingLine, now: number): { set: PolicySet; group: Link<Waiter>[] } {
  const set = setOf(line.next!.value, now);
  const group: Link<Waiter>[] = [];
  let sum = 0;
  let largest = 0;
  let last: Costs['costs'];
  for (let link = line.next; link; link = link.after) {
    const { cost, costs } = link.value.costs;
    sum += cost;
    const isLess = costs ? costs.join() !== last?.join() : cost < largest;
    const isSafe = sum <= line.most && (sum <= line.left || !isLess);
    if (group.length > 0 && (!isSafe || setOf(link.value, now) !== set)) break;
    group.push(link);
    largest = Math.max(largest, cost);
    last = costs;
  }
  return { set, group };
}

/** The most units in one question after a denial: see {@link PART}. */
function mostOf({ policies }: PolicySet): number {
  let most = Infinity;
  for (const { limit, window, shadow } of policies)
    if (!shadow) most = Math.min(most, Math.ceil((limit * PAUSE) / Math.min(PART * window, 1000)));
  return most;
}

/** The furthest turn that the denying policy gives, ms ahead. */
function aheadOf({ set, policy: decider }: LimiterDecision): number {
  return set.policies.find(({ name }) => name === decider)?.traits.aheadMs ?? 0;
}

/**
 * The least duration of a denial (`known`), and the sleep before the next question. The release of a concurrency slot, the recovery of a
 * store, or new room in it cannot be predicted, so the sleeps grow. `known` is undefined for a cost above a capacity.
 */
function delays(decision: LimiterDecision, poll: number): { known: number | undefined; sleep: number } {
  const { reason } = decision;
  if (decision.retryAfterMs === undefined) return { known: undefined, sleep: 0 };
  if (reason === 'store-error' || reason === 'store-full' || reason === 'process-late')
    return { known: 0, sleep: poll };
  const { policies } = decision.set;
  let known = 0;
  let slots = false;
  decision.policies.forEach(({ allowed, retryAfterMs = 0 }, i) => {
    const { traits, shadow } = policies[i]!;
    if (allowed || shadow) return;
    if (traits.holdsSlots) slots = true;
    else known = Math.max(known, retryAfterMs);
  });
  if (reason === 'banned') known = decision.retryAfterMs;
  return { known, sleep: Math.max(known, slots ? Math.min(poll, decision.retryAfterMs) : 0, 1) };
}

function late(key: Key, decision: Decision | undefined): HeadgateError {
  const wait = decision?.retryAfterMs
    ? ` The earliest possible admission is in ${decision.retryAfterMs} ms.`
    : '';
  return new HeadgateError(
    'HEADGATE_WAIT_TIMEOUT',
    `${show(key)} was not admitted in time.${wait}`,
    decision && { decision },
  );
}

/** @internal The error for a denial whose caller gets no decision. */
export function deniedError(decision: Decision): HeadgateError {
  const { key, reason, retryAfterMs } = decision;
  const again = retryAfterMs === undefined ? '' : ` It may be admitted in ${retryAfterMs} ms.`;
  return new HeadgateError('HEADGATE_DENIED', `${show(key)} is denied: ${reason}.${again}`, { decision });
}

/** @internal The error for a caller that gave up. */
export function aborted(signal: AbortSignal | undefined): HeadgateError {
  return new HeadgateError('HEADGATE_ABORTED', 'The wait was aborted.', { cause: signal?.reason });
}

/** @internal The error for a caller without a place. */
export function fullError(key: Key): HeadgateError {
  return new HeadgateError(
    'HEADGATE_QUEUE_FULL',
    `${show(key)} cannot wait: too many requests are waiting already (maxWaiting, maxWaitingPerKey).`,
  );
}
