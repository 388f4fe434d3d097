import { HeadgateError } from '../common/errors.js';
import type { ChangeNote } from '../contract/change-note.js';
import type { Context } from './context.js';
import type { LoggedChange } from './log.js';
import type { AdminWarning } from './scope.js';
import type { ListedChange } from './state.js';

export interface Way {
  readonly action: 'ban' | 'unban' | 'override' | 'remove';
  go(note: ChangeNote): Promise<readonly AdminWarning[]>;
}

/** The ways back, by the kind of change. The last argument is the change of the same key before. */
export type Ways = {
  readonly [Action in ListedChange['action']]?: (
    context: Context,
    ...changes: [listed: ListedChange, shown: LoggedChange, earlier: ListedChange | undefined]
  ) => Promise<Way>;
};

export function cannot(why: string): HeadgateError {
  return new HeadgateError(
    'HEADGATE_CANNOT_UNDO',
    `The change cannot be undone: ${why}. Nothing was changed.`,
  );
}

/** The error of a change that was followed by another one. */
export function changed(what: string): HeadgateError {
  const fix = 'Nothing was changed. Look at the key, and change its ban or override by hand.';
  return new HeadgateError('HEADGATE_CHANGED_SINCE', `The state has changed since: ${what}. ${fix}`);
}
