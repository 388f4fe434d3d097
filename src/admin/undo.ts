import { HeadgateError } from '../common/errors.js';
import { checkBoolean, checkShape } from '../common/validate.js';
import { waysFromBans } from './bans/ban-undo.js';
import { noteOf, type ChangeOptions, type Context } from './context.js';
import { shownChange, type LoggedChange } from './log.js';
import { waysFromOverrides } from './overrides/override-undo.js';
import type { AdminWarning } from './scope.js';
import type { ListedChange, State } from './state.js';
import { cannot, changed, type Way, type Ways } from './undo-way.js';
import { Undos } from './undos.js';

/** Options of `undo`. */
export interface UndoOptions extends ChangeOptions {
  /** Whether only to check. @default false */
  dryRun?: boolean | undefined;
}

/** The result of `undo`. */
export interface UndoResult {
  /** The undone change. */
  readonly change: LoggedChange;
  /** The change that undid it. */
  readonly action: Way['action'];
  /** Doubts about the change. */
  readonly warnings: readonly AdminWarning[];
}

const BACK: Ways = { ...waysFromBans, ...waysFromOverrides };

export async function undo(
  context: Context,
  entry: string | Pick<LoggedChange, 'id'>,
  options: UndoOptions = {},
): Promise<UndoResult> {
  checkShape('undo', options, ['by', 'reason', 'dryRun']);
  const dryRun = checkBoolean('dryRun', options.dryRun, false);
  const id = typeof entry === 'string' ? entry : entry.id;
  const { by, reason } = noteOf('undo', options);
  const { listed, earlier, undone } = await find(context.state, id);
  if (undone) {
    const author = undone.by === null ? '' : ` by ${undone.by}`;
    throw changed(`this change was already undone${author}, at ${new Date(undone.at).toISOString()}`);
  }
  const change = shownChange(listed, undefined)!;
  const back = BACK[listed.action];
  if (!back) throw cannot(`a change of the kind '${listed.action}' cannot be restored`);
  const way = await back(context, listed, change, earlier);
  const note = { by, reason: reason ?? `undo of ${id}` };
  return { change, action: way.action, warnings: dryRun ? [] : await way.go(note) };
}

/** The change with an id, its undo, and the change of the same key before. @throws HeadgateError `HEADGATE_UNKNOWN_CHANGE` */
async function find(
  state: State,
  id: string,
): Promise<{ listed: ListedChange; earlier?: ListedChange; undone: ListedChange | undefined }> {
  let listed: ListedChange | undefined;
  let undone: ListedChange | undefined;
  const undos = new Undos();
  for await (const each of state.log.since(0)) {
    if (!listed) {
      const undo = undos.of(each);
      if (each.id === id) [listed, undone] = [each, undo];
    } else if (each.who === listed.who && each.action === 'override')
      return { listed, earlier: each, undone };
    // Only this way back needs the change of the same key before.
    if (listed && !(listed.action in waysFromOverrides)) break;
  }
  if (listed) return { listed, undone };
  throw new HeadgateError(
    'HEADGATE_UNKNOWN_CHANGE',
    `The log has no change with the id ${JSON.stringify(id)}. Pass the \`id\` of an entry of the log.`,
  );
}
