import { HeadgateError } from '../common/errors.js';
import { checkBoolean, checkShape } from '../common/validate.js';
import { NO_NOTE, type BanNote } from '../contract/ban-options.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { OverrideChange } from '../limiter/overrides/override.js';
import { SAME_END_MS } from './bans.js';
import { noteOf, warnings, type ChangeOptions, type Context } from './context.js';
import type { BannedByImport } from './import-bans.js';
import { notesIn } from './local-log.js';
import { shownChange, Undos, type LoggedChange } from './log.js';
import { given, overrideFunctions } from './overrides.js';
import { whoseOf } from './owners.js';
import { notNoted, subjectIn, type AdminWarning } from './scope.js';
import type { ListedChange, Owner, State } from './state.js';
import { typedKey } from './typed-keys.js';

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
  readonly action: 'ban' | 'unban' | 'override' | 'remove';
  /** Doubts about the change. */
  readonly warnings: readonly AdminWarning[];
}

/** A checked way back. */
interface Way {
  readonly action: UndoResult['action'];
  go(note: BanNote): Promise<readonly AdminWarning[]>;
}

/** The function that undoes logged changes. */
export function undoFunctions(context: Context) {
  const { state } = context;

  async function undo(
    entry: string | Pick<LoggedChange, 'id'>,
    options: UndoOptions = {},
  ): Promise<UndoResult> {
    checkShape('undo', options, ['by', 'reason', 'dryRun']);
    const dryRun = checkBoolean('dryRun', options.dryRun, false);
    const id = typeof entry === 'string' ? entry : entry.id;
    const { by, reason } = noteOf('undo', options);
    const { listed, earlier, undone } = await find(state, id);
    if (undone) {
      const author = undone.by === null ? '' : ` by ${undone.by}`;
      throw changed(`this change was already undone${author}, at ${new Date(undone.at).toISOString()}`);
    }
    const change = shownChange(listed, undefined)!;
    const isOfBan = listed.action === 'ban' || listed.action === 'unban';
    const isOfOverride = listed.action === 'override' || listed.action === 'remove';
    if (!isOfBan && !isOfOverride && listed.action !== 'import')
      throw cannot(`a change of the kind '${listed.action}' cannot be restored`);
    const way = isOfBan
      ? await banBack(context, listed, change)
      : isOfOverride
        ? await overrideBack(context, listed, change, earlier)
        : await importBack(context, listed);
    const note = { by, reason: reason ?? `undo of ${id}` };
    return { change, action: way.action, warnings: dryRun ? [] : await way.go(note) };
  }

  return { undo };
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
    // Changes of bans need no earlier change.
    if (listed && OF_BANS.includes(listed.action)) break;
  }
  if (listed) return { listed, undone };
  throw new HeadgateError(
    'HEADGATE_UNKNOWN_CHANGE',
    `The log has no change with the id ${JSON.stringify(id)}. Pass the \`id\` of an entry of the log.`,
  );
}

const OF_BANS: readonly string[] = ['ban', 'unban', 'import'];

