import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { withoutSecrets } from 'headgate/admin';
import type { SqliteDatabase } from 'headgate/sqlite';
import { failure, usageError } from '../errors.js';
import type { Io } from '../io.js';

/** 'hgat' in ASCII, by which files of Headgate differ from those of other programs. */
const APPLICATION_ID = 0x68676174;

/** Opens a file of a `sqliteStore`, and closes it when `use` has ended. @throws CliError of the file, or the error of `use` */
export async function withFile(
  file: string,
  io: Io,
  use: (database: SqliteDatabase) => Promise<void>,
): Promise<void> {
  const path = resolve(io.cwd, file);
  if (!existsSync(path)) {
    // The URL of a server in place of a file may hold a password.
    const shown = resolve(io.cwd, withoutSecrets(file));
    throw usageError(`--sqlite: there is no file ${shown}. Pass the file of a sqliteStore.`);
  }
  const Driver = driverOf(io.cwd);
  const database = attempt(path, 'opened', () => new Driver(path));
  try {
    const read = () => database.prepare('PRAGMA application_id').get() as { application_id: number };
    const { application_id: id } = attempt(path, 'read', read);
    if (id !== APPLICATION_ID) throw failure(`--sqlite: ${path} is not a file of sqliteStore.`);
    await use(database);
  } finally {
    database.close();
  }
}

/** @throws CliError `FAILED` */
function attempt<T>(path: string, what: string, use: () => T): T {
  try {
    return use();
  } catch (error) {
    throw failure(`--sqlite: ${path} cannot be ${what}: ${(error as Error).message}.`, error);
  }
}

/** The class of node:sqlite, or of better-sqlite3 if that is installed in the working directory. @throws CliError `FAILED` */
function driverOf(cwd: string): new (path: string) => SqliteDatabase {
  const sqlite = process.getBuiltinModule?.('node:sqlite' as 'node:fs') as unknown;
  if (sqlite) return (sqlite as { DatabaseSync: new (path: string) => SqliteDatabase }).DatabaseSync;
  try {
    return createRequire(join(cwd, 'package.json'))('better-sqlite3') as new (path: string) => SqliteDatabase;
  } catch (error) {
    throw failure(
      `--sqlite: Node ${process.version} does not have node:sqlite. Use Node 22.13 or later, or run the command where better-sqlite3 is installed.`,
      error,
    );
  }
}
