// The logged changes that can be undone, and the state that an undo restores.
import { limitsText, many, span } from './text.js';

const UNDOABLE = ['ban', 'unban', 'override', 'remove', 'import'];
const OF_OVERRIDES = ['override', 'remove'];

/** The most keys of an import that the log has for an undo. */
export const MAX_UNDONE = 1000;

/** @param {any} row */
const ownerOf = ({ action, name, key, dimension, network, keys }) =>
  JSON.stringify([OF_OVERRIDES.includes(action), name, key, dimension, network, keys]);

/** Whether a change is over by itself, or changed nothing that could return. @param {any} row @param {number} now */
function isOver({ action, at, forMs, before }, now) {
  if (action === 'ban' || action === 'override') return forMs > 0 && at + forMs <= now;
  if (action === 'unban') return typeof before !== 'number' || at + before <= now;
  return action === 'remove' && before === undefined;
}

/** Whether an undo of a change can succeed. @param {any} row @param {any[]} rows the log, the newest first @param {number} [now] */
export function canUndo(row, rows, now = Date.now()) {
  if (!UNDOABLE.includes(row.action) || row.undoneBy !== undefined || isOver(row, now)) return false;
  if (row.action === 'import') return row.keys <= MAX_UNDONE;
  // A later change of the same key stands in the way, unless it was undone, too.
  const later = rows.slice(
    0,
    rows.findIndex(({ id }) => id === row.id),
  );
  return !later.some(
    (each) =>
      UNDOABLE.includes(each.action) &&
      each.undoneBy === undefined &&
      each.undoes === undefined &&
      ownerOf(each) === ownerOf(row),
  );
}

/** The longest time between two changes of one import, ms. */
const SAME_MS = 2000;

/** Whether a change and the one before it are of one import, or of its undo. @param {any} row @param {any} last */
const isOfSame = (row, last) =>
  OF_OVERRIDES.includes(row.action) &&
  row.key !== undefined &&
  last.key !== undefined &&
  ['action', 'name', 'by', 'reason', 'from'].every((field) => row[field] === last[field]) &&
  (row.undoes === undefined) === (last.undoes === undefined) &&
  Math.abs(row.at - last.at) <= SAME_MS;

/**
 * The rows of the log, in which the overrides of one import are one row with its `members`.
 *
 * @param {any[]} rows @returns {any[]}
 */
export function grouped(rows) {
  /** @type {any[][]} */
  const groups = [];
  for (const row of rows) {
    const group = groups.at(-1);
    if (group && isOfSame(row, group.at(-1))) group.push(row);
    else groups.push([row]);
  }
  return groups.map((members) => {
    const [newest] = members;
    if (members.length === 1) return newest;
    const keys = members.length;
    return {
      ...{ ...newest, members, keys, imported: members.slice(0, 3) },
      undoneBy: members.every(({ undoneBy }) => undoneBy !== undefined) ? newest.undoneBy : undefined,
    };
  });
}

/** The limits of an override, or those without one. @param {any} change */
const limitsIn = (change) => limitsText(change) || 'the configured limits';

/** The state that an undo of a change restores, in words. Empty if it is not known. @param {any} row @param {number} [now] @returns {string} */
export function restoredText({ action, at, before, after, forMs, keys }, now = Date.now()) {
  if (OF_OVERRIDES.includes(action)) {
    const end = action === 'remove' || before !== undefined ? ', until the end that it had' : '';
    return `Limits: ${limitsIn(after)} → ${limitsIn(before)}${end}`;
  }
  const left = (/** @type {number} */ ms) => ms - (now - at);
  if (action === 'import')
    return `Ends the imported bans of ${many(keys, 'key')}, or restores the bans that they had before`;
  const earlier = typeof before === 'number' ? left(before) : 0;
  if (action === 'unban') return earlier > 0 ? `Bans again for ${span(earlier)}` : '';
  if (action !== 'ban') return '';
  const rest = left(forMs) > 0 ? `, ${span(left(forMs))} left` : '';
  return earlier > 0 ? `Ban${rest} → ${span(earlier)} left` : `Ends the ban${rest}`;
}
