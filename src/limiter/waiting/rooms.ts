import type { Store } from '../../contract/store.js';
import type { WaitingRoom } from './waiting-room.js';

/** By store and limiter name, the rooms with waiting requests. A refund of one limiter may end a wait in another. */
const known = new WeakMap<Store, Map<string, Set<WaitingRoom>>>();

const NONE: ReadonlySet<WaitingRoom> = new Set();

/** The rooms with waiting requests, of limiters of a name on a store. */
export function roomsOf(store: Store, name: string): ReadonlySet<WaitingRoom> {
  return known.get(store)?.get(name) ?? NONE;
}

/** Registers a room that has its first waiting request. */
export function enter(store: Store, name: string, room: WaitingRoom): void {
  let names = known.get(store);
  if (!names) known.set(store, (names = new Map<string, Set<WaitingRoom>>()));
  let rooms = names.get(name);
  if (!rooms) names.set(name, (rooms = new Set()));
  rooms.add(room);
}

/** Removes a room that has no waiting request left. */
export function leave(store: Store, name: string, room: WaitingRoom): void {
  const names = known.get(store);
  const rooms = names?.get(name);
  if (!rooms?.delete(room) || rooms.size > 0) return;
  names!.delete(name);
}
