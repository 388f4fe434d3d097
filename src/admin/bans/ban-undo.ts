import { NO_NOTE } from '../../contract/change-note.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { END_ONLY, notesIn } from './ban-source.js';
import { SAME_END_MS, type Context } from '../context.js';
import type { LoggedChange } from '../log.js';
import { importedIn } from '../entry-keys.js';
import { ownerIn } from '../logged-keys.js';
import { notNoted, subjectIn, warnings } from '../scope.js';
import type { ListedChange, Owner, State } from '../state.js';
import { typedKey } from '../typed-keys.js';
import { cannot, changed, type Way, type Ways } from '../undo-way.js';

export const waysFromBans: Ways = { ban: banBack, unban: banBack, import: importBack };

/** The way back from an import. Keys with another ban by now keep it. */
async function importBack({ state, origin }: Context, listed: ListedChange): Promise<Way> {
  const keys = importedIn(listed);
  if (keys === undefined) throw cannot('the log does not have the keys of so large an import');
  const owners = keys.map(([who]) => {
    const owner = ownerIn(state, who);
    if (!owner) throw cannot('the log has only the hashes of some keys');
    return owner;
  });
  const { lefts, elapsed, isBanOf } = await sinceThen(state, listed, owners);
  const own = keys.flatMap(([, forMs, before], i) => {
    if (forMs <= elapsed || !isBanOf(forMs, lefts[i]!)) return [];
    const rest = Math.round(before - elapsed);
    return [{ owner: owners[i]!, duration: rest > 0 ? rest : END_ONLY }];
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
      const who =
        own.length === 1
          ? keys.find((_, i) => owners[i] === own[0]!.owner)![0]
          : listed.who.slice(0, listed.who.indexOf(':') + 1);
      const unnoted = await state.bans.set(changes, {
        ...{ action: 'unban', who, keys: own.length, forMs: 0, ...note, from: origin, undoes: listed.id },
      });
      const left = `${others} of ${keys.length} keys have another ban now, or none, and keep it.`;
      return warnings(others > 0 ? { code: 'CHANGED_SINCE', message: left } : undefined, notNoted(unnoted));
    },
  };
}

/** The way back from a ban or an unban. */
async function banBack({ state, origin }: Context, listed: ListedChange, change: LoggedChange): Promise<Way> {
  const owners = await ownersOfChange(state, listed, change);
  const { lefts, elapsed, isBanOf } = await sinceThen(state, listed, owners);
  const expected = listed.action === 'ban' ? listed.forMs - elapsed : 0;
  const before = typeof listed.before === 'number' ? listed.before - elapsed : 0;
  if (!lefts.every((left) => isBanOf(listed.forMs, left)))
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
      const set = duration > 0 ? duration : endOf(listed);
      const changes = owners.map((owner) => ({ owner, duration: set, note: earlier ?? NO_NOTE }));
      const unnoted = await state.bans.set(changes, {
        ...{ action, who: listed.who, keys: listed.keys, forMs: duration, ...note, from: origin },
        ...(expected > 0 && { before: Math.round(expected) }),
        ...(duration > 0 && { after: duration }),
        undoes: listed.id,
      });
      return warnings(notNoted(unnoted));
    },
  };
}

/** The end of a ban as it was before: a ban by hand did not change the denials, while a ban by denials replaced them, so the undo forgives. */
const endOf = ({ from }: ListedChange): number => (from === 'denials' ? 0 : END_ONLY);

/** The bans of the owners of a change, and the time since. */
async function sinceThen(state: State, { at, tookMs = 0 }: ListedChange, owners: readonly Owner[]) {
  const before = (await state.now()) - at;
  const lefts = await state.bans.lefts(owners);
  const elapsed = (await state.now()) - at;
  /** Whether the rest of a ban is that of one of this length, which began while the change was made, and was read since `before`. */
  const isBanOf = (forMs: number, left: number | Error): boolean =>
    typeof left === 'number' &&
    left >= Math.max(0, forMs - elapsed - tookMs) - SAME_END_MS &&
    left <= Math.max(0, forMs - before) + SAME_END_MS;
  return { lefts, elapsed, isBanOf };
}

/** The changes before another one, the newest first. */
async function* changesBefore(state: State, id: string): AsyncGenerator<ListedChange> {
  let isBefore = false;
  for await (const change of state.log.since(0)) {
    if (isBefore) yield change;
    isBefore ||= change.id === id;
  }
}

async function ownersOfChange(state: State, listed: ListedChange, change: LoggedChange): Promise<Owner[]> {
  const { name, key, network, dimension = DEFAULT_DIMENSION, within } = change;
  if (within !== undefined) throw cannot('the limiter has slotBy. Call limiter.ban or unban with both keys');
  if (network !== undefined && typeof name === 'string') {
    const [subject] = subjectIn(await state.published(), name, typedKey(network, { dimension }));
    if (subject.keys.length !== listed.keys) throw changed('the limiter makes other keys of the network now');
    return subject.keys.map((each) => state.ownerOf(name, each, dimension));
  }
  if (key === undefined) throw cannot('the log does not have its keys');
  const owner = ownerIn(state, listed.who);
  if (!owner) throw cannot('the log has only the hash of the key');
  return [owner];
}
