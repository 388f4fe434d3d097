import { idsOf } from '../../contract/dimension-sets.js';
import type { Subject } from '../../contract/store.js';
import type { WaitingRoom } from './waiting-room.js';

/**
 * By limiter name, the rooms with waiting requests. A refund of one limiter, or a change by an operator, may end a wait in another. A limiter
 * of the same name on another store only asks its store once more.
 */
const roomsByName = new Map<string, Set<WaitingRoom>>();

const NONE: ReadonlySet<WaitingRoom> = new Set();

/** Wakes the requests that wait for a key, in every limiter with this name, because a request may go on sooner now. */
export function wake(name: string, subject: Subject): void {
  const ids = idsOf(subject);
  for (const room of roomsByName.get(name) ?? NONE) room.wake(ids);
}

/** Registers a room with its first waiting request. */
export function enter(name: string, room: WaitingRoom): void {
  let rooms = roomsByName.get(name);
  if (!rooms) roomsByName.set(name, (rooms = new Set()));
  rooms.add(room);
}

/** Removes a room that has no waiting request left. */
export function leave(name: string, room: WaitingRoom): void {
  const rooms = roomsByName.get(name);
  if (rooms?.delete(room) && rooms.size === 0) roomsByName.delete(name);
}
