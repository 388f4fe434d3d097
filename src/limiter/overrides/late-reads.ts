import { HeadgateError } from '../../common/errors.js';

/** The codes of errors of a store, or of this process, that was busy for a moment. */
const LATE: readonly string[] = ['HEADGATE_STORE_TIMEOUT', 'HEADGATE_PROCESS_LATE'];

/** The late reads in a row from which on they are reported. */
const MAX_LATE = 5;

/**
 * Reads that are repeated every second. A late one has no effect, because the last override stays known and the next read follows, so only
 * several in a row are a failure.
 */
export class RepeatedReads {
  #late = 0;

  /** The outcome of the next read, unless it is only late. */
  async outcome(read: Promise<void>): Promise<void> {
    try {
      await read;
      this.#late = 0;
    } catch (error) {
      const isLate = error instanceof HeadgateError && LATE.includes(error.code);
      if (!isLate || ++this.#late >= MAX_LATE) throw error;
    }
  }
}
