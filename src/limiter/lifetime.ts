import { HeadgateError } from '../common/errors.js';

/** The life of a limiter: whether the limiter is closed, and the promises that must end before the store is closed. */
export class Lifetime {
  isClosed = false;
  /** Called when the last pending promise has ended. */
  onIdle = (): void => {};
  readonly #name: string;
  readonly #pending = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  /** @param name the limiter's name, for the error */
  constructor(name: string) {
    this.#name = name;
  }

  closedError(): HeadgateError {
    return new HeadgateError('HEADGATE_CLOSED', `The limiter ${JSON.stringify(this.#name)} is closed.`);
  }

  /** @throws HeadgateError `HEADGATE_CLOSED` */
  checkOpen(): void {
    if (this.isClosed) throw this.closedError();
  }

  /** Delays the end until a promise has ended. @returns the promise's result */
  async track<T>(promise: Promise<T>): Promise<T> {
    this.#pending.add(promise);
    try {
      return await promise;
    } finally {
      this.#pending.delete(promise);
      if (this.#pending.size === 0) this.onIdle();
    }
  }

  /**
   * Ends the life, once.
   *
   * @param stop ends the limiter's timers and waits
   * @param finish closes the store, after every pending promise has ended
   */
  close(stop: () => void, finish: () => unknown): Promise<void> {
    return (this.#closing ??= this.#close(stop, finish));
  }

  async #close(stop: () => void, finish: () => unknown): Promise<void> {
    this.isClosed = true;
    stop();
    await Promise.allSettled(this.#pending);
    await finish();
  }
}
