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
   * @param error the store's error, or undefined if the store was not asked
   * @param failing the circuit of the server that fails or, without an error, is down
   * @throws the error, under 'throw'
   */
  decide(query: Query, error: HeadgateError | undefined, failing?: Circuit): Reply;
  /** Whether a request without the store's answer is turned away, so that a late charge must be given back. */
  readonly isTurnedAway: boolean;
}

export function strategyOf(mode: FailureValues['onStoreError'], local: Local): Strategy {
  if (mode === 'local')
    return {
      isTurnedAway: false,
      decide: (query, error, failing) => ({ ...local.decide(query, failing), error }),
    };
  if (mode === 'throw') {
    const decide: Strategy['decide'] = (_, error, failing) => {
      throw error ?? failing!.error();
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
