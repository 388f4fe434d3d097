// The SQL of the store. A transaction has two texts of several statements each, so that it takes two round trips. Values are in the texts,
// because PostgreSQL allows parameters in single statements only.
import type { StateChange } from '../state/key-record.js';

/** The time by the server's clock in whole ms since the epoch. */
export const NOW = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::float8';

/** A text as a literal, whatever the server's `standard_conforming_strings`. */
export function literal(text: string): string {
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}

/** The name of a table, with or without its schema, as an identifier. */
export function identifier(table: string): string {
  return table
    .split('.')
    .map((part) => `"${part}"`)
    .join('.');
}

/** The limits of a transaction that the server enforces, ms. */
export interface Patience {
  /** The longest time for a statement, and for the lock of a row. */
  readonly statement: number;
  /** The longest time between the two texts. An unreachable process that dies holds its locks no longer than this time. */
  readonly idle: number;
}

/**
 * Begins a transaction, locks the rows of the keys and returns their states. Missing rows are created. One statement locks old and new rows
 * in the order of the keys, so that transactions never wait for each other in a circle.
 *
 * @param keys in order of their bytes
 */
export function lockAndRead(table: string, keys: readonly string[], { statement, idle }: Patience): string {
  const list = `ARRAY[${keys.map(literal).join(',')}]`;
  return `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL statement_timeout = ${statement}; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = ${idle};
INSERT INTO ${table} AS t (key, expires, state) SELECT k, 0, '' FROM unnest(${list}) WITH ORDINALITY AS u (k, n) ORDER BY n
ON CONFLICT (key) DO UPDATE SET expires = t.expires WHERE false;
SELECT key, state, (SELECT ${NOW}) AS now FROM ${table} WHERE key = ANY (${list})`;
}

/** A part of the table that is checked for expired rows. */
export interface Sweep {
  /** The key after which the part begins. */
  readonly after: string;
  readonly rows: number;
  /** The time before which a row expired, if it is to be deleted, ms since the epoch. */
  readonly before: number;
}

/**
 * Writes states and commits. @param changes by key; without bytes, the row is deleted @param sweep returns `last` and `found`
 * @param records texts before the commit
 */
export function writeAndCommit(
  table: string,
  changes: ReadonlyMap<string, StateChange>,
  sweep: Sweep | undefined,
  records: readonly string[],
): string {
  const rows: string[] = [];
  const gone: string[] = [];
  for (const [key, { bytes, expiresAt }] of changes) {
    if (!bytes) gone.push(literal(key));
    else
      rows.push(
        `(${literal(key)},${expiresAt}::bigint,E'\\\\x${Buffer.from(bytes).toString('hex')}'::bytea)`,
      );
  }
  const texts: string[] = [];
  if (rows.length > 0)
    texts.push(
      `UPDATE ${table} AS t SET expires = v.expires, state = v.state FROM (VALUES ${rows.join(',')}) AS v (key, expires, state) WHERE t.key = v.key`,
    );
  if (gone.length > 0) texts.push(`DELETE FROM ${table} WHERE key IN (${gone.join(',')})`);
  if (sweep) texts.push(...sweepTexts(table, sweep));
  return [...texts, ...records, 'COMMIT'].join(';\n');
}

/** Deletes expired rows. Rows that other transactions have locked are in use, and stay. */
function sweepTexts(table: string, { after, rows, before }: Sweep): string[] {
  const part = `(SELECT key FROM ${table} WHERE key > ${literal(after)} ORDER BY key LIMIT ${rows}) AS part`;
  return [
    `SELECT max(key) AS last, count(*)::int AS found FROM ${part}`,
    `DELETE FROM ${table} WHERE key IN (SELECT key FROM ${table} WHERE key > ${literal(after)} AND key <= (SELECT max(key) FROM ${part})
AND expires <= ${before} FOR UPDATE SKIP LOCKED)`,
  ];
}

/** Reads the time by the server's clock. Returns `now`. */
export function clockText(): string {
  return `SELECT ${NOW} AS now`;
}

/** Reads states by their keys. A row without state is about to be deleted. */
export function statesText(table: string, keys: readonly string[]): string {
  const list = keys.map(literal).join(',');
  return `SELECT key, state FROM ${identifier(table)} WHERE key IN (${list}) AND state <> ''`;
}

/** Reads the rows after a key, in the order of their keys. */
export function rowsText(table: string, after: string, most: number): string {
  return `SELECT key, state FROM ${identifier(table)} WHERE key > ${literal(after)} ORDER BY key LIMIT ${most}`;
}
