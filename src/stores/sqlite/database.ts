import { HeadgateError } from '../../common/errors.js';
import { lossOf } from '../store-error.js';
import { SqliteLog } from './log.js';
import { writeCrossings } from '../../features/thresholds/sqlite.js';
import { prepare, type SqliteDatabase, type SqliteStatement } from './driver.js';
import { fileOf, filesOf, hide } from './file.js';
import { isAutomatic, MAX_CHANGES, type LoggedChange } from '../journal.js';
import { EXPIRED_STATE_LIFE_MS, type StateChange } from '../state/key-record.js';

/** The durability of SQLite's writes: see `SqliteStoreOptions`. */
export type Synchronous = 'off' | 'normal' | 'full';

/** 'hgat' in ASCII, which distinguishes files of Headgate from those of other programs. */
const APPLICATION_ID = 0x68676174;

const SCHEMA_VERSION = 1;

/** Names are compared byte by byte. Rows are stored in the index itself, so a write changes one page. */
const TABLE = `CREATE TABLE headgate (key TEXT NOT NULL PRIMARY KEY, expires INTEGER NOT NULL, state BLOB NOT NULL) WITHOUT ROWID;
  PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${SCHEMA_VERSION};`;

/** The log of changes, by operators and automatic. Files of earlier versions have no such table. */
const LOG_TABLE = `CREATE TABLE IF NOT EXISTS headgate_log (automatic INTEGER NOT NULL, id INTEGER NOT NULL, entry TEXT NOT NULL,
  PRIMARY KEY (automatic, id)) WITHOUT ROWID;`;

/** The next number of an entry, over both kinds. */
const NEXT_ID = `1 + max((SELECT coalesce(max(id), 0) FROM headgate_log WHERE automatic = 0),
  (SELECT coalesce(max(id), 0) FROM headgate_log WHERE automatic = 1))`;

/** The entries that are written between two cuts of the log. */
const ENTRIES_PER_CUT = 100;

/** The rows that a sweep checks for each written row. The table is therefore at most about 4/3 of the live rows. */
const CHECKED_ROWS_PER_WRITE = 4;

const WRITES_PER_SWEEP = 16;

/** The size of the pages of a new file, bytes. A decision writes one page to the log. */
const PAGE_BYTES = 1024;

export class SqliteHandle {
  readonly #database: SqliteDatabase;
  readonly #path: string | undefined;
  /** The path of the used file. Empty if the database is in memory. */
  readonly #used: string;
  /** The identity of that file. */
  readonly #file: string;
  readonly #log: SqliteLog | undefined;
  readonly #begin: SqliteStatement;
  readonly #commit: SqliteStatement;
  readonly #read: SqliteStatement;
  readonly #write: SqliteStatement;
  readonly #delete: SqliteStatement;
  readonly #last: SqliteStatement;
  readonly #sweep: SqliteStatement;
  #written = 0;
  #swept = '';

