import { HeadgateError } from '../common/errors.js';
import type { Call } from '../contract/store.js';

export function coded(error: unknown): HeadgateError {
  if (error instanceof HeadgateError) return error;
  const message = plainWords(error instanceof Error ? error.message : String(error));
  return new HeadgateError('HEADGATE_STORE_ERROR', `The store failed: ${message}`, { cause: error });
}

/** Whether the error concerns only the request, so that the store is up. */
export function isOfRequest(error: HeadgateError): boolean {
  return error.code === 'HEADGATE_MALFORMED_REPLY' || wordsOf(error).startsWith('WRONGTYPE');
}

const losses = new WeakSet<HeadgateError>();

/** Marks the error of a store that may have lost its counts, and goes on without them. */
export function lossOf(error: HeadgateError): HeadgateError {
  losses.add(error);
  return error;
}

/** Whether an error is of a loss. It is reported at once, as the next call may succeed. */
export function isLoss(error: HeadgateError): boolean {
  return losses.has(error);
}

/** Whether the store refused a question without asking a server, so that nothing is learned of any. */
export function isRefused(error: HeadgateError): boolean {
  return error.code === 'HEADGATE_DIMENSIONS';
}

/**
 * Errors by which Redis, or its REST API, refuses to run a script, or ends it at its first write. A long command before authentication causes a protocol
 * error.
 */
const REFUSAL =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|MOVED|ASK|TRYAGAIN|MISCONF|OOM|NOREPLICAS|BUSY|NOAUTH|NOPERM|ERR Protocol error:|ERR max number of clients|HTTP [34]\d\d) /;

/** Whether a failed call has certainly changed nothing, because it was never sent or the server refused it. */
export function hasDoneNothing(error: HeadgateError, { until }: Call): boolean {
  if (error.code === 'HEADGATE_PROCESS_LATE' || isRefused(error)) return true;
  return error.code === 'HEADGATE_STORE_AWAY' ? until === 0 : REFUSAL.test(wordsOf(error));
}

/** Errors of a user who may not run a command, or not on a key or a table. */
const NOT_PERMITTED = /NOPERM|ACL failure|can't run this command|can't access|permission denied/i;

/** Whether the server refused a call for lack of a permission. */
export function isNotPermitted({ message, cause }: Error): boolean {
  return NOT_PERMITTED.test(cause instanceof Error ? cause.message : message);
}

/** Whether a repeated call would fail again, because the server refuses this call. */
export function failsAgain(error: HeadgateError): boolean {
  const words = wordsOf(error);
  return isOfRequest(error) || isRefused(error) || (words.startsWith('ERR ') && !REFUSAL.test(words));
}

function wordsOf({ message, cause }: HeadgateError): string {
  return plainWords(cause instanceof Error ? cause.message : message);
}

/** The prefix that Redis before 7.0 adds to errors of commands in scripts: the position in the script. */
const PLACE = /^(ERR )?(Error running script \(call to \w+\): )?((@?user_script: ?|=\[C\]: )-?\d+: )+-?/;

/** The suffix that Redis 7.0 and later, and Valkey add to errors of scripts. Valkey 9.1 omits the hash. */
const SCRIPT = / script: (\w+, )?on @user_script:\d+\.?$/;

/** Redis repeats the arguments of an unknown command. The arguments include a client's key, which must not appear in logs. */
const ARGUMENTS = /, with args beginning with: .*$/s;

/** A server's error text without position and arguments. */
export function plainWords(words: string): string {
  return words.trim().replace(PLACE, '').replace(SCRIPT, '').replace(ARGUMENTS, '');
}
