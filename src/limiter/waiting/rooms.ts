import { idsOf } from '../../contract/parts.js';
import type { Store, Subject } from '../../contract/store.js';
import type { WaitingRoom } from './waiting-room.js';

/** By store and limiter name, the rooms with waiting requests. A refund of one limiter may end a wait in another. */
const roomsByStore = new WeakMap<Store, Map<string, Set<WaitingRoom>>>();

const NONE: ReadonlySet<WaitingRoom> = new Set();

/** Wakes the requests that wait for a key, in every limiter with this name and store, because a request may go on sooner now. */
export function wake(store: Store, name: string, subject: Subject): void {
  const ids = idsOf(subject);
  for (const room of roomsByStore.get(store)?.get(name) ?? NONE) room.wake(ids);
}

/** Registers a room with its first waiting request. */
export function enter(store: Store, name: string, room: WaitingRoom): void {
  let names = roomsByStore.get(store);
  if (!names) roomsByStore.set(store, (names = new Map<string, Set<WaitingRoom>>()));
  let rooms = names.get(name);
  if (!rooms) names.set(name, (rooms = new Set()));
  rooms.add(room);
}

/** Removes a room that has no waiting request left. */
export function leave(store: Store, name: string, room: WaitingRoom): void {
  const names = roomsByStore.get(store);
  const rooms = names?.get(name);
  if (!rooms?.delete(room) || rooms.size > 0) return;
  names!.delete(name);
}
