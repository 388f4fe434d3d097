import { toMilliseconds, type Duration } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import { checkBoolean, checkChoice, checkInteger, checkShape } from '../common/validate.js';
import type { JournalEntry, ListedChange } from '../stores/journal.js';
import { checkName, type Context, type NameFilter } from './context.js';
import { importedIn, networkIn } from './entry-keys.js';
import { changesOf, loggedTexts } from './logged-keys.js';
import { nextTurn } from './next-turn.js';
import { whoseOf, type Whose, type WhoseKey } from './owners.js';
import type { State } from './state.js';
import { Undos } from './undos.js';

/** The kinds of logged changes. */
export const CHANGE_ACTIONS = ['ban', 'unban', 'import', 'override', 'remove', 'reset', 'configure'] as const;

/** A key that an import banned. */
export interface ImportedKey extends Omit<Whose, 'name'> {
  /** The length of its ban, ms. */
  readonly forMs: number;
}

/** A change with the time of the store's clock, ms since 1970. */
export interface LoggedChange extends Omit<JournalEntry, 'who'>, Partial<Whose> {
  /** The id of the change, for `undo`. */
  readonly id: string;
  /** The time by the store's clock. */
  readonly at: Date;
  readonly name: Whose['name'];
  /** The network whose keys were changed together. */
  readonly network?: string;
  /** The keys of an import, with `withKeys`. Absent if there were too many for the log. */
  readonly imported?: readonly ImportedKey[];
  /** The id of the change that undid this one. Absent if the undo was undone, too. */
  readonly undoneBy?: string;
}

/** Options of `log`. */
export interface LogOptions extends NameFilter {
  /** The age of the oldest change (`'1h'`), or its time. @default all changes */
  since?: Duration | Date | undefined;
  /** The key or the network of the changes. Includes changes of networks and imports with the key, with the length of its own ban. @default all */
  key?: string | undefined;
  /** The operator of the changes. @default all */
  by?: string | undefined;
  /** The kinds of changes. @default all */
  actions?: readonly JournalEntry['action'][] | undefined;
  /** The id of a change. @default all */
  id?: string | undefined;
  /** The keys of imports to return as `imported`: all, the first ones up to a number, or those among these keys. @default false */
  withKeys?: boolean | number | readonly WhoseKey[] | undefined;
}

/** The changes, and the keys of imports, that are read before other requests have their turn. */
const STEP = 100;

/** The most keys of an import that can be asked for. The log has no larger ones. */
const MOST_KEYS = 1000;

export async function* log({ state }: Context, options: LogOptions = {}): AsyncGenerator<LoggedChange> {
  checkShape('log', options, ['since', 'name', 'actions', 'key', 'by', 'id', 'withKeys']);
  const { name, key, by, id, actions = CHANGE_ACTIONS } = options;
  if (name !== undefined) checkName(name);
  if (!Array.isArray(actions))
    throw invalidOption('actions', actions, "Pass an array, such as ['ban', 'unban'].");
  for (const action of actions) checkChoice('actions', action, CHANGE_ACTIONS);
  const keysOf = keysFor(state, options.withKeys);
  const undos = new Undos();
  const ofKey = key === undefined ? undefined : await changesOf(state, key);
  let steps = 0;
  for await (const change of state.log.since(await sinceOf(state, options.since))) {
    if (++steps >= STEP) {
      steps = 0;
      await nextTurn();
    }
    const undoneBy = undos.of(change)?.id;
    if (id !== undefined && change.id !== id) continue;
    if (!actions.includes(change.action) || (by !== undefined && change.by !== by)) continue;
    const shown = shownChange(change, name);
    const forMs = shown && ofKey ? ofKey(change) : change.forMs;
    if (!shown || forMs === undefined) continue;
    // Only the keys of returned changes are parsed, because an import has up to a thousand.
    const imported = keysOf?.(change);
    steps += imported?.length ?? 0;
    yield {
      ...shown,
      forMs,
      ...(imported && { imported }),
      ...(undoneBy !== undefined && { undoneBy }),
    };
    if (id !== undefined) return;
  }
}

/** A change as operators see it: of a key, or of a network. Undefined for other limiters than the wanted one. */
export function shownChange(
  { who, at, tookMs: _, ...change }: ListedChange,
  wanted: string | undefined,
): LoggedChange | undefined {
  const whose = whoseOf(who, wanted);
  if (!whose) return undefined;
  const network = networkIn({ who, keys: change.keys });
  const { name, dimension } = whose;
  const ofNetwork = network !== undefined && { network, ...(dimension !== undefined && { dimension }) };
  const owner = change.keys === 1 ? whose : { name, ...ofNetwork };
  // The keys of an import are many, and only for its undo.
  const { after: __, ...withoutKeys } = change;
  return { at: new Date(at), ...owner, ...(change.action === 'import' ? withoutKeys : change) };
}

/** A function of a change, which returns the wanted keys of an import. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function keysFor(
  state: State,
  withKeys: LogOptions['withKeys'],
): ((change: ListedChange) => ImportedKey[] | undefined) | undefined {
  if (Array.isArray(withKeys)) {
    const texts = loggedTexts(state, withKeys as readonly WhoseKey[]);
    return (change) => importedKeys(change, MOST_KEYS, texts);
  }
  if (typeof withKeys === 'number') {
    const most = checkInteger('withKeys', withKeys, 1, MOST_KEYS);
    return (change) => importedKeys(change, most);
  }
  return checkBoolean('withKeys', withKeys, false) ? (change) => importedKeys(change, MOST_KEYS) : undefined;
}

/** The first keys of an import, or the first ones with these owner texts. */
function importedKeys(
  change: ListedChange,
  most: number,
  texts?: ReadonlySet<string>,
): ImportedKey[] | undefined {
  const all = importedIn(change);
  if (!all) return undefined;
  const keys: ImportedKey[] = [];
  for (const [who, forMs] of all) {
    if (texts && !texts.has(who)) continue;
    const found = whoseOf(who, undefined);
    if (found?.key === undefined) continue;
    const { name: _, ...whose } = found;
    if (keys.push({ ...whose, forMs }) === most) break;
  }
  return keys;
}

/** The earliest time of the wanted changes, by the store's clock, which entries have, too. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
async function sinceOf(state: Pick<State, 'now'>, since: LogOptions['since']): Promise<number> {
  if (since === undefined) return 0;
  if (!(since instanceof Date)) {
    const age = toMilliseconds('since', since);
    return (await state.now()) - age;
  }
  const time = since.getTime();
  if (Number.isNaN(time)) throw invalidOption('since', since, "Pass a valid Date, or an age such as '1h'.");
  return time;
}
