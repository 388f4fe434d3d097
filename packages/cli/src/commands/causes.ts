import type { Admin, LoggedChange } from 'headgate/admin';

/** The subject of a search for causes. */
interface Around {
  /** The limiters, or `undefined` for all. */
  readonly names: ReadonlySet<string> | undefined;
  /** The key as typed, and as limiters count it. */
  readonly keys: ReadonlySet<string>;
  /** The time, and the time around it, ms. */
  readonly time: number;
  readonly aroundMs: number;
}

const MAX_READ = 5000;

/** Changes that begin and end a state. */
const STATES: Readonly<Partial<Record<LoggedChange['action'], 'override' | 'ban'>>> = {
  override: 'override',
  remove: 'override',
  ban: 'ban',
  unban: 'ban',
  import: 'ban',
};

/** The changes of a key, and of all keys, that were made around a time or were in force then. The oldest change comes first. */
export async function changesAround(
  admin: Admin,
  { names, keys, time, aroundMs }: Around,
): Promise<LoggedChange[]> {
  // Networks and imports are changes of the key, too, which the log can find.
  const own = new Map<string, LoggedChange>();
  for (const key of keys) for await (const change of admin.log({ key })) own.set(change.id, change);
  const found: LoggedChange[] = [];
  const settled = new Set<string>();
  let read = 0;
  for await (const each of admin.log()) {
    if (++read > MAX_READ) break;
    const change = own.get(each.id) ?? each;
    const at = change.at.getTime();
    const isAbout = own.has(each.id) || isOfAllKeys(each);
    if (at > time + aroundMs || !isAbout || !isIn(names, change)) continue;
    const state = STATES[change.action];
    if (at >= time - aroundMs) found.push(change);
    else if (state !== undefined) {
      // Of the earlier changes of a state, the last one is in force.
      const { name, dimension, within } = change;
      const id = JSON.stringify([state, name, isOfAllKeys(change), dimension, within]);
      if (settled.has(id)) continue;
      settled.add(id);
      const isOver = change.forMs > 0 && at + change.forMs < time - aroundMs;
      const begins = change.action !== 'remove' && change.action !== 'unban';
      if (begins && !isOver) found.push(change);
    }
  }
  return found.reverse();
}

const isOfAllKeys = ({ key, keys, network, action }: LoggedChange): boolean =>
  key === undefined && network === undefined && (action === 'configure' || keys === 1);

function isIn(names: Around['names'], { name }: LoggedChange): boolean {
  return names === undefined || (typeof name === 'string' && names.has(name));
}
