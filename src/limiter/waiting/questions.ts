import type { Link } from '../../common/list.js';
import type { Timing } from '../../common/timing.js';
import type { Cost } from '../../contract/costs.js';
import type { Key } from '../../contract/key.js';
import type { MaybePromise, PolicySet } from '../../contract/store.js';
import type { LimiterDecision } from '../decision.js';
import { deniedError, fullError, lateError } from './wait-errors.js';
import {
  ASKED,
  ASKING,
  HELD,
  QUEUED,
  RESTING,
  setOf,
  SLEEPING,
  type Waiter,
  type WaitingLine,
} from './waiting-line.js';

/** The functions of the limiter that waiting uses. */
export interface Host {
  /** Whether requests of other processes may wait for the same keys. */
  readonly isShared: boolean;
  decide(key: Key, cost: Cost, set: PolicySet, peek: boolean): MaybePromise<LimiterDecision>;
  /** Holds an admitted request until its turn, behind all held requests. */
  hold(
    decision: LimiterDecision,
    signal: AbortSignal | undefined,
    isUnbounded: boolean,
  ): Promise<LimiterDecision>;
}

/** The functions of the room that questions use. */
export interface Members {
  readonly isClosed: boolean;
  /** Takes a waiter out of its line. */
  remove(line: WaitingLine, link: Link<Waiter>): void;
  /** Takes a waiter out of its line, and rejects its wait. */
  leave(line: WaitingLine, link: Link<Waiter>, error: unknown): void;
  /** Gives a waiter a place. @returns false if there is none */
  takePlace(line: WaitingLine, link: Link<Waiter>): boolean;
  /** Gives every waiter of a line a place, or rejects its wait. */
  takePlaces(line: WaitingLine): void;
  /** Removes a line without waiters. */
  close(line: WaitingLine): void;
  /** Wakes the lines that wait for one of these keys. */
  wake(ids: readonly string[]): void;
}

/** Asks the store for the waiters of lines. The pace of each line determines the times. */
export class Questions {
  readonly #timing: Timing;
  readonly #host: Host;
  readonly #members: Members;

  constructor(timing: Timing, host: Host, members: Members) {
    this.#timing = timing;
    this.#host = host;
    this.#members = members;
  }

  /** Asks for a line now, because units were given back or limits have changed. */
  wake(line: WaitingLine): void {
    line.wasWoken = true;
    line.pace.wake();
    void this.ask(line);
  }

