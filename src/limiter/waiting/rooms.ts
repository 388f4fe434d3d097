import type { Store } from '../../contract/store.js';
import type { WaitingRoom } from './waiting-room.js';

/** By store and limiter name: the rooms in which somebody waits. What one limiter gives back may end a wait of another one. */
const known = new WeakMap<Store, Map<string, Set<WaitingRoom>>>();

const NONE: ReadonlySet<WaitingRoom> = new Set();

/** The rooms of limiters of a name on a store in which somebody waits. */
export function roomsOf(store: Store, name: string): ReadonlySet<WaitingRoom> {
  return known.get(store)?.get(name) ?? NONE;
}

/** Somebody begins to wait in a room. */
export function enter(store: Store, name: string, room: WaitingRoom): void {
  let names = known.get(store);
  if (!names) known.set(store, (names = new Map<string, Set<WaitingRoom>>()));
  let rooms = names.get(name);
  if (!rooms) names.set(name, (rooms = new Set()));
  rooms.add(room);
}

/** Nobody waits in a room any more. */
export function leave(store: Store, name: string, room: WaitingRoom): void {
  const names = known.get(store);
  const rooms = names?.get(name);
  if (!rooms?.delete(room) || rooms.size > 0) return;
  names!.delete(name);
}
