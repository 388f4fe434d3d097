import type { Link } from '../../common/list.js';
import type { Timing } from '../../common/timing.js';
import type { MaybePromise, PolicySet } from '../../contract/store.js';
import type { LimiterDecision } from '../decision.js';
import type { Request, WaitRequest } from '../request.js';
import { inLine, isOfSharedSlots, sharesSlots } from './process-line.js';
import { deniedError, fullError, lateError } from './wait-errors.js';
import { ASKED, HELD, QUEUED, setOf, type Waiter } from './waiter.js';
import { ASKING, RESTING, SLEEPING, type Watcher, type Gate, type WaitingLine } from './waiting-line.js';

export interface Host {
  /** Whether requests of other processes may wait for the same keys. */
  readonly hasPeers: boolean;
  /** The number of this process in the lines of processes. Absent if no other process waits for the same keys. */
  readonly process?: (() => number) | undefined;
  /** The time for which this process usually holds a slot, ms. Undefined until this process has released a slot. */
  readonly holdMs?: number | undefined;
  decide(request: Request): MaybePromise<LimiterDecision>;
  /** Holds an admitted request until its turn, behind all held requests. */
  hold(
    decision: LimiterDecision,
    signal: AbortSignal | undefined,
    request: WaitRequest,
  ): Promise<LimiterDecision>;
}

export interface Members {
  readonly isClosed: boolean;
  remove(line: WaitingLine, link: Link<Waiter>): void;
  /** Takes a waiter out of the line, and rejects the waiter's promise. */
  leave(line: WaitingLine, link: Link<Waiter>, error: unknown): void;
  /** Gives a waiter a place. @returns false if there is none */
  takePlace(line: WaitingLine, link: Link<Waiter>): boolean;
  /** Gives every waiter of a line a place, or rejects its wait. */
  takePlaces(line: WaitingLine): void;
  gateOf(line: WaitingLine, denial: LimiterDecision): Gate;
  move(line: WaitingLine, gate: Gate): void;
  close(gate: Gate): void;
}

/** Asks the store for the waiters of gates. The pace of each gate determines the times. */
export class Questions {
  readonly #timing: Timing;
  readonly #host: Host;
  readonly #members: Members;

  constructor(timing: Timing, host: Host, members: Members) {
    this.#timing = timing;
    this.#host = host;
    this.#members = members;
  }

  /** Asks at a gate now, because units were given back or limits have changed. */
  wake(gate: Gate): void {
    gate.wasWoken = true;
    gate.pace.wake();
    void this.ask(gate);
  }

  /** Asks the store for the first waiters, and for further waiters as long as the store admits. Never rejects. */
  async ask(gate: Gate): Promise<void> {
    if (gate.state === ASKING) return;
    gate.state = ASKING;
    gate.stopTimer();
    const { pace } = gate;
    let sleep = pace.sleepMs(this.#timing.now());
    while (gate.next && sleep <= 0) {
      gate.wasWoken = false;
      sleep = await (pace.isDenied ? this.#look(gate, gate.next) : this.#askFor(gate));
      if (gate.wasWoken) sleep = 0;
      pace.sleep(sleep, this.#timing.now());
    }
    for (const line of gate.newcomers) this.#members.takePlaces(line);
    gate.newcomers.clear();
    // A denial of waiters that have left may not apply to the remaining waiters.
    if (!gate.next && pace.isDenied) {
      pace.wake();
      sleep = 0;
    }
    // After an admission, a gate stays open for its pause, because the next request has to wait for the pause.
    const isOpen = gate.size > 0 ? gate.next : sleep > 0 && !this.#members.isClosed;
    if (isOpen) {
      this.#sleep(gate, sleep);
    } else {
      gate.state = RESTING;
      if (gate.size === 0) this.#members.close(gate);
    }
  }

  #sleep(gate: Gate, ms: number): void {
    gate.stopTimer();
    gate.state = SLEEPING;
    gate.stopTimer = this.#timing.after(ms, () => {
      gate.pace.awake();
      void this.ask(gate);
    });
  }

