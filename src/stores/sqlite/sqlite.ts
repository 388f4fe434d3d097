import { statfsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { HeadgateError, invalidOption } from '../../common/errors.js';
import { choice, readOptions, type OptionTable } from '../../common/options.js';
import { checkShape } from '../../common/validate.js';
import type { Store } from '../../contract/store.js';
import {
  DATABASE_TABLE,
  databaseStore,
  type DatabaseOptions,
  type DatabaseParts,
} from '../state/database-store.js';

import { SqliteHandle, type Opener, type Synchronous } from './database.js';
import { isBusy, nodeDatabase, type DatabaseClass, type SqliteDatabase } from './driver.js';
import { createFile, fileOf, refusalOf, refusesLocks } from './file.js';
import { Transactions } from './transactions.js';

export type { Synchronous } from './database.js';
export type { SqliteDatabase, SqliteStatement } from './driver.js';

/** The options of {@link sqliteStore} in addition to the database. */
export interface SqliteStoreOptions extends DatabaseOptions {
  /**
   * The durability before a power failure. The death of a process never loses data. If
   * the machine itself fails, `'normal'` may lose the last seconds. `'full'` does not, but waits for the disk at each transaction. `'off'`
   * never waits for the disk, and a failure of the machine may leave an unreadable file.
   * @default 'normal'
   */
  synchronous?: Synchronous | undefined;
}

export const SQLITE_TABLE = {
  synchronous: choice(['off', 'normal', 'full'], 'normal'),
  ...DATABASE_TABLE,
} satisfies OptionTable<SqliteStoreOptions>;

/**
 * A store in a file of SQLite, for all processes of a machine. State outlives restarts. The file must be on a local disk, and used only by
 * Headgate.
 *
 * @param database the path of the file, which is created if missing, readable only by its owner (Node 22.13 or later); or an open
 * `DatabaseSync` of node:sqlite; or an open database of better-sqlite3. The caller closes a database that the caller opened
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function sqliteStore(database: string | SqliteDatabase, options: SqliteStoreOptions = {}): Store {
  checkShape('sqliteStore', options, Object.keys(SQLITE_TABLE));
  // If `hashKeys` is present but undefined, the secret is missing. The check refuses such a value, so that keys are not written in clear.
  const values = readOptions(SQLITE_TABLE, { hashKeys: false, ...options }, 'sqliteStore.');
  const { synchronous, clock } = values;
  const transactions = new Transactions(opener(database, synchronous), clock ?? (() => Date.now()));
  const { store, parts } = databaseStore(transactions, values, options);
  files.set(store, parts);
  return store;
}

export interface SqliteFile extends DatabaseParts {
  readonly transactions: Transactions;
}

const files = new WeakMap<Store, SqliteFile>();

export function sqliteFileOf(store: Store): SqliteFile | undefined {
  return files.get(store);
}

function opener(database: unknown, synchronous: Synchronous): Opener {
  if (typeof database === 'string') {
    const path = checkPath(database);
    const DatabaseSync = nodeDatabase();
    if (!DatabaseSync) {
      throw new HeadgateError(
        'HEADGATE_INVALID_OPTION',
        `sqliteStore: Node ${process.version} cannot open a path, because it has no node:sqlite. Use Node 22.13 or later, or install ` +
          'better-sqlite3 and call sqliteStore(new Database(path)).',
      );
    }
    const open = (): SqliteHandle => {
      createFile(path);
      return new SqliteHandle(new DatabaseSync(path), path, synchronous);
    };
    return { open: () => explained(path, open), refusesLocks: () => refusesLocks(path, DatabaseSync) };
  }
  const { exec, prepare } = (database ?? {}) as Partial<SqliteDatabase>;
  if (typeof exec !== 'function' || typeof prepare !== 'function') {
    throw invalidOption(
      'sqliteStore',
      database,
      'Pass the path of a file, an open DatabaseSync of node:sqlite, or a database of better-sqlite3.',
    );
  }
  const opened = database as SqliteDatabase;
  return {
    open: () => new SqliteHandle(opened, undefined, synchronous),
    refusesLocks() {
      return refusesLocks(fileOf(opened), opened.constructor as DatabaseClass);
    },
  };
}

/** Opens a file. @throws the error of `open`, with Node's reason if there is one */
function explained<T>(path: string, open: () => T): T {
  try {
    return open();
  } catch (error) {
    const why = error instanceof HeadgateError || isBusy(error) ? undefined : refusalOf(path);
    const { message } = error as Error;
    if (why === undefined || message.includes(why)) throw error;
    throw new Error(`${message} (${why})`, { cause: error });
  }
}

/** Types of file systems on Linux without locks between machines, or without shared memory: NFS, SMB, CIFS, SMB 2. */
const NETWORK_FILE_SYSTEMS = [0x6969, 0x517b, 0xff534d42, 0xfe534d42];

export function isUrl(text: string): boolean {
  return /^(?!file:)[a-z][\w+.-]+:\/\//i.test(text);
}

function checkPath(given: string): string {
  // Not shown, because the URL of a server may contain a password.
  if (isUrl(given))
    throw new HeadgateError(
      'HEADGATE_INVALID_OPTION',
      "sqliteStore: a URL is not the path of a file. For a server, pass redisStore(new Redis(url)) of 'headgate/redis', or postgresStore(new Pool({ connectionString: url })) of 'headgate/postgres'.",
    );
  if (given.trim() === '' || given.startsWith(':') || given.startsWith('file:') || given.includes('\0')) {
    const fix = 'Pass the path of a file. Without a file, processes cannot share state: use memoryStore().';
    throw invalidOption('sqliteStore', given, fix);
  }
  const path = resolve(given);
  let type = 0;
  try {
    type = statfsSync(dirname(path)).type;
  } catch {
    // The directory does not exist yet. Opening the file reports that.
  }
  if (process.platform === 'linux' && NETWORK_FILE_SYSTEMS.includes(type)) {
    const fix =
      'Use a local disk, because network file systems do not keep the locks of SQLite; or use redisStore.';
    throw invalidOption('sqliteStore', given, fix);
  }
  return path;
}
