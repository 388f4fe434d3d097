import type { Announcement } from '../../contract/announcement.js';
import { fn, switched, type OptionTable, type OptionValues } from '../../common/options.js';
import type { Clock, Store } from '../../contract/store.js';
import { CountRows } from '../counts/count-rows.js';
import { COUNT_TABLE, Traffic, type CountOptions } from '../counts/traffic.js';
import { STREAM_TABLE, type StreamOptions } from '../../features/thresholds/contract/stream-options.js';
import { keptCrossings } from '../../features/thresholds/crossings.js';
import { ALL_KEYS, escapeKey, withScope, type KeyText } from '../keys.js';
import { Configurations, type UpdateRows } from './configurations.js';
import { hashKeysOption } from './hashed-names.js';
import type { TextChange } from './key-record.js';
import { stateStoreOn, type Askers, type StatesChange, type UpdateStates } from './state-store.js';

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

/** The options of a store in a database. */
export interface DatabaseOptions extends StreamOptions {
  /**
   * A secret that hashes keys: at least 16 characters, the same in all processes. Addresses and accounts are then not readable in
   * the database (HMAC-SHA256). With a different secret, all state begins anew.
   * @default false
   */
  hashKeys?: string | false | undefined;
  /**
   * Counts decisions, for `headgate top`, the dashboard and the history of denied keys. Counting takes 0.2 μs of a decision;
   * the counts are written once a second, in a transaction of their own, while there are decisions. `false` switches this off.
   *
   * @default true, or `false` with a `clock`
   */
  counts?: boolean | CountOptions | undefined;
  /** For tests: a clock to decide by. It returns whole ms since the epoch. */
  clock?: Clock | undefined;
}

export const DATABASE_TABLE = {
  hashKeys: hashKeysOption(),
  ...STREAM_TABLE,
  counts: switched(COUNT_TABLE, true),
  clock: fn(),
} satisfies OptionTable<DatabaseOptions>;

/** Creates a store in a database that `headgate/admin` reads. @param values the options, read @param given the same as they were passed */
export function databaseStore<T extends Transactions>(
  transactions: T,
  values: OptionValues<typeof DATABASE_TABLE>,
  given: DatabaseOptions,
): { store: Store; parts: DatabaseParts & { readonly transactions: T } } {
  const { hashKeys: name, clock, counts: counting } = values;
  const sample = clock && given.counts === undefined ? undefined : counting?.sample;
  const announced = new Set<Announcement>();
  const updateRows: UpdateRows = (...update) => transactions.update(...update);
  const rows = new CountRows(updateRows, clock ?? Date.now);
  const counts =
    sample === undefined ? undefined : new Traffic(rows, { sample, text: countedText(name) }, announced);
  const configurations = new Configurations(updateRows);
  const update: UpdateStates = (keys, change, askers) => {
    const names = keys.map(name);
    const updated = transactions.update(names, hidingOwners(names, change, values), askers, true);
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
  const parts = {
    transactions,
    name,
    announced,
    isHashed: !!given.hashKeys,
    isCounted: counts !== undefined,
  };
  return { store: Object.assign(store, { announce }), parts };
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

/** The records of changes with the owners as the database names them, because keys may be secret. */
function hidingOwners(names: readonly string[], change: StatesChange, kept: StreamOptions): StatesChange {
  return (states, now) => {
    const changes = change(states, now);
    // Nearly all changes have neither.
    if (!changes.some(hasEntries)) return changes;
    return changes.map((whole, i) => hidingOwner(names[i]!, whole, kept));
  };
}

const hasEntries = ({ log, crossings }: TextChange): boolean => (log ?? crossings) !== undefined;

function hidingOwner(name: string, whole: TextChange, kept: StreamOptions): TextChange {
  const text = name.slice(1, name.lastIndexOf('}'));
  const whoIn = (who: string): string => withScope(who.slice(0, who.indexOf(':')), text);
  const named = <T extends { readonly who: string }>(all: readonly T[]): T[] =>
    all.map((logged) => ({ ...logged, who: whoIn(logged.who) }));
  const { log } = whole;
  const isOfAll = log?.some((logged) => logged.who.endsWith(ALL_KEYS));
  return { ...keptCrossings(whole, kept, named), ...(log && !isOfAll && { log: named(log) }) };
}