  /** Asks the store for the first waiters, and for the next ones as long as it admits. Never rejects. */
  async ask(line: WaitingLine): Promise<void> {
    if (line.state === ASKING) return;
    line.state = ASKING;
    line.stopTimer();
    const { pace } = line;
    let sleep = pace.sleepMs(this.#timing.now());
    while (line.next && sleep <= 0) {
      line.wasWoken = false;
      sleep = await (pace.isDenied ? this.#look(line, line.next) : this.#askFor(line));
      if (line.wasWoken) sleep = 0;
      pace.sleep(sleep, this.#timing.now());
    }
    this.#members.takePlaces(line);
    // A denial of waiters that have left may not apply to the others.
    if (!line.next && pace.isDenied) {
      pace.wake();
      sleep = 0;
    }
    // After an admission, a line stays open for its pause, because the next request has to wait for it.
    const isOpen = line.first ? line.next : sleep > 0 && !this.#members.isClosed;
    if (isOpen) {
      line.state = SLEEPING;
      line.stopTimer = this.#timing.after(sleep, () => this.#awake(line));
    } else {
      line.state = RESTING;
      if (!line.first) this.#members.close(line);
    }
  }

  #awake(line: WaitingLine): void {
    line.pace.awake();
    void this.ask(line);
  }

  /** Looks whether units were given back since the denial. @returns the sleep if not, ms */
  async #look(line: WaitingLine, { value }: Link<Waiter>): Promise<number> {
    const set = setOf(value, this.#timing.now());
    try {
      const { allowed } = await this.#host.decide(value.who.key, value.cost, set, true);
      const sleep = allowed ? 0 : line.pace.sleepAfterLook(this.#timing.now());
      if (sleep > 0) return sleep;
    } catch {
      // The first waiter gets the error from the next question.
    }
    line.pace.endDenial();
    return 0;
  }

  /** Asks the store for the first waiters. @returns the sleep before the next question, ms */
  async #askFor(line: WaitingLine): Promise<number> {
    const asked = this.#timing.now();
    const { set, group } = line.group(asked);
    const answers = await Promise.allSettled(group.map(({ value }) => this.#decide(value, set)));
    const givenBack: Promise<void>[] = [];
    let sleep = 0;
    for (let i = 0; i < group.length; i++) {
      const link = group[i]!;
      const answer = answers[i]!;
      if (answer.status === 'rejected') this.#members.leave(line, link, answer.reason);
      else if (!answer.value.allowed) sleep ||= this.#deny(line, link, answer.value, asked);
      else if (sleep > 0 || !this.#admit(line, link, answer.value))
        givenBack.push(this.#giveBack(link, answer.value));
    }
    await Promise.all(givenBack);
    for (const link of group) {
      const waiter = link.value;
      if (waiter.state !== ASKED) continue;
      waiter.state = QUEUED;
      if (waiter.error === undefined) continue;
      this.#members.leave(line, link, waiter.error);
      this.wake(line);
    }
    // Another line may wait for one of the keys, and for the units that this line left.
    if (line.ids.length > 1 && line.next !== group[0]) this.#members.wake(line.ids);
    return sleep > 0 ? sleep : line.pace.sleepAfterAdmission(asked, this.#timing.now());
  }

  async #decide(waiter: Waiter, set: PolicySet): Promise<LimiterDecision> {
    waiter.state = ASKED;
    return this.#host.decide(waiter.who.key, waiter.cost, set, false);
  }

  /** Records the denial of a waiter. @returns its sleep, ms, or 0 if its wait has ended */
  #deny(line: WaitingLine, link: Link<Waiter>, decision: LimiterDecision, asked: number): number {
    const waiter = link.value;
    const now = this.#timing.now();
    const delay = line.pace.deny(decision);
    const { leastMs, aheadMs } = delay;
    if (leastMs === undefined) waiter.error ??= deniedError(decision);
    else if (now + leastMs + aheadMs >= waiter.deadline) waiter.error ??= lateError(waiter.who.key, decision);
    if (waiter.error !== undefined) {
      this.#members.leave(line, link, waiter.error);
      return 0;
    }
    return line.pace.sleepAfterDenial(decision, delay, asked, now);
  }

  /** Records the admission of a waiter. @returns false if its charge must be given back */
  #admit(line: WaitingLine, link: Link<Waiter>, decision: LimiterDecision): boolean {
    const waiter = link.value;
    const { delayMs } = decision;
    const { key } = waiter.who;
    // Earlier waiters may still have their turns before this one.
    const waits = delayMs > 0 || line.first !== link;
    if (this.#timing.now() + delayMs > waiter.deadline)
      waiter.error ??= lateError(key, delayMs > 0 ? decision.tooLate() : line.pace.denial);
    else if (waits && !this.#members.takePlace(line, link)) waiter.error ??= fullError(key);
    if (waiter.error !== undefined) return false;
    line.pace.admit(decision);
    if (waits) {
      this.#hold(line, link, decision);
    } else {
      this.#members.remove(line, link);
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

  /** Keeps an admitted waiter in line until its turn. */
  #hold(line: WaitingLine, link: Link<Waiter>, decision: LimiterDecision): void {
    const waiter = link.value;
    line.next = link.after;
    waiter.state = HELD;
    waiter.turn = new AbortController();
    this.#host.hold(decision, waiter.turn.signal, waiter.who.isUnbounded ?? false).then(
      () => {
        this.#members.remove(line, link);
        waiter.resolve(decision);
      },
      (error: unknown) => this.#members.leave(line, link, error),
    );
  }
}
