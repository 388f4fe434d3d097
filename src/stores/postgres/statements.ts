// The SQL of the store. A transaction has two texts of several statements each, so that it takes two round trips, or three if it meets a new key
// after transactions without any. Values are in the texts, because PostgreSQL allows parameters in single statements only. A list is one literal
// with a line for each item, because the server parses a long literal faster than many short ones.
import type { TextChange } from '../state/key-record.js';
import { escaped, escapedText } from './state-text.js';

/** The time by the server's clock in whole ms since the epoch. */
export const NOW = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

/** A text as a literal, whatever the server's `standard_conforming_strings`. */
export function literal(text: string): string {
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}

export const ID_COLUMN = 'id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY';

/** Makes the transactions with records, or those of readers, take turns until their commit. */
export function lockText(table: string, what: 'records' | 'readers'): string {
  return `SELECT pg_advisory_xact_lock(hashtextextended(${literal(`headgate ${what} ${table}`)}, 0))`;
}

/** An entry as JSON in ASCII, because the database may have any encoding. */
export function entryText(entry: object): string {
  const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return literal(JSON.stringify(entry).replace(/[\u007f-\uffff]/g, escaped));
}

/** The name of a table, with or without its schema, as an identifier. */
export function identifier(table: string): string {
  return table
    .split('.')
    .map((part) => `"${part}"`)
    .join('.');
}

interface Statement {
  readonly types: string;
  /** @param values literals, or the names of parameters */
  sql(table: string, values: readonly string[]): string;
}

/** A list as one literal: a line feed precedes each item, because the server reads an empty text as an empty list and not as an empty item. */
const linesFrom = (items: readonly string[]): string =>
  literal(items.length === 0 ? '' : `\n${items.join('\n')}`);

const linesOf = (text: string): string => `(string_to_array(${text}, E'\\n'))[2:]`;

/** A state as a line. JSON may have a space instead of a line feed. */
const stateLine = "replace(encode(state, 'escape'), E'\\n', ' ')";

const answerColumns = `${NOW}::text AS now, pg_backend_pid()::text AS pid`;

/** The plans of prepared statements are kept while the table grows, so none of them may depend on its size. */
export const STATEMENTS = {
  /**
   * Locks the rows of the keys. Missing rows are created. One statement locks old and new rows in the order of the keys, so that
   * transactions never wait for each other in a circle.
   */
  lock: {
    types: 'text',
    sql: (table, [keys]) =>
      `INSERT INTO ${table} AS t (key, expires, state) SELECT k, 0, '' FROM unnest(${linesOf(keys!)}) WITH ORDINALITY AS u (k, n) ORDER BY n
ON CONFLICT (key) DO UPDATE SET expires = t.expires WHERE false`,
  },
  /**
   * Reads the states of locked rows, each on a line, in the order of their keys. Only a statement of its own sees the rows that `lock` has
   * created, and the states on whose locks it has waited.
   */
  read: {
    types: 'text',
    sql: (table, [keys]) =>
      `SELECT string_agg(${stateLine}, E'\\n' ORDER BY key) AS states, ${answerColumns}
FROM ${table} WHERE key = ANY (${linesOf(keys!)})`,
  },
  /** `lock` and `read` at once, for half the work, if all rows exist: missing rows are absent from the states. */
  lockExisting: {
    types: 'text',
    sql: (table, [keys]) =>
      `SELECT string_agg(${stateLine}, E'\\n') AS states, ${answerColumns}
FROM (SELECT state FROM ${table} WHERE key = ANY (${linesOf(keys!)}) ORDER BY key FOR NO KEY UPDATE) AS locked`,
  },
  /** Writes states to locked rows. The keys are named twice, so that the server reads no other rows, whatever the plan of the join. */
  write: {
    types: 'text, bigint[], text',
    sql: (table, [keys, expires, states]) =>
      `UPDATE ${table} AS t SET expires = e, state = decode(s, 'escape')
FROM unnest(${linesOf(keys!)}, ${expires!}::bigint[], ${linesOf(states!)}) AS v (k, e, s) WHERE key = k AND key = ANY (${linesOf(keys!)})`,
  },
  /** The same for a single key, such as one hot key. The server needs half the time. */
  lockOne: {
    types: 'text',
    sql: (table, [key]) =>
      `INSERT INTO ${table} AS t (key, expires, state) VALUES (${key!}, 0, '') ON CONFLICT (key) DO UPDATE SET expires = t.expires WHERE false`,
  },
  readOne: {
    types: 'text',
    sql: (table, [key]) =>
      `SELECT ${stateLine} AS states, ${answerColumns} FROM ${table} WHERE key = ${key!}`,
  },
  /** The aggregate is computed after the wait for the lock, so that the time is that of the decision. */
  lockExistingOne: {
    types: 'text',
    sql: (table, [key]) =>
      `SELECT string_agg(${stateLine}, E'\\n') AS states, ${answerColumns}
FROM (SELECT state FROM ${table} WHERE key = ${key!} FOR NO KEY UPDATE) AS locked`,
  },
  writeOne: {
    types: 'text, bigint, text',
    sql: (table, [key, expires, state]) =>
      `UPDATE ${table} SET expires = ${expires!}, state = decode(${state!}, 'escape') WHERE key = ${key!}`,
  },
  remove: {
    types: 'text',
    sql: (table, [keys]) => `DELETE FROM ${table} WHERE key = ANY (${linesOf(keys!)})`,
  },
  /** Deletes expired rows of a part of the table. Rows that other transactions have locked are in use, and stay. */
  sweep: {
    types: 'text, bigint, bigint',
    sql: (table, [after, rows, before]) =>
      `WITH part AS MATERIALIZED (SELECT key, expires FROM ${table} WHERE key > ${after!} ORDER BY key LIMIT ${rows!}),
gone AS (DELETE FROM ${table} WHERE key = ANY (ARRAY(SELECT key FROM ${table} WHERE key = ANY (ARRAY(SELECT key FROM part WHERE expires <= ${before!}))
AND expires <= ${before!} FOR UPDATE SKIP LOCKED)) RETURNING key)
SELECT max(key) AS last, count(*)::text AS found, (SELECT count(*) FROM gone)::text AS gone FROM part`,
  },
} satisfies Record<string, Statement>;

