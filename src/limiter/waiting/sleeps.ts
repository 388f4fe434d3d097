import { onAbort } from '../../common/abort.js';
import type { HeadgateError } from '../../common/errors.js';
import type { Timing } from '../../common/timing.js';

/** The sleeps of a limiter, which an abort or the end of the limiter cuts short. */
export class Sleeps {
  readonly #timing: Timing;
  readonly #ends = new Set<(error: Error) => void>();

  constructor(timing: Timing) {
    this.#timing = timing;
  }

  /** Sleeps. @throws the signal's reason, or the error that `close` gets */
  sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        stopTimer();
        stopListening();
        this.#ends.delete(end);
      };
      const end = (error: Error): void => {
        stop();
        reject(error);
      };
      const stopListening = onAbort(signal, () => end(signal!.reason as Error));
      const stopTimer = this.#timing.after(Math.max(0, ms), () => {
        stop();
        resolve();
      });
      this.#ends.add(end);
    });
  }

  close(error: HeadgateError): void {
    for (const end of this.#ends) end(error);
  }
}