/** The way back from an import. Keys with another ban by now keep it. */
async function importBack({ state, origin }: Context, listed: ListedChange): Promise<Way> {
  const keys = listed.after as readonly BannedByImport[] | undefined;
  if (keys === undefined) throw cannot('the log does not have the keys of so large an import');
  const elapsed = (await state.now()) - listed.at;
  const owners = keys.map(([who]) => ownerOfText(state, who));
  const lefts = await state.bans(owners);
  const own = keys.flatMap(([, forMs, before], i) => {
    const [left, expected] = [lefts[i], forMs - elapsed];
    const isSame = typeof left === 'number' && expected > 0 && Math.abs(left - expected) <= SAME_END_MS;
    return isSame ? [{ owner: owners[i]!, duration: Math.max(0, Math.round(before - elapsed)) }] : [];
  });
  if (own.length === 0) throw changed('none of its bans is in force');
  const others = keys.length - own.length;
  return {
    action: 'unban',
    async go(note) {
      const earlier = await notesIn(
        changesBefore(state, listed.id),
        own.map(({ owner }) => owner),
      );
      const changes = own.map((each, i) => ({ ...each, note: earlier[i] ?? NO_NOTE }));
      const who = own.length === 1 ? keys.find((_, i) => owners[i] === own[0]!.owner)![0] : whoOfMany(listed);
      const unnoted = await state.setBans(changes, {
        ...{ action: 'unban', who, keys: own.length, forMs: 0, ...note, from: origin, undoes: listed.id },
      });
      const left = `${others} of ${keys.length} keys have another ban now, or none, and keep it.`;
      return warnings(others > 0 ? { code: 'CHANGED_SINCE', message: left } : undefined, notNoted(unnoted));
    },
  };
}

/** The owner text of several keys of the limiter of a change: without a key. */
const whoOfMany = ({ who }: ListedChange): string => who.slice(0, who.indexOf(':') + 1);

/** @throws HeadgateError `HEADGATE_CANNOT_UNDO` if the store needs a key of which the log has only the hash */
function ownerOfText(state: State, who: string): Owner {
  const { name, key, dimension } = whoseOf(who, undefined)!;
  try {
    return state.ownerOf(name, key!, dimension);
  } catch {
    throw cannot('the log has only the hashes of some keys');
  }
}

/** The way back from a ban or an unban. */
async function banBack({ state, origin }: Context, listed: ListedChange, change: LoggedChange): Promise<Way> {
  const owners = await ownersOfChange(state, listed, change);
  const lefts = await state.bans(owners);
  const elapsed = (await state.now()) - listed.at;
  const expected = listed.action === 'ban' ? listed.forMs - elapsed : 0;
  const before = typeof listed.before === 'number' ? listed.before - elapsed : 0;
  if (lefts.some((left) => left instanceof Error || Math.abs(left - Math.max(0, expected)) > SAME_END_MS))
    throw changed(
      expected > 0 && lefts.every((left) => left === 0) ? 'the ban has ended' : 'there is another ban',
    );
  if (listed.action === 'ban' && expected <= 0) throw cannot('the ban has ended by itself');
  if (listed.action === 'unban' && before <= 0) throw cannot('the earlier ban would have ended by now');
  // The log has only the longest earlier ban of a network.
  if (before > 0 && owners.length > 1)
    throw cannot('the log does not have the earlier ban of each key of a network');
  const duration = Math.max(0, Math.round(before));
  const action = duration > 0 ? 'ban' : 'unban';
  return {
    action,
    async go(note) {
      // The earlier ban returns with its own author and reason. The log has those of the undo.
      const [earlier] = duration > 0 ? await notesIn(changesBefore(state, listed.id), owners) : [note];
      const changes = owners.map((owner) => ({ owner, duration, note: earlier ?? NO_NOTE }));
      const unnoted = await state.setBans(changes, {
        ...{ action, who: listed.who, keys: listed.keys, forMs: duration, ...note, from: origin },
        ...(expected > 0 && { before: Math.round(expected) }),
        ...(duration > 0 && { after: duration }),
        undoes: listed.id,
      });
      return warnings(notNoted(unnoted));
    },
  };
}

/** The changes before another one, the newest first. */
async function* changesBefore(state: State, id: string): AsyncGenerator<ListedChange> {
  let isBefore = false;
  for await (const change of state.log.since(0)) {
    if (isBefore) yield change;
    isBefore ||= change.id === id;
  }
}

