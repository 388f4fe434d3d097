import { Eventual, type Listener } from '../../common/eventual.js';
import { HeadgateError } from '../../common/errors.js';
import { performance, setImmediate, setTimeout } from '../../common/real-time.js';
import type { Call } from '../../contract/store.js';
import { MAX_TIMER_DELAY_MS } from './guard-options.js';

/** The caller of a question, who waits for the answer. */
export interface Awaiting {
  /** The state of the call, in which the store sets the end of the caller's patience. */
  readonly call: Call;
  /** The time at which the wait began, by `performance.now()`. Set by `wait`. */
  asked: number;
  /** The neighbours among all callers that wait, in the order in which they began. */
  previous: Awaiting | undefined;
  next: Awaiting | undefined;
  /** Called with `HEADGATE_STORE_TIMEOUT` at the end of the time, unless `finish` was called before. */
  expire(error: HeadgateError): void;
}

/**
 * Gives up calls that are not answered in time. The time begins when the store sends the call. One timer serves all calls, because calls are
 * sent in the order in which their callers began to wait, or so close together that the order hardly matters.
 */
export class Timeouts {
  readonly #ms: number;
  readonly #patience: () => number;
  readonly #startTimer: typeof setTimeout;
  #head: Awaiting | undefined;
  #tail: Awaiting | undefined;
  /** The timer, or undefined if there is none or it has fired. */
  #timer: NodeJS.Timeout | undefined;
  #armed = false;
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

  /** Passes the outcome of an answer to the caller, who must then call `finish` unless the time is over. */
  wait<T>(caller: Awaiting & Listener<T>, answer: Promise<T>): void {
    caller.asked = performance.now();
    caller.previous = this.#tail;
    // The process stays alive for an answer, but not for the rest of its timer.
    if (!this.#head) this.#timer?.ref();
    if (this.#tail) this.#tail.next = caller;
    else this.#head = caller;
    this.#tail = caller;
    if (!this.#armed) this.#arm(this.#ms);
    Eventual.listen(answer, caller);
  }

  /**
   * Ends a caller's wait, because the answer is here or the time is over. Must be called once.
   *
   * @returns whether the time has been over for longer than timers are late. The store's answer was then in time, and this process read the
   * answer too late
   */
  finish(caller: Awaiting): boolean {
    // Takes the caller off the list at once. Otherwise an older call that stalls would keep it in memory.
    const { previous, next } = caller;
    if (previous) previous.next = next;
    else this.#head = next;
    if (next) next.previous = previous;
    else this.#tail = previous;
    caller.previous = caller.next = undefined;
    if (!this.#head) {
      this.#timer?.unref();
      for (const resolve of this.#idle.splice(0)) resolve();
    }
    return this.#due(caller) + MAX_TIMER_DELAY_MS <= performance.now();
  }

  /** Resolves when no caller waits. */
  async idle(): Promise<void> {
    if (this.#head) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #due({ call, asked }: Awaiting): number {
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
