// SQLite stores for tests. node:sqlite opens a path. On older Nodes, better-sqlite3 opens it, if it is installed.
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sqliteStore, type SqliteDatabase, type SqliteStoreOptions } from 'headgate/sqlite';

type Class = new (path: string) => SqliteDatabase;

/** The class of node:sqlite, if this Node has it. */
export const DatabaseSync = (
  process.getBuiltinModule?.('node:sqlite' as 'node:fs') as unknown as { DatabaseSync: Class } | undefined
)?.DatabaseSync;

/** The class of better-sqlite3, if installed. Headgate does not install better-sqlite3, which must be compiled. */
export const BetterSqlite = (() => {
  try {
    const Database = createRequire(import.meta.url)('better-sqlite3') as Class;
    // The installed file may be compiled for another Node.
    new Database(':memory:').close();
    return Database;
  } catch {
    return undefined;
  }
})();

const Driver = DatabaseSync ?? BetterSqlite;

/** Whether there is an SQLite. If not, its tests are skipped. */
const hasSqlite = Driver !== undefined;

/** `describe` with SQLite. Without SQLite it reports that the tests did not run, because a pending test counts as failed in CI. */
export function describeSqlite(title: string, tests: (this: Mocha.Suite) => void): void {
  if (hasSqlite) describe(title, tests);
  else {
    console.log(
      `NOT RUN: ${title}. Node ${process.version} has no node:sqlite, and there is no better-sqlite3. npm run test:nodes runs it.`,
    );
  }
}

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
  return new Driver!(path);
}

const directories: string[] = [];
process.once('exit', () => directories.forEach((each) => rmSync(each, { recursive: true, force: true })));

/** A directory that is deleted when the process ends. */
export function makeDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'headgate-sqlite-'));
  directories.push(directory);
  return directory;
}
