import type { Announcement } from '../../contract/announcement.js';
import type { Store } from '../../contract/store.js';
import { CountRows } from '../counts/count-rows.js';
import { Traffic } from '../counts/traffic.js';
import { ALL_KEYS, escapeKey, withScope, type KeyText } from '../keys.js';
import { Configurations, type UpdateRows } from './configurations.js';
import type { TextChange } from './key-record.js';
import { stateStoreOn, type Askers, type StatesChange, type UpdateStates } from './state-store.js';

/** A database for a store: it updates rows in transactions, and writes the logs and crossings of changes. */
interface Transactions {
  /** @param takesTexts whether the change also takes and returns texts */
  update: (...args: [...Parameters<UpdateRows>, takesTexts?: boolean]) => Promise<void>;
  close(): Promise<void>;
}

/** The parts of a store in a database, for the administration. */
export interface DatabaseParts {
  readonly transactions: Pick<Transactions, 'update'>;
  /** The notation of keys in the database. */
  readonly name: (key: string) => string;
  readonly announced: ReadonlySet<Announcement>;
  readonly isHashed: boolean;
  /** Whether the store counts decisions. */
  readonly isCounted: boolean;
}

interface Settings {
  /** Whether crossings are written for readers. */
  readonly keepsCrossings: boolean;
  /** The key of one in so many decisions is counted. Undefined if decisions are not counted. */
  readonly sample: number | undefined;
  readonly now: () => number;
}

/** Creates a store in a database that `headgate/admin` reads. */
export function databaseStore(
  transactions: Transactions,
  name: DatabaseParts['name'],
  { keepsCrossings, sample, now }: Settings,
): { store: Store; announced: ReadonlySet<Announcement> } {
  const announced = new Set<Announcement>();
  const updateRows: UpdateRows = (...update) => transactions.update(...update);
  const rows = new CountRows(updateRows, now);
  const counts =
    sample === undefined ? undefined : new Traffic(rows, { sample, text: countedText(name) }, announced);
  const configurations = new Configurations(updateRows);
  const update: UpdateStates = (keys, change, askers) => {
    const names = keys.map(name);
    const updated = transactions.update(names, hidingOwners(names, change, keepsCrossings), askers, true);
    if (configurations.pending.size > 0) configurations.compare(askers);
    return updated;
  };
  const store = stateStoreOn({
    update,
    updatesSeveral: true,
    ...(counts && { ended: counterOf(counts) }),
    close: async () => {
      counts?.close();
      await rows.idle();
      await transactions.close();
    },
  });
  const announce: Store['announce'] = (limiter) => {
    announced.add(limiter);
    configurations.pending.add(limiter);
    counts?.begin();
    return {
      ...(counts && { count: counts.count.bind(counts, limiter.name) }),
      withdraw() {
        announced.delete(limiter);
        configurations.pending.delete(limiter);
        counts?.end();
      },
    };
  };
  return { store: Object.assign(store, { announce }), announced };
}

/** Counts the latency of the questions of an update. */
function counterOf({ latency }: Traffic): (askers: Askers, ms: number, isDone: boolean) => void {
  return (askers, ms, isDone) => {
    const [asker] = askers;
    if (asker) latency.add(ms, askers.length, !isDone || ms > asker.subject.set.timeout);
  };
}

/** The notation of keys in counts: hashed, if the database hashes them. */
export function countedText(name: DatabaseParts['name']): KeyText {
  return (key) => {
    const written = name(`{x:${escapeKey(key)}}`);
    return written.slice(written.indexOf(':') + 1, written.lastIndexOf('}'));
  };
}

/** Logs changes and crossings with the owners as the database names them, because keys may be secret. */
function hidingOwners(names: readonly string[], change: StatesChange, keepsCrossings: boolean): StatesChange {
  return (states, now) => {
    const changes = change(states, now);
    // Nearly all changes have neither.
    if (!changes.some(hasEntries)) return changes;
    return changes.map((whole, i) => hidingOwner(names[i]!, whole, keepsCrossings));
  };
}

const hasEntries = ({ log, crossings }: TextChange): boolean => (log ?? crossings) !== undefined;

function hidingOwner(name: string, whole: TextChange, keepsCrossings: boolean): TextChange {
  const { crossings, ...each } = whole;
  const text = name.slice(1, name.lastIndexOf('}'));
  const whoIn = (who: string): string => withScope(who.slice(0, who.indexOf(':')), text);
  const named = <T extends { readonly who: string }>(all: readonly T[]): T[] =>
    all.map((logged) => ({ ...logged, who: whoIn(logged.who) }));
  const { log } = each;
  const isOfAll = log?.some((logged) => logged.who.endsWith(ALL_KEYS));
  return {
    ...each,
    ...(log && !isOfAll && { log: named(log) }),
    ...(crossings && keepsCrossings && { crossings: named(crossings) }),
  };
}
