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
};

/** The changes of a key, and of all keys, that were made around a time or were in force then. The oldest change comes first. */
export async function changesAround(
  admin: Admin,
  { names, keys, time, aroundMs }: Around,
): Promise<LoggedChange[]> {
  const found: LoggedChange[] = [];
  const settled = new Set<string>();
  let read = 0;
  for await (const change of admin.log()) {
    if (++read > MAX_READ) break;
    const at = change.at.getTime();
    if (at > time + aroundMs || !concerns(change, names, keys)) continue;
    const state = STATES[change.action];
    if (at >= time - aroundMs) found.push(change);
    else if (state !== undefined) {
      // Of the earlier changes of a state, the last one is in force.
      const id = JSON.stringify([state, change.name, change.key, change.dimension]);
      if (settled.has(id)) continue;
      settled.add(id);
      const isOver = change.forMs > 0 && at + change.forMs < time - aroundMs;
      const begins = change.action === 'override' || change.action === 'ban';
      if (begins && !isOver) found.push(change);
    }
  }
  return found.reverse();
}

function concerns(
  { name, key, keys: count, network, action }: LoggedChange,
  names: Around['names'],
  keys: Around['keys'],
): boolean {
  if (names && (typeof name !== 'string' || !names.has(name))) return false;
  const whose = key ?? network;
  if (whose !== undefined) return typeof whose === 'string' && keys.has(whose);
  return action === 'configure' || count === 1;
}
