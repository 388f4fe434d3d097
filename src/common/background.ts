import { HeadgateError, withoutPage } from './errors.js';
import { warnOnce, type Warn } from './warnings.js';

/** The codes of errors that are reported elsewhere: the guard reports a store that is down, and a user knows that the limiter is closed. */
const REPORTED: readonly string[] = ['HEADGATE_STORE_AWAY', 'HEADGATE_CLOSED'];

/**
 * Reports the error of work that no caller waits for.
 *
 * @param failed a sentence about the failure and its effect, which is reported once
 * @returns the end of the work, which never fails
 */
export function inBackground(failed: string, work: Promise<unknown>, warn: Warn = warnOnce): Promise<void> {
  return work.then(
    () => {},
    (error: unknown) => warnOfBackground(failed, error, warn),
  );
}

/** Warns of an error that no caller receives, once for each failure. */
export function warnOfBackground(failed: string, error: unknown, warn: Warn = warnOnce): void {
  if (error instanceof HeadgateError && REPORTED.includes(error.code)) return;
  const message = error instanceof Error ? error.message : String(error);
  warn('HEADGATE_BACKGROUND', `${failed}: ${withoutPage(message)}`, failed);
}
