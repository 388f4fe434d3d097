import type { Announcement } from '../../contract/announcement.js';
import type { Store } from '../../contract/store.js';
import { ALL_KEYS, withScope } from '../keys.js';
import { Configurations, type UpdateRows } from './configurations.js';
import { stateStore, type StateBackend } from './state-store.js';

/** A database for a store: it updates rows in transactions, and writes the logs and crossings of changes. */
interface Transactions {
  update: (...args: Parameters<UpdateRows>) => Promise<void>;
  close(): Promise<void>;
}

/** The parts of a store in a database, for the administration. */
export interface DatabaseParts {
  readonly transactions: Pick<Transactions, 'update'>;
  /** The notation of keys in the database. */
  readonly name: (key: string) => string;
  /** The limiters of this process. */
  readonly announced: ReadonlySet<Announcement>;
  readonly isHashed: boolean;
}

/** Creates a store in a database that `headgate/admin` reads. @param keepsCrossings whether crossings are written for readers */
export function databaseStore(
  transactions: Transactions,
  name: DatabaseParts['name'],
  keepsCrossings: boolean,
): { store: Store; announced: ReadonlySet<Announcement> } {
  const announced = new Set<Announcement>();
  const configurations = new Configurations((...update) => transactions.update(...update));
  const update: StateBackend['updateAll'] = (keys, change, askers) => {
    const names = keys.map(name);
    const updated = transactions.update(names, hidingOwners(names, change, keepsCrossings), askers);
    if (configurations.pending.size > 0) configurations.compare(askers);
    return updated;
  };
  const store = stateStore({
    update: (key, change, askers) => update([key], ([bytes], now) => [change(bytes, now)], askers),
    updateAll: update,
    close: () => transactions.close(),
  });
  const announce: Store['announce'] = (limiter) => {
    announced.add(limiter);
    configurations.pending.add(limiter);
    return {
      withdraw() {
        announced.delete(limiter);
        configurations.pending.delete(limiter);
      },
    };
  };
  return { store: Object.assign(store, { announce }), announced };
}

type Change = Parameters<UpdateRows>[1];

/** Logs changes and crossings with the owners as the database names them, because keys may be secret. */
function hidingOwners(names: readonly string[], change: Change, keepsCrossings: boolean): Change {
  return (bytes, now) =>
    change(bytes, now).map(({ crossings, ...each }, i) => {
      if (!each.log && !crossings) return each;
      const text = names[i]!.slice(1, names[i]!.lastIndexOf('}'));
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
    });
}
