import type { HeadgateError } from '../../common/errors.js';
import { unanswered, type Reply } from '../../contract/reply.js';
import type { Query } from '../../contract/store.js';
import type { Circuit } from './circuit.js';
import type { FailureValues } from './guard-options.js';
import type { Local } from './local.js';

/** The way to decide without the store: see `FailureOptions.onStoreError`. */
export interface Strategy {
  /**
   * Decides in place of the store.
   *
   * @param error the store's error, or undefined if the store was not asked, because `down` is down
   * @throws the error, under 'throw'
   */
  decide(query: Query, error: HeadgateError | undefined, down?: Circuit): Reply;
  /** Whether a request without the store's answer is turned away, so that a late charge must be given back. */
  readonly isTurnedAway: boolean;
}

export function strategyOf(mode: FailureValues['onStoreError'], local: Local): Strategy {
  if (mode === 'local')
    return { isTurnedAway: false, decide: (query, error) => ({ ...local.decide(query), error }) };
  if (mode === 'throw') {
    const decide: Strategy['decide'] = (_, error, down) => {
      throw error ?? down!.error();
    };
    return { isTurnedAway: true, decide };
  }
  return {
    isTurnedAway: mode === 'deny',
    decide(_, error) {
      const late = error?.code === 'HEADGATE_PROCESS_LATE';
      const reply = { ...unanswered(), degraded: mode, error };
      return late ? { ...reply, late } : reply;
    },
  };
}
