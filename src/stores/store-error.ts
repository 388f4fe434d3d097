import { HeadgateError } from '../common/errors.js';
import type { Subject } from '../contract/store.js';

/** What a store has failed with, as an error of Headgate. */
export function coded(error: unknown): HeadgateError {
  if (error instanceof HeadgateError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new HeadgateError('HEADGATE_STORE_ERROR', `The store failed: ${message}`, { cause: error });
}

/** Whether only this request is the trouble: the store has answered, and is up. */
export function isOfRequest(error: HeadgateError): boolean {
  return error.code === 'HEADGATE_MALFORMED_REPLY' || wordsOf(error).startsWith('WRONGTYPE');
}

/** What Redis says when it runs no script, or ends one at its first write. To a long command before its password, it tells of a protocol error. */
const REFUSAL =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|MISCONF|OOM|NOAUTH|NOPERM|ERR Protocol error:|ERR max number of clients) /;

/** Whether a call that has failed has certainly changed nothing: it was not written, or the server says so. */
export function hasDoneNothing(error: HeadgateError, { until }: Subject): boolean {
  if (error.code === 'HEADGATE_PROCESS_LATE') return true;
  return error.code === 'HEADGATE_STORE_AWAY' ? !until : REFUSAL.test(wordsOf(error));
}

/** Whether a call would fail again: the server has answered that this very call cannot be run. */
export function failsAgain(error: HeadgateError): boolean {
  const words = wordsOf(error);
  return isOfRequest(error) || (words.startsWith('ERR ') && !REFUSAL.test(words));
}

function wordsOf({ message, cause }: HeadgateError): string {
  return plainWords(cause instanceof Error ? cause.message : message);
}

/** What Redis before 7.0 puts before the words of a command that a script has called: where in the script that was. */
const PLACE = /^(ERR )?(Error running script \(call to \w+\): )?((@?user_script: ?|=\[C\]: )-?\d+: )+-?/;

/** A server's words without what says where in a script they come from. */
export function plainWords(words: string): string {
  return words.replace(PLACE, '').trim();
}
