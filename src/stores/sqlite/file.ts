import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { isBusy, prepare, type DatabaseClass, type SqliteDatabase } from './driver.js';

/** The path of a database. Empty if the database is in memory. */
export function fileOf(database: SqliteDatabase): string {
  return (prepare(database, 'PRAGMA database_list').get() as { file: string }).file;
}

/** The identities of the file at a path and of the file's log. An emptied file has a new identity. */
export function filesOf(path: string): string {
  const isEmpty = statSync(path, { throwIfNoEntry: false })?.size === 0;
  return `${identityOf(path)} ${isEmpty} ${identityOf(`${path}-wal`)}`;
}

/** The identity of the file at a path. Undefined if there is none. */
function identityOf(path: string): string | undefined {
  const file = statSync(path, { throwIfNoEntry: false });
  return file && `${file.dev} ${file.ino}`;
}

/**
 * Creates a file that only its owner can read, unless the file exists. An existing file must not be opened here: closing it would end the
 * locks of this process on the file.
 */
export function createFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    // For a link to a missing file, SQLite would create the file readable by everybody.
    if (identityOf(path) === undefined) closeSync(openSync(path, 'a', 0o600));
  }
}

/**
 * Makes a new file readable only by its owner, if all users may read the file, as most programs create files. The log beside the file gets
 * the same permissions. A file with content, or with write access for all users, stays unchanged.
 */
export function hide(path: string): void {
  const file = statSync(path, { throwIfNoEntry: false });
  if (file?.size !== 0 || (file.mode & 0o006) !== 0o004) return;
  try {
    chmodSync(path, 0o600);
  } catch {
    // The file belongs to another user.
  }
}

/** The reason why a file cannot be opened or written, if Node's is more precise than SQLite's. */
export function refusalOf(path: string): string | undefined {
  try {
    for (const each of [dirname(path), path]) accessSync(each, constants.R_OK | constants.W_OK);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Whether the file system refuses locks, even the lock of a new file, which no other process can have. */
export function refusesLocks(path: string, Driver: DatabaseClass): boolean {
  if (path === '') return false;
  let directory: string | undefined;
  try {
    directory = mkdtempSync(join(dirname(path), '.headgate-'));
    const database = new Driver(join(directory, 'lock'));
    try {
      database.exec('PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE; COMMIT');
    } finally {
      database.close();
    }
    return false;
  } catch (error) {
    return isBusy(error);
  } finally {
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
  }
}
