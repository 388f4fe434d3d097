import { performance } from 'node:perf_hooks';
import { HeadgateError } from '../errors.js';
import type { Subject } from './store.js';

/** Something that is awaited. */
export interface Awaited {
  /** What was asked: the store writes into it until when it is awaited. */
  readonly subject: Subject;
  /** Set by `add`. */
  asked: number;
  open: boolean;
  /** Its neighbours among what is awaited. */
  previous: Awaited | undefined;
  next: Awaited | undefined;
  /** Called with `HEADGATE_STORE_TIMEOUT` when the time is over, unless `settle` was. */
  expire(error: HeadgateError): void;
}

/**
 * Gives up on what has not come in time: the store's time, which begins when it is written what was asked. One timer for all: they
 * are written in the order in which they were added, or so close together that nobody waits much longer for another.
 */
export class Timeouts {
  readonly #ms: number;
  readonly #patience: () => number;
  #head: Awaited | undefined;
  #tail: Awaited | undefined;
  /** Undefined when there is none, and once it has fired. */
  #timer: NodeJS.Timeout | undefined;
  #armed = false;
  #pending = 0;
  #idle: (() => void)[] = [];

  /** @param ms from when it is written, @param patience from when it is asked, as long as it is not written */
  constructor(ms: number, patience: () => number = () => ms) {
    this.#ms = ms;
    this.#patience = patience;
  }

  add(awaited: Awaited): void {
    awaited.asked = performance.now();
    awaited.open = true;
    awaited.previous = this.#tail;
    if (this.#tail) this.#tail.next = awaited;
    else this.#head = awaited;
    this.#tail = awaited;
    // The process stays for an answer, not for the timer of one that has come.
    if (this.#pending++ === 0) this.#timer?.ref();
    if (!this.#armed) this.#arm(this.#ms);
  }

  /** Whether its time is over. What has come, and is awaited nevertheless, was in time: this process reads it too late. */
  isOverdue(awaited: Awaited): boolean {
    return this.#due(awaited) <= performance.now();
  }

  /** It has come. False if it was given up before. */
  settle(awaited: Awaited): boolean {
    if (!awaited.open) return false;
    awaited.open = false;
    // At once, so that nothing is kept for as long as an older one stalls.
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

  /** Resolves when nothing is awaited. */
  async idle(): Promise<void> {
    if (this.#pending > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #due({ subject, asked }: Awaited): number {
    return subject.until || asked + this.#patience();
  }

  /** Never longer than the time from writing on: what is written meanwhile is due after that. */
  #arm(ms: number): void {
    this.#armed = true;
    this.#timer = setTimeout(this.#wake, Math.ceil(Math.min(ms, this.#ms)));
  }

  // A process that was busy finds its timers before its sockets: answers that have arrived meanwhile come first.
  readonly #wake = (): void => {
    this.#timer = undefined;
    const now = performance.now();
    setImmediate(() => {
      this.#armed = false;
      for (let head = this.#head; head && this.#due(head) <= now; head = this.#head) {
        this.settle(head);
        head.expire(
          new HeadgateError('HEADGATE_STORE_TIMEOUT', `The store took longer than ${this.#ms} ms.`),
        );
      }
      if (this.#head && !this.#armed) this.#arm(this.#due(this.#head) - performance.now());
    });
  };
}
