// The waiting requests and the slots of keys, by process.
import { type Admin, factJson, type KeyQueueView, type ProcessQueue, type SlotUse } from 'headgate/admin';
import { count, duration, many, printable, table, type Table } from './format.js';
import { write, writeJsonLine, type Io } from './io.js';
import { showKey, showText } from './keys.js';
import { optional } from './optional.js';

const processText = ({ host, pid }: ProcessQueue): string => `${printable(host)} ${pid}`;

const slotsText = ({ slots, heldMs }: ProcessQueue): string =>
  slots === 0 ? '-' : `${count(slots)}, for up to ${duration(heldMs)}`;

const waitingText = ({ waiting, waitedMs }: ProcessQueue): string =>
  waiting === 0 ? '-' : `${count(waiting)}, for up to ${duration(waitedMs)}`;

/** The slots and waiting requests of a key, as notes. */
export function slotNotes({ processes, uncounted, freeAfterMs }: SlotUse): string[] {
  const notes = processes.map((each) => {
    const held =
      each.slots > 0 ? [`${many(each.slots, 'slot')} held for up to ${duration(each.heldMs)}`] : [];
    const waits =
      each.waiting > 0 ? [`${count(each.waiting)} waiting for up to ${duration(each.waitedMs)}`] : [];
    return `${processText(each)}: ${[...held, ...waits].join(', ')}`;
  });
  if (uncounted !== null && uncounted > 0)
    notes.push(
      `${many(uncounted, 'slot')} counted by no process: taken just now, or its process ended (then free in ${duration(freeAfterMs)} at the latest)`,
    );
  return notes;
}

const COLUMNS: Table<KeyQueueView> = {
  limiter: ({ name }) => showText(name),
  key: showKey,
  process: processText,
  slots: slotsText,
  waiting: waitingText,
};

/** Writes the waiting requests and the slots in use, by key and process, if there are any. */
export async function writeQueues(admin: Admin, name: string | undefined, io: Io): Promise<void> {
  const found = await optional(admin.queues({ name }), 'the queues', io);
  if (!found || found.keys.length === 0) return;
  if (io.json) {
    for (const queue of found.keys) await writeJsonLine(io, factJson({ kind: 'queue', ...queue }));
    return;
  }
  const more =
    found.cut.length > 0
      ? `There are more keys in ${found.cut.map((each) => printable(each)).join(', ')}.\n`
      : '';
  await write(
    io,
    `\nSlots in use and waiting requests, as processes counted them:\n${table(io, COLUMNS, found.keys)}${more}`,
  );
}
