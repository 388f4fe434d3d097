import type { Hazard } from './commands.js';

/** @param example what to write in the client's options */
export function noSocketTimeout(example: string): Hazard {
  return {
    level: 'warning',
    message:
      'The client has no socketTimeout: a connection that is dead, but was not closed, goes unnoticed for minutes, and limits ' +
      `hold for each process alone. Set ${example}.`,
  };
}

export const NEVER_RECONNECTS: Hazard = {
  level: 'error',
  message:
    'The client does not connect again after it has lost its connection. Give it a function that says when it does.',
};

export const ONE_SLOT: Hazard = {
  level: 'warning',
  message:
    'The client puts a brace in front of every key (keyPrefix): one slot of the cluster may have to hold them all.',
};