  /** Looks whether units were given back since the denial. @returns the sleep if not, ms */
  async #look({ pace }: Gate, { value }: Link<Waiter>): Promise<number> {
    const set = setOf(value, this.#timing.now());
    try {
      const { allowed } = await this.#host.decide({ ...value.request, set, peek: true });
      const sleep = allowed ? 0 : pace.sleepAfterLook(this.#timing.now());
      if (sleep > 0) return sleep;
    } catch {
      // The first waiter gets the error from the next question.
    }
    pace.endDenial();
    return 0;
  }

  /** Asks the store for the first waiters. @returns the sleep before the next question, ms */
  async #askFor(gate: Gate): Promise<number> {
    const asked = this.#timing.now();
    const { set: own, group, isAll } = gate.group(asked);
    const isFair = sharesSlots(own);
    const all = isFair ? [...group, ...gate.due(asked, group)] : group;
    gate.forgetReturns();
    const answers = await Promise.allSettled(
      all.map(({ line, link }, i) => {
        line.askedAt = asked;
        link.value.asker = gate;
        // The tenants of slots have a line of processes each.
        const waits = isFair ? all.findLast((each) => each.line === line)!.link.after !== undefined : !isAll;
        return this.#decide(link.value, i < group.length ? own : setOf(link.value, asked), waits);
      }),
    );
    const givenBack: Promise<void>[] = [];
    let sleep = 0;
    for (let i = 0; i < all.length; i++) {
      const { line, link } = all[i]!;
      const isDue = i >= group.length;
      const answer = answers[i]!;
      // The line of an earlier waiter may stand at another gate by now, which may have asked again.
      const isOwn = link.value.asker === gate;
      const isHere = isOwn && line.gate === gate;
      if (answer.status === 'rejected') {
        if (isOwn) this.#members.leave(line, link, answer.reason);
      } else if (!answer.value.allowed) {
        if (!isHere) continue;
        const own = this.#deny(gate, all[i]!, answer.value, isDue);
        sleep ||= own;
      } else if ((sleep > 0 && !isDue) || !isHere || !this.#admit(gate, all[i]!, answer.value))
        givenBack.push(this.#giveBack(link, answer.value));
    }
    await Promise.all(givenBack);
    for (const { line, link } of all) {
      const waiter = link.value;
      if (waiter.state !== ASKED || waiter.asker !== gate) continue;
      waiter.state = QUEUED;
      if (waiter.error === undefined) continue;
      const own = line.gate!;
      this.#members.leave(line, link, waiter.error);
      this.wake(own);
    }
    if (gate.isAround) return 0;
    return sleep > 0 ? sleep : gate.pace.sleepAfterAdmission(asked, this.#timing.now());
  }

  /** @param waits whether further requests wait for their turn */
  async #decide(waiter: Waiter, own: PolicySet, waits: boolean): Promise<LimiterDecision> {
    const { process, holdMs } = this.#host;
    const set = process ? inLine(own, { process: process(), waits, holdMs }) : own;
    waiter.state = ASKED;
    return this.#host.decide({ ...waiter.request, set });
  }

  /** Records the denial of a waiter. @returns the gate's sleep, ms, or 0 if the wait has ended or the line stands at another gate now */
  #deny(gate: Gate, { line, link }: Watcher, decision: LimiterDecision, isDue: boolean): number {
    const waiter = link.value;
    const now = this.#timing.now();
    const to = this.#members.gateOf(line, decision);
    const isJoined = to !== gate && to.next !== undefined;
    const delay = to.pace.deny(decision, this.#host.holdMs, to.isCrowded);
    const { leastMs, aheadMs } = delay;
    if (leastMs === undefined) waiter.error ??= deniedError(decision);
    else if (isTooLate(waiter, decision, now + leastMs + aheadMs))
      waiter.error ??= lateError(waiter.request.key, decision);
    if (waiter.error !== undefined) {
      this.#members.leave(line, link, waiter.error);
      if (to.size === 0) void this.ask(to);
      return 0;
    }
    if (isJoined) {
      // The first line of the other gate knows when to ask.
      this.#members.move(line, to);
      return 0;
    }
    if (isDue && to === gate) return 0;
    const sleep = to.pace.sleepAfterDenial(decision, delay, line.askedAt, now);
    if (to === gate) {
      const isOfAnother = decision.reason === 'fair-share' || decision.reply.standing?.isAhead;
      if (!isOfSharedSlots(decision) || !isOfAnother || !gate.lookAround(now)) return sleep;
      gate.pace.endDenial();
      return 0;
    }
    this.#members.move(line, to);
    to.pace.sleep(gate.wasWoken ? 0 : sleep, now);
    void this.ask(to);
    return 0;
  }

  /** Records the admission of a waiter. @returns false if its charge must be given back */
  #admit(gate: Gate, { line, link }: Watcher, decision: LimiterDecision): boolean {
    const waiter = link.value;
    const { delayMs } = decision;
    const { key } = waiter.request;
    // Earlier waiters may still have their turns first.
    const waits = delayMs > 0 || line.first !== link;
    // An admission that needs no turn is never too late: only this process was busy, or the timer would have fired.
    if (delayMs > 0 && this.#timing.now() + delayMs > waiter.deadline)
      waiter.error ??= lateError(key, decision.tooLate());
    else if (waits && !this.#members.takePlace(line, link)) waiter.error ??= fullError(key);
    if (waiter.error !== undefined) return false;
    gate.pace.admit(decision, this.#host.holdMs);
    if (waits) {
      this.#hold(line, link, decision);
    } else {
      this.#members.remove(line, link);
      waiter.resolve(decision);
    }
    gate.spend(line, waiter.costs.cost);
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
    this.#host.hold(decision, waiter.turn.signal, waiter.request).then(
      () => {
        this.#members.remove(line, link);
        waiter.resolve(decision);
      },
      (error: unknown) => this.#members.leave(line, link, error),
    );
  }
}

/** Whether a denied waiter gives up. Nobody gives a ban back. @param at the earliest admission if no units are given back */
function isTooLate({ request, deadline }: Waiter, { reason }: LimiterDecision, at: number): boolean {
  return at >= deadline && (reason === 'banned' || !request.hopes);
}
