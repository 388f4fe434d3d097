// SQLite stores for tests. node:sqlite opens a path. On Node 20, which has no node:sqlite, better-sqlite3 opens the file.
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sqliteStore, type SqliteDatabase, type SqliteStoreOptions } from 'headgate/sqlite';

type Class = new (path: string, options?: object) => SqliteDatabase;

/** The class of node:sqlite, if this Node has it. */
export const DatabaseSync = (
  process.getBuiltinModule?.('node:sqlite' as 'node:fs') as unknown as { DatabaseSync: Class } | undefined
)?.DatabaseSync;

/**
 * The class of better-sqlite3. The installed file is compiled for one version of Node, so that `npm run test:nodes` names the drivers of other
 * versions in `HEADGATE_SQLITE`, and brings a separate better-sqlite3 beside the program of Node 20.
 */
function betterSqlite(): Class {
  const errors: unknown[] = [];
  for (const base of [import.meta.url, process.execPath]) {
    try {
      const Database = createRequire(base)('better-sqlite3') as Class;
      new Database(':memory:').close();
      return Database;
    } catch (error) {
      errors.push(error);
    }
  }
  const message = `better-sqlite3 does not run on Node ${process.version}. Run \`npm ci\` with this Node.`;
  throw new AggregateError(errors, `${message} ${errors.map(String).join(' ')}`);
}

/** The only driver to test. `scripts/test.mjs` passes `none` to `npm test` on Node 20, because better-sqlite3 compiles for a minute. */
const ONLY = process.env['HEADGATE_SQLITE'];

/** The drivers of this Node. A driver that does not load fails every test with SQLite, so that no run leaves it out unnoticed. */
export const drivers: Readonly<Record<string, Class>> = {
  ...(DatabaseSync && { 'node:sqlite': DatabaseSync }),
  ...(ONLY !== 'node:sqlite' && ONLY !== 'none' && { 'better-sqlite3': betterSqlite() }),
};

const [Driver] = Object.values(drivers) as [Class];

/** `describe`, unless this run leaves SQLite to `npm run test:all`. */
export const describeSqlite = (title: string, suite: () => void): void => {
  if (Driver as Class | undefined) describe(title, suite);
};

/** `it`, if the store can open a path. */
export function itOpens(title: string, test: Mocha.AsyncFunc): void {
  if (DatabaseSync) it(title, test);
}

/** A store on a file. */
export function storeOn(path: string, options?: SqliteStoreOptions) {
  return sqliteStore(DatabaseSync ? path : openDatabase(path), options);
}

/** A separate connection, for changes that a test makes without the store. */
export function openDatabase(path: string): SqliteDatabase {
  return new Driver(path);
}

const directories: string[] = [];
process.once('exit', () => directories.forEach((each) => rmSync(each, { recursive: true, force: true })));

/** A directory that is deleted when the process ends. */
export function makeDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'headgate-sqlite-'));
  directories.push(directory);
  return directory;
}
