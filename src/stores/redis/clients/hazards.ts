import type { Hazard } from './commands.js';

/** @param example the setting in the client's options */
export function noSocketTimeout(example: string): Hazard {
  return {
    level: 'warning',
    message:
      'The client has no socketTimeout, so a dead connection that was not closed goes unnoticed for minutes. Until then each ' +
      `process limits for itself. Set ${example}.`,
  };
}

export const NEVER_RECONNECTS: Hazard = {
  level: 'error',
  message:
    'The client does not connect again after a lost connection. Pass it a function that returns the delay before the next attempt.',
};

export const NO_FAILOVER_DETECTOR: Hazard = {
  level: 'warning',
  message:
    'The client uses Sentinels without failoverDetector, so it notices a planned failover about ten seconds late. The charges of the ' +
    'old primary until then are lost. Set failoverDetector: true.',
};

export const ONE_SLOT: Hazard = {
  level: 'warning',
  message: 'The keyPrefix of the client has a brace, so all keys may be in one slot of the cluster.',
};
