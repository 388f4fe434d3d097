// A waiter passes these states:
//
//   QUEUED ──> ASKED    a question to the store is sent for the first waiters of the line
//   ASKED ──> QUEUED    the store denied the waiter, or admitted it behind a denied one, and its charge was given back
//   ASKED ──> HELD      the store admitted the waiter, and its turn or the turns before it are still to come
//   ASKED ──> DONE      the store admitted the waiter at once, denied it for good or for too long, or failed
//   HELD ──> DONE       the turn has come, or was given back because the waiter gave up
//   QUEUED ──> DONE     the waiter gave up, lost its place, or the room was closed
//
// A waiter that gives up while it is ASKED or HELD gets an `error`, and is DONE once its charge has been given back.
//
// A line passes these states:
//
//   RESTING ──> ASKING     the first waiter came, or the line was woken
//   ASKING ──> SLEEPING    the store denied, or admitted and another question must not follow at once
//   SLEEPING ──> ASKING    the sleep is over, or units were given back
//   ASKING ──> RESTING     all waiters are HELD
//   ASKING ──> CLOSED      no waiter is left, and no pause
import { onAbort } from '../../common/abort.js';
import type { HeadgateError } from '../../common/errors.js';
import type { Link } from '../../common/list.js';
import type { Timing } from '../../common/timing.js';
import { costsOf, type Cost } from '../../contract/costs.js';
import { joined } from '../../contract/parts.js';
import type { LimiterDecision } from '../decision.js';
import { Lines } from './lines.js';
import { Questions, type Host } from './questions.js';
import { abortedError, fullError, lateError } from './wait-errors.js';
import { ASKED, ASKING, CLOSED, HELD, QUEUED, WaitingLine, type Waiter, type Who } from './waiting-line.js';

/** The requests that wait for admission, by key and in order of arrival. */
export class WaitingRoom {
  readonly #timing: Timing;
  readonly #questions: Questions;
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
    const isClosed = (): boolean => this.#isClosed;
    this.#questions = new Questions(timing, host, {
      get isClosed() {
        return isClosed();
      },
      remove: (line, link) => this.#remove(line, link),
      leave: (line, link, error) => this.#leave(line, link, error),
      takePlace: (line, link) => this.#takePlace(line, link),
      takePlaces: (line) => this.#takePlaces(line),
      close: (line) => this.#close(line),
      wake: (ids) => this.wake(ids),
    });
    const make = (key: string): WaitingLine => new WaitingLine(key, host.isShared);
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
    if (signal?.aborted) return Promise.reject(abortedError(signal));
    const line = this.#lines.open(joined(who.ids));
    const before = line.lastBefore(priority);
    const after = before ? before.after : line.first;
    // Beside a waiter that was denied, the newcomer has to wait, too. Otherwise the store's answer decides.
    const hasPlace = (line.next !== undefined && line.state !== ASKING) || after?.value.hasPlace === true;
    if (hasPlace && !this.#lines.take(line, who.isUnbounded)) return Promise.reject(fullError(who.key));
    if (!line.first) this.#open(line, who.ids);
    return new Promise((resolve, reject) => {
      const came = this.#timing.now();
      const waiter: Waiter = {
        who,
        cost,
        costs: costsOf(cost, who.set.policies),
        priority,
        came,
        deadline: came + timeout,
        resolve,
        reject,
        state: QUEUED,
        hasPlace,
        turn: undefined,
        error: undefined,
        stop: () => {},
      };
      const onTimeout = (): void => this.#giveUp(line, link, lateError(who.key, line.pace.denial));
      let stopTimer = (): void => {};
      let stopListening = (): void => {};
      waiter.stop = () => {
        stopTimer();
        stopListening();
      };
      const link = line.join(waiter, before);
      if (timeout !== Infinity) stopTimer = this.#timing.after(timeout, onTimeout);
      stopListening = onAbort(signal, () => this.#giveUp(line, link, abortedError(signal)));
      if (line.next === link) void this.#questions.ask(line);
    });
  }

  #open(line: WaitingLine, ids: readonly string[]): void {
    line.ids = ids;
    if (ids.length === 1) return;
    for (const id of ids) {
      const lines = this.#byPart.get(id) ?? new Set();
      this.#byPart.set(id, lines.add(line));
    }
  }

  #close(line: WaitingLine): void {
    line.state = CLOSED;
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
      if (line) this.#questions.wake(line);
      const lines = this.#byPart.get(id);
      const [next] = lines ?? [];
      if (!lines || !next) continue;
      lines.delete(next);
      lines.add(next);
      this.#questions.wake(next);
    }
  }

  /** Wakes the first waiter of each line, because limits may have changed. */
  wakeAll(): void {
    for (const line of [...this.#lines]) this.#questions.wake(line);
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

  /** Takes the place of the last bounded waiter of a line, and ends its wait. */
  #giveWay(line: WaitingLine): void {
    const link = line.lastBounded();
    link.value.hasPlace = false;
    if (line.newcomer === link.after) line.newcomer = link;
    this.#lines.vacate(line);
    this.#end(line, link, fullError(link.value.who.key));
  }

  /** Ends a wait at its timeout, or because the caller aborted it. */
  #giveUp(line: WaitingLine, link: Link<Waiter>, error: unknown): void {
    const isNext = line.next === link && link.value.state === QUEUED;
    this.#end(line, link, error);
    if (isNext) this.#questions.wake(line);
  }

  /** Ends a wait: at once, after the store's answer, or when the waiter's turn was given back. */
  #end(line: WaitingLine, link: Link<Waiter>, error: unknown): void {
    const waiter = link.value;
    waiter.error ??= error;
    if (waiter.state === HELD) waiter.turn?.abort();
    else if (waiter.state !== ASKED) this.#leave(line, link, error);
  }

  /** Takes a waiter out of its line, with an error. An earlier error takes precedence. */
  #leave(line: WaitingLine, link: Link<Waiter>, error: unknown): void {
    this.#remove(line, link);
    link.value.reject(link.value.error ?? error);
  }

  #remove(line: WaitingLine, link: Link<Waiter>): void {
    line.leave(link);
    if (link.value.hasPlace) this.#lines.vacate(line, link.value.who.isUnbounded);
    if (!line.first) void this.#questions.ask(line);
  }

  #takePlace(line: WaitingLine, link: Link<Waiter>): boolean {
    const waiter = link.value;
    if (line.newcomer === link) line.newcomer = link.after;
    return (waiter.hasPlace ||= this.#lines.take(line, waiter.who.isUnbounded));
  }

  /** Gives places to all waiters in line, because they have to wait, and rejects those that cannot have a place. */
  #takePlaces(line: WaitingLine): void {
    for (let link = line.newcomer; link; link = line.newcomer) {
      if (link.value.error === undefined && this.#takePlace(line, link)) continue;
      line.newcomer = link.after;
      this.#end(line, link, fullError(link.value.who.key));
    }
  }
}
