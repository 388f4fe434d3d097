import { HeadgateError } from '../../common/errors.js';
import { performance, setImmediate, setTimeout } from '../../common/real-time.js';
import type { Call } from '../../contract/store.js';

/** A call whose answer is awaited. */
export interface Awaited {
  /** The call's state, in which the store sets the end of the caller's patience. */
  readonly call: Call;
  /** Set by `add`. */
  asked: number;
  open: boolean;
  /** The neighbours among the awaited calls. */
  previous: Awaited | undefined;
  next: Awaited | undefined;
  /** Called with `HEADGATE_STORE_TIMEOUT` at the end of the time, unless `finish` was called before. */
  expire(error: HeadgateError): void;
}

/** The most that a timer is late in a process that is not busy, ms. */
const MAX_TIMER_DELAY_MS = 5;

/**
 * Gives up calls that are not answered in time. The time begins when the store sends the call. One timer serves all calls, because they are
 * sent in the order in which they were added, or so close together that the order hardly matters.
 */
export class Timeouts {
  readonly #ms: number;
  readonly #patience: () => number;
  readonly #startTimer: typeof setTimeout;
  #head: Awaited | undefined;
  #tail: Awaited | undefined;
  /** The timer, or undefined if there is none or it has fired. */
  #timer: NodeJS.Timeout | undefined;
  #armed = false;
  #pending = 0;
  #idle: (() => void)[] = [];

  /**
   * @param ms the time to wait after a call is sent
   * @param patience the time to wait for a call to be sent
   * @param startTimer for tests
   */
  constructor(ms: number, patience: () => number = () => ms, startTimer = setTimeout) {
    this.#ms = ms;
    this.#patience = patience;
    this.#startTimer = startTimer;
  }

  add(awaited: Awaited): void {
    awaited.asked = performance.now();
    awaited.open = true;
    awaited.previous = this.#tail;
    if (this.#tail) this.#tail.next = awaited;
    else this.#head = awaited;
    this.#tail = awaited;
    // The process stays alive for an awaited answer, but not for the rest of its timer.
    if (this.#pending++ === 0) this.#timer?.ref();
    if (!this.#armed) this.#arm(this.#ms);
  }

  /**
   * Whether a call's time has been over for longer than timers are late. If the answer is here and was still awaited, the store was in time,
   * and this process read it too late.
   */
  isOverdue(awaited: Awaited): boolean {
    return this.#due(awaited) + MAX_TIMER_DELAY_MS <= performance.now();
  }

  /** Ends a call, because its answer is here. @returns false if the call was given up before */
  finish(awaited: Awaited): boolean {
    if (!awaited.open) return false;
    awaited.open = false;
    // Takes the call off the list at once. Otherwise an older call that stalls would keep it in memory.
    const { previous, next } = awaited;
    if (previous) previous.next = next;
    else this.#head = next;
    if (next) next.previous = previous;
    else this.#tail = previous;
    awaited.previous = awaited.next = undefined;
    if (--this.#pending === 0) {
      this.#timer?.unref();
      for (const resolve of this.#idle.splice(0)) resolve();
    }
    return true;
  }

  /** Resolves when no call is awaited. */
  async idle(): Promise<void> {
    if (this.#pending > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #due({ call, asked }: Awaited): number {
    return call.until || asked + this.#patience();
  }

  /** Sleeps for at most `ms`, because any call that is sent meanwhile is due after that. */
  #arm(ms: number): void {
    this.#armed = true;
    this.#timer = this.#startTimer(this.#wake, Math.ceil(Math.min(Math.max(ms, 0), this.#ms)));
  }

  // After a long turn of the event loop Node runs timers before it reads sockets. Answers that have arrived must be handled first.
  readonly #wake = (): void => {
    this.#timer = undefined;
    const now = performance.now();
    setImmediate(() => {
      this.#armed = false;
      for (let head = this.#head; head && this.#due(head) <= now; head = this.#head) {
        this.finish(head);
        const ms = head.call.until ? this.#ms : this.#patience();
        head.expire(new HeadgateError('HEADGATE_STORE_TIMEOUT', `The store took longer than ${ms} ms.`));
      }
      if (this.#head && !this.#armed) this.#arm(this.#due(this.#head) - performance.now());
    });
  };
}
