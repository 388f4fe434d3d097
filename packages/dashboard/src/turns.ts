import { refuse, RefusedError } from './input.js';

/** Runs tasks one at a time, in the order of their calls. A call is refused while too many others wait. */
export class Turns {
  readonly #mostWaiting: number;
  #waiting = 0;
  /** Settles when the last task has ended. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(mostWaiting: number) {
    this.#mostWaiting = mostWaiting;
  }

  /**
   * Runs a task after all earlier ones.
   *
   * @param isWanted whether the task shall still run at its turn
   * @throws RefusedError if too many tasks wait, or if the task is not wanted at its turn
   */
  async run<T>(task: () => Promise<T>, isWanted: () => boolean = () => true): Promise<T> {
    if (this.#waiting >= this.#mostWaiting)
      refuse('Other visitors search the store right now. Try again in a few seconds.', 503);
    this.#waiting++;
    const done = this.#last.then(() => {
      this.#waiting--;
      if (!isWanted()) throw new RefusedError('The visitor has left.', 503);
      return task();
    });
    this.#last = done.catch(() => undefined);
    return done;
  }
}