export type StatementName = keyof typeof STATEMENTS;

/** The texts of the statements for a table, on one connection. */
export interface Texts {
  /** The texts by which the session learns the statements, or nothing. They come before those of `run`. */
  prepare(): string;
  /** @param values literals */
  run(name: StatementName, ...values: readonly string[]): string;
}

/** The limits of a transaction that the server enforces, ms. */
export interface Patience {
  /** The longest time for a statement, and for the lock of a row. */
  readonly statement: number;
  /** The longest time between the two texts. An unreachable process that dies holds its locks no longer than this time. */
  readonly idle: number;
}

/** The result of {@link lockAndRead}. For a single key without a row there may be no rows. Keys without rows have no line. */
export interface ReadRow {
  /** The states on lines, or `null` if there is no row. */
  readonly states: string | null;
  readonly now: string;
  /** The id of the server's process. */
  readonly pid: string;
}

/** Excludes plans that read the whole table. They are quick while the table is small, and a session keeps a plan while the table grows. */
const PLANS =
  'SET LOCAL enable_seqscan = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_nestloop = off;';

/** Which rows of the keys a transaction locks: those that exist, or all, of which it creates the missing ones. */
export type Rows = 'existing' | 'all';

/**
 * Begins a transaction, locks the rows of the keys and returns a {@link ReadRow}.
 *
 * @param keys in order of their bytes
 */
export function lockAndRead(
  texts: Texts,
  keys: readonly string[],
  { statement, idle }: Patience,
  rows: Rows,
): string {
  const isOne = keys.length === 1;
  const list = isOne ? literal(keys[0]!) : linesFrom(keys);
  const read =
    rows === 'existing'
      ? texts.run(isOne ? 'lockExistingOne' : 'lockExisting', list)
      : `${texts.run(isOne ? 'lockOne' : 'lock', list)};\n${texts.run(isOne ? 'readOne' : 'read', list)}`;
  return `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL statement_timeout = ${statement}; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = ${idle}; ${PLANS}
${texts.prepare()}${read}`;
}

/** A part of the table that is checked for expired rows. */
export interface Sweep {
  /** The key after which the part begins. */
  readonly after: string;
  readonly rows: number;
  /** The time before which a row expired, if it is to be deleted, ms since the epoch. */
  readonly before: number;
}

export interface SweepRow {
  readonly last: string | null;
  /** The count of checked rows, and of deleted rows. */
  readonly found: string;
  readonly gone: string;
}

/**
 * Writes states and commits. @param changes by key; without bytes or text, the row is deleted @param sweep returns a {@link SweepRow}
 * @param records texts before the commit
 */
export function writeAndCommit(
  texts: Texts,
  changes: ReadonlyMap<string, TextChange>,
  sweep: Sweep | undefined,
  records: readonly string[],
): string {
  const keys: string[] = [];
  const ends: number[] = [];
  const states: string[] = [];
  const gone: string[] = [];
  for (const [key, { bytes, text, expiresAt }] of changes) {
    if (text === undefined && !bytes) gone.push(key);
    else {
      keys.push(key);
      ends.push(expiresAt);
      states.push(text === undefined ? escaped(bytes!) : escapedText(text));
    }
  }
  const all: string[] = [];
  if (keys.length === 1)
    all.push(texts.run('writeOne', literal(keys[0]!), `${ends[0]!}`, literal(states[0]!)));
  if (keys.length > 1)
    all.push(texts.run('write', linesFrom(keys), `'{${ends.join(',')}}'`, linesFrom(states)));
  if (gone.length > 0) all.push(texts.run('remove', linesFrom(gone)));
  if (sweep) all.push(texts.run('sweep', literal(sweep.after), `${sweep.rows}`, `${sweep.before}`));
  return [...all, ...records, 'COMMIT'].join(';\n');
}

/** Reads the time by the server's clock. Returns `now`. */
export function clockText(): string {
  return `SELECT ${NOW}::text AS now`;
}

/** Reads states by their keys. A row without state is about to be deleted. */
export function statesText(table: string, keys: readonly string[]): string {
  const list = keys.map(literal).join(',');
  return `SELECT key, encode(state, 'hex') AS state FROM ${identifier(table)} WHERE key IN (${list}) AND state <> ''`;
}

/** Reads the rows after a key, in the order of their keys. */
export function rowsText(table: string, after: string, most: number): string {
  return `SELECT key, encode(state, 'hex') AS state FROM ${identifier(table)} WHERE key > ${literal(after)} ORDER BY key LIMIT ${most}`;
}
