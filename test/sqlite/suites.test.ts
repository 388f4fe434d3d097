// The public suites over the SQLite store: the contract, all laws, identity with memory.
import { join } from 'node:path';
import type { Store } from 'headgate';
import { sqliteStore } from 'headgate/sqlite';
import { storeChecks, type StoreUnderTest } from 'headgate-testing';
import { describeChecks, runsOf } from '../support/kit.js';
import { drivers, makeDirectory } from '../support/sqlite.js';
import { regressions } from '../vectors/regressions.js';

describe('SQLite', () => {
  for (const [name, Driver] of Object.entries(drivers)) {
    const directory = makeDirectory();
    const paths = new WeakMap<Store, string>();
    let made = 0;
    const create = (path: string, clock: () => number) => {
      const database = new Driver(path);
      const store = sqliteStore(database, { clock, synchronous: 'off' });
      const close = store.close!.bind(store);
      // The store does not close a database that the caller opened.
      store.close = async () => {
        await close();
        database.close();
      };
      paths.set(store, path);
      return store;
    };
    const subject: StoreUnderTest = {
      createStore: (clock) => create(join(directory, `${made++}.db`), clock),
      createSibling: (store, clock) => create(paths.get(store)!, clock),
      entries: (store) => {
        const database = new Driver(paths.get(store)!);
        try {
          // The table does not exist before the first question.
          if (!database.prepare('SELECT 1 FROM sqlite_master').get()) return [];
          const rows = database.prepare('SELECT key AS name, expires AS expiresAt FROM headgate');
          return (rows as unknown as { all(): { name: string; expiresAt: number }[] }).all();
        } finally {
          database.close();
        }
      },
      ordered: true,
      runs: runsOf('sqlite', 20, 20),
    };
    describeChecks(`on ${name}`, storeChecks({ ...subject, traces: regressions }));
  }
});