/** The owners of the keys of a change. */
async function ownersOfChange(state: State, { keys }: ListedChange, change: LoggedChange): Promise<Owner[]> {
  const { name, key, network, dimension = DEFAULT_DIMENSION, within } = change;
  if (within !== undefined) throw cannot('the limiter has slotBy. Call limiter.ban or unban with both keys');
  if (network !== undefined && typeof name === 'string') {
    const [subject] = subjectIn(await state.published(), name, typedKey(network, { dimension }));
    if (subject.keys.length !== keys) throw changed('the limiter makes other keys of the network now');
    return subject.keys.map((each) => state.ownerOf(name, each, dimension));
  }
  if (key === undefined) throw cannot('the log does not have its keys');
  try {
    return [state.ownerOf(name, key, dimension)];
  } catch {
    throw cannot('the log has only the hash of the key');
  }
}

/** The way back from an override or its removal. @param earlier the override before */
async function overrideBack(
  context: Context,
  listed: ListedChange,
  { name, key, dimension = DEFAULT_DIMENSION, within }: LoggedChange,
  earlier: ListedChange | undefined,
): Promise<Way> {
  if (typeof name !== 'string' || within !== undefined) throw cannot('the log does not have the whole key');
  const text = textOf(key);
  const { overrides, changeOverride } = overrideFunctions(context);
  const elapsed = (await context.state.now()) - listed.at;
  let current: OverrideChange | undefined;
  let since = 0;
  for await (const each of overrides({ name }))
    if (JSON.stringify([each.key, each.dimension ?? DEFAULT_DIMENSION]) === JSON.stringify([key, dimension]))
      [current, since] = [each.change, each.since.getTime()];
  if (listed.action === 'override') {
    if (current === undefined && listed.forMs > 0 && elapsed > listed.forMs)
      throw cannot('the override has ended by itself');
    const isSame = JSON.stringify(current) === JSON.stringify(listed.after);
    if (!isSame || Math.abs(since - listed.at) > SAME_END_MS)
      throw changed('there is another override, or none');
  } else if (current !== undefined) throw changed('there is another override');
  const before = listed.before as OverrideChange | undefined;
  const left = before === undefined ? 0 : leftOf(earlier, listed, elapsed);
  // An earlier override that would have ended by now is not restored.
  const change = left === 'ended' ? undefined : before;
  if (listed.action === 'remove' && change === undefined)
    throw cannot('the override would have ended by now');
  const end = typeof left === 'number' && left > 0 ? { for: `${left}ms` } : {};
  return {
    action: change === undefined ? 'remove' : 'override',
    async go(note) {
      const wish = { key: text, change, dimension, ...given(note), ...(change !== undefined && end) };
      return (await changeOverride(wish, { name, raw: true }, listed.id)).warnings;
    },
  };
}

/** The rest of the earlier override, ms, 0 without an end, or `ended`. @throws HeadgateError `HEADGATE_CANNOT_UNDO` if the log does not have it */
function leftOf(
  earlier: ListedChange | undefined,
  { at, before }: ListedChange,
  elapsed: number,
): number | 'ended' {
  if (!earlier || JSON.stringify(earlier.after) !== JSON.stringify(before))
    throw cannot('the log does not have the end of the earlier override any more');
  if (earlier.forMs === 0) return 0;
  const left = Math.round(earlier.forMs - (at - earlier.at) - elapsed);
  return left > 0 ? left : 'ended';
}

/** A key as `override` takes it. A key that is hashed with a secret has the form of views. */
function textOf(key: LoggedChange['key']): string | undefined {
  if (key === undefined || typeof key === 'string') return key;
  if (key.hash.length === 22) return `hmac:${key.hash}`;
  throw cannot('the log has only the hash of the key');
}

function cannot(why: string): HeadgateError {
  return new HeadgateError(
    'HEADGATE_CANNOT_UNDO',
    `The change cannot be undone: ${why}. Nothing was changed.`,
  );
}

function changed(what: string): HeadgateError {
  const fix = 'Nothing was changed. Look at the key, and change its ban or override by hand.';
  return new HeadgateError('HEADGATE_CHANGED_SINCE', `The state has changed since: ${what}. ${fix}`);
}
