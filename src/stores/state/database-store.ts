import type { Announcement } from '../../contract/announcement.js';
import type { Store } from '../../contract/store.js';
import { performance } from '../../common/real-time.js';
import { CountRows } from '../counts/count-rows.js';
import { Traffic } from '../counts/traffic.js';
import type { StreamOptions } from '../../features/thresholds/contract/stream-options.js';
import { keptCrossings } from '../../features/thresholds/crossings.js';
import { ALL_KEYS, escapeKey, withScope, type KeyText } from '../keys.js';
import { Configurations, type UpdateRows } from './configurations.js';
import type { TextChange } from './key-record.js';
import { stateStoreOn, type StatesChange, type UpdateStates } from './state-store.js';

/** A database for a store: it updates rows in transactions, and writes the records of changes. */
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

interface Settings extends StreamOptions {
  /** The key of one in so many decisions is counted. Undefined if decisions are not counted. */
  readonly sample: number | undefined;
  readonly now: () => number;
}

/** Creates a store in a database that `headgate/admin` reads. */
export function databaseStore(
  transactions: Transactions,
  name: DatabaseParts['name'],
  { sample, now, ...kept }: Settings,
): { store: Store; announced: ReadonlySet<Announcement> } {
  const announced = new Set<Announcement>();
  const updateRows: UpdateRows = (...update) => transactions.update(...update);
  const rows = new CountRows(updateRows, now);
  const counts =
    sample === undefined ? undefined : new Traffic(rows, { sample, text: countedText(name) }, announced);
  const configurations = new Configurations(updateRows);
  const update = (...[keys, change, askers]: Parameters<UpdateStates>): Promise<void> => {
    const names = keys.map(name);
    const sent = performance.now();
    const updated = transactions.update(names, hidingOwners(names, change, kept), askers, true);
    if (counts) countLatency(updated, counts, askers, sent);
    if (configurations.pending.size > 0) configurations.compare(askers);
    return updated;
  };
  const store = stateStoreOn({
    update,
    updatesSeveral: true,
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
function countLatency(
  updated: Promise<unknown>,
  { latency }: Traffic,
  askers: Parameters<UpdateRows>[2],
  sent: number,
): void {
  const add = (isDone: boolean): void => {
    const asker = askers[0];
    if (!asker) return;
    const ms = performance.now() - sent;
    latency.add(ms, askers.length, !isDone || ms > asker.subject.set.timeout);
  };
  void updated.then(
    () => add(true),
    () => add(false),
  );
}

/** The notation of keys in counts: hashed, if the database hashes them. */
export function countedText(name: DatabaseParts['name']): KeyText {
  return (key) => {
    const written = name(`{x:${escapeKey(key)}}`);
    return written.slice(written.indexOf(':') + 1, written.lastIndexOf('}'));
  };
}

/** The records of changes with the owners as the database names them, because keys may be secret. */
function hidingOwners(names: readonly string[], change: StatesChange, kept: StreamOptions): StatesChange {
  return (states, now) => {
    const changes = change(states, now);
    // Nearly all changes have neither.
    if (!changes.some(({ log, crossings }) => log ?? crossings)) return changes;
    return changes.map((whole, i) => hidingOwner(names[i]!, whole, kept));
  };
}

function hidingOwner(name: string, whole: TextChange, kept: StreamOptions): TextChange {
  const text = name.slice(1, name.lastIndexOf('}'));
  const whoIn = (who: string): string => withScope(who.slice(0, who.indexOf(':')), text);
  const named = <T extends { readonly who: string }>(all: readonly T[]): T[] =>
    all.map((logged) => ({ ...logged, who: whoIn(logged.who) }));
  const { log } = whole;
  const isOfAll = log?.some((logged) => logged.who.endsWith(ALL_KEYS));
  return { ...keptCrossings(whole, kept, named), ...(log && !isOfAll && { log: named(log) }) };
}