  /**
   * Prepares a database. If the preparation fails, a database with a path is closed.
   *
   * @param path the file that was opened for this store; undefined if the user opened it
   */
  constructor(database: SqliteDatabase, path: string | undefined, synchronous: Synchronous) {
    this.#database = database;
    this.#path = path;
    try {
      const file = fileOf(database);
      if (file !== '') hide(file);
      prepareFile(database, synchronous);
      // The path of a link is kept, because the link may change.
      this.#used = path ?? file;
      this.#file = filesOf(this.#used);
      this.#log = file === '' ? undefined : new SqliteLog(database, file, synchronous);
      const statement = (sql: string): SqliteStatement => prepare(database, sql);
      this.#begin = statement('BEGIN IMMEDIATE');
      this.#commit = statement('COMMIT');
      this.#read = statement('SELECT state FROM headgate WHERE key = ?');
      this.#write = statement('REPLACE INTO headgate VALUES (?, ?, ?)');
      this.#delete = statement('DELETE FROM headgate WHERE key = ?');
      const some = 'SELECT key, expires FROM headgate WHERE key > ? ORDER BY key LIMIT ?';
      this.#last = statement(`SELECT max(key) AS last, count(*) AS found FROM (${some})`);
      this.#sweep = statement(
        `DELETE FROM headgate WHERE key IN (SELECT key FROM (${some}) WHERE expires <= ?)`,
      );
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Acquires the lock for writing. Other processes cannot write between this and `commit`. */
  begin(): void {
    this.#begin.run();
  }

  commit(now: number): void {
    const isSweep = this.#written >= WRITES_PER_SWEEP;
    if (isSweep) this.#sweepSome(now);
    this.#commit.run();
    if (isSweep) this.#log?.shorten();
  }

  rollback(): void {
    rollback(this.#database);
  }

  read(key: string): Uint8Array | undefined {
    return (this.#read.get(key) as { state: Uint8Array } | undefined)?.state;
  }

  write(key: string, { changed, bytes, expiresAt, log = [], crossings }: StateChange): void {
    for (const entry of log) this.#logChange(entry);
    if (crossings) writeCrossings(this, crossings);
    if (!changed) return;
    if (bytes) this.#write.run(key, expiresAt, bytes);
    else this.#delete.run(key);
    this.#written++;
  }

  #logChange(change: LoggedChange): void {
    const automatic = Number(isAutomatic(change));
    const insert = `INSERT INTO headgate_log SELECT ?, ${NEXT_ID}, ? RETURNING id`;
    const [{ id }] = this.all(insert, automatic, JSON.stringify(change)) as [{ id: number }];
    if (id % ENTRIES_PER_CUT > 0) return;
    const oldest = 'SELECT id FROM headgate_log WHERE automatic = ? ORDER BY id DESC LIMIT 1 OFFSET ?';
    const cut = `DELETE FROM headgate_log WHERE automatic = ? AND id <= (${oldest})`;
    this.run(cut, automatic, automatic, MAX_CHANGES);
  }

  /** Runs a statement that returns rows. @returns its rows, in an order independent of other processes */
  all(sql: string, ...values: readonly (string | number)[]): unknown[] {
    return prepare(this.#database, sql).all(...values);
  }

  /** Runs a statement that returns no rows. */
  run(sql: string, ...values: readonly (string | number)[]): void {
    prepare(this.#database, sql).run(...values);
  }

  /** Deletes rows among the next few that expired a while ago, so that transactions stay short. */
  #sweepSome(now: number): void {
    const looks = CHECKED_ROWS_PER_WRITE * this.#written;
    this.#written = 0;
    const { last, found } = this.#last.get(this.#swept, looks) as { last: string | null; found: number };
    if (last !== null) this.#sweep.run(this.#swept, looks, now - EXPIRED_STATE_LIFE_MS);
    // New keys may always follow the last one, so the end is reached when too few rows are left.
    this.#swept = found < looks ? '' : last!;
  }

  /** Must be called from time to time. @throws HeadgateError `HEADGATE_STORE_AWAY` if other processes no longer find this file */
  check(): void {
    if (this.#used === '' || filesOf(this.#used) === this.#file) return;
    const fix =
      this.#path === undefined
        ? 'This process may still use the old file, because you opened it: restart the process.'
        : 'The store opens the file again.';
    throw lossOf(
      new HeadgateError(
        'HEADGATE_STORE_AWAY',
        `The file ${this.#used} or its log was deleted, emptied or replaced while it was open. ${fix}`,
      ),
    );
  }

  /** Closes a database that was opened for this store. */
  close(): void {
    this.#log?.close();
    if (this.#path === undefined) return;
    try {
      this.#database.close();
    } catch {
      // The database is already closed, or cannot be closed.
    }
  }
}

/** The two operations by which a store opens its database. */
export interface Opener {
  /** Opens the database, again if necessary. */
  open(): SqliteHandle;
  /** See {@link refusesLocks}. */
  refusesLocks(): boolean;
}

function prepareFile(database: SqliteDatabase, synchronous: Synchronous): void {
  const pragma = (name: string): unknown =>
    Object.values(prepare(database, `PRAGMA ${name}`).get() as Record<string, unknown>)[0];
  database.exec('PRAGMA busy_timeout = 0');
  const hasTables = (): boolean => prepare(database, 'SELECT 1 FROM sqlite_master').get() !== undefined;
  // The check comes first, because the settings below stay in the file. The id is read last, because the process that creates the table
  // sets both in one step.
  if (hasTables() && pragma('application_id') !== APPLICATION_ID)
    throw unusable('another program created it');
  database.exec(`PRAGMA page_size = ${PAGE_BYTES}`);
  if (pragma('journal_mode = WAL') !== 'wal') throw unusable('it cannot have a write-ahead log');
  database.exec(`PRAGMA synchronous = ${synchronous}; PRAGMA wal_autocheckpoint = 0;`);
  if (pragma('application_id') !== APPLICATION_ID) {
    database.exec('BEGIN IMMEDIATE');
    try {
      // Another process may have created the table in the meantime.
      if (pragma('application_id') !== APPLICATION_ID) {
        if (hasTables()) throw unusable('another program created it');
        database.exec(TABLE + LOG_TABLE);
      }
      database.exec('COMMIT');
    } catch (error) {
      rollback(database);
      throw error;
    }
  }
  if (pragma('user_version') !== SCHEMA_VERSION) throw unusable('another version of Headgate created it');
  const log = prepare(database, "SELECT 1 FROM sqlite_master WHERE name = 'headgate_log'").get();
  if (log === undefined) database.exec(LOG_TABLE);
}

function rollback(database: SqliteDatabase): void {
  try {
    database.exec('ROLLBACK');
  } catch {
    // After most errors SQLite has already rolled back.
  }
}

function unusable(why: string): HeadgateError {
  return new HeadgateError(
    'HEADGATE_STORE_ERROR',
    `sqliteStore cannot use this database: ${why}. Pass a local file that only Headgate uses.`,
  );
}
