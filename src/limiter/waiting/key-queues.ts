import { idsOf } from '../../contract/dimension-sets.js';
import { bothQueues, type KeyQueue } from '../../contract/gauges.js';
import type { PolicySet } from '../../contract/store.js';
import type { HeldSlots } from '../../features/slots/process-slots.js';
import type { WaitingRoom } from './waiting-room.js';

/** The most requests with slots that are read, the oldest first, because a process may have 100,000. */
const MAX_READ = 1000;

/** The waiting requests and the slots of each key in this process, by `idsOf`. */
export function keyQueues(
  held: Iterable<HeldSlots>,
  waits: Iterable<ReturnType<WaitingRoom['waiting']> extends Generator<infer Line> ? Line : never>,
): ReadonlyMap<string, KeyQueue> {
  const queues = new Map<string, KeyQueue>();
  const add = (id: string, more: KeyQueue): void => {
    queues.set(id, bothQueues(queues.get(id), more));
  };
  for (const [id, waiting, waitedMs] of waits) add(id, { waiting, waitedMs, slots: 0, heldMs: 0 });
  let read = 0;
  for (const { units, heldMs, ...subject } of held) {
    if (read++ === MAX_READ) break;
    const [id] = idsOf(subject, ofSlots);
    if (id !== undefined) add(id, { waiting: 0, waitedMs: 0, slots: units, heldMs });
  }
  return queues;
}

const ofSlots = ({ policies }: PolicySet): boolean =>
  policies.some(({ traits, isHidden }) => traits.holdsSlots && !isHidden);
