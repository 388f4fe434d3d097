/** The common members of both drivers: `DatabaseSync` of node:sqlite, and a database of better-sqlite3. */
export interface SqliteDatabase {
  /** Runs statements that return nothing. */
  exec(sql: string): unknown;
  /** Compiles a statement, which is then run any number of times. */
  prepare(sql: string): SqliteStatement;
  /** Ends the use of the file. */
  close(): unknown;
}

export type DatabaseClass<T extends SqliteDatabase = SqliteDatabase> = new (path: string) => T;

/** A prepared statement of either driver. */
export interface SqliteStatement {
  /** Returns the first row as an object, or undefined. The values replace the question marks of the statement. */
  get(...values: (string | number | Uint8Array)[]): unknown;
  /** Returns all rows as objects. Only for statements that return rows. */
  all(...values: (string | number | Uint8Array)[]): unknown[];
  /** Runs a statement for its effect. The values replace the question marks of the statement. */
  run(...values: (string | number | Uint8Array)[]): unknown;
}

/** The settings of a statement: of better-sqlite3, and of node:sqlite since Node 22.16. */
interface StatementSettings {
  safeIntegers?(isOn: boolean): unknown;
  setReadBigInts?(isOn: boolean): unknown;
  setReturnArrays?(isOn: boolean): unknown;
}

/** Compiles a statement whose rows are objects with numbers, even if the user opened the database with other settings. */
export function prepare(database: SqliteDatabase, sql: string): SqliteStatement {
  const statement = database.prepare(sql) as SqliteStatement & StatementSettings;
  statement.safeIntegers?.(false);
  statement.setReadBigInts?.(false);
  statement.setReturnArrays?.(false);
  return statement;
}

/** The database class of Node itself, from 22.13 on. Undefined on earlier versions. */
export function nodeDatabase<T extends SqliteDatabase = SqliteDatabase>(): DatabaseClass<T> | undefined {
  const sqlite = process.getBuiltinModule?.('node:sqlite' as 'node:fs') as unknown;
  return (sqlite as { DatabaseSync: DatabaseClass<T> } | undefined)?.DatabaseSync;
}

/** Whether an error means that another process has the lock. */
export function isBusy(error: unknown): boolean {
  const { errcode, code } = (error ?? {}) as { errcode?: unknown; code?: unknown };
  if (typeof errcode === 'number') return (errcode & 0xff) === 5;
  return typeof code === 'string' && code.startsWith('SQLITE_BUSY');
}
