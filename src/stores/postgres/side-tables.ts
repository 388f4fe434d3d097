// The tables beside the table of state: the log of changes, the crossings of thresholds, and the groups of their readers.
import {
  CROSSINGS_LIFE_MS,
  MAX_CROSSINGS,
  type StoredCrossing,
} from '../../features/thresholds/crossings.js';
import { isAutomatic, MAX_CHANGES, type LoggedChange } from '../journal.js';
import { identifier, literal, NOW } from './statements.js';

/** The names of the tables as identifiers. */
export function tablesOf(table: string) {
  const named = (suffix: string): string => identifier(`${table}_${suffix}`);
  return { log: named('log'), crossings: named('crossings'), readers: named('readers') };
}

/**
 * The SQL that creates the tables. They are always logged, so that a crash of the server neither loses an entry nor gives an id twice. A row of a
 * reader has the time at which it gets an unacknowledged crossing again. The row 0 has the last crossing that it has read.
 */
export function recordSchema(table: string): string {
  const { log, crossings, readers } = tablesOf(table);
  const id = 'id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY';
  return `CREATE TABLE ${log} (${id}, automatic boolean NOT NULL, entry text NOT NULL);
CREATE INDEX ON ${log} (automatic, id);
CREATE TABLE ${crossings} (${id}, at bigint NOT NULL, entry text NOT NULL);
CREATE TABLE ${readers} (reader text COLLATE "C", id bigint, until bigint NOT NULL, PRIMARY KEY (reader, id));
`;
}

/** The entries that a transaction writes. */
export interface Records {
  readonly log: readonly LoggedChange[];
  readonly crossings: readonly StoredCrossing[];
}

/**
 * Writes entries. A lock until the commit makes ids visible in their order: otherwise a reader that has read an id would miss a smaller one that is
 * committed later. The texts must be the last before the commit, so that the lock is short, and its holder waits for no other lock.
 */
export function recordTexts(table: string, { log, crossings }: Records): string[] {
  if (log.length === 0 && crossings.length === 0) return [];
  return [lockText(table, 'records'), ...logTexts(table, log), ...crossingTexts(table, crossings)];
}

function lockText(table: string, what: 'records' | 'readers'): string {
  return `SELECT pg_advisory_xact_lock(hashtextextended(${literal(`headgate ${what} ${table}`)}, 0))`;
}

function logTexts(table: string, changes: readonly LoggedChange[]): string[] {
  if (changes.length === 0) return [];
  const { log } = tablesOf(table);
  const rows = changes.map((change) => `(${isAutomatic(change)},${entryText(change)})`);
  const texts = [`INSERT INTO ${log} (automatic, entry) VALUES ${rows.join(',')}`];
  // Automatic changes can be many. Their cut is quick, and counts the few changes by hand among them.
  if (changes.some(isAutomatic))
    texts.push(
      `DELETE FROM ${log} WHERE automatic AND id <= (SELECT max(id) FROM ${log} WHERE automatic) - ${MAX_CHANGES}`,
    );
  if (!changes.every(isAutomatic))
    texts.push(
      `DELETE FROM ${log} WHERE NOT automatic AND id <= (SELECT id FROM ${log} WHERE NOT automatic ORDER BY id DESC LIMIT 1 OFFSET ${MAX_CHANGES})`,
    );
  return texts;
}

function crossingTexts(table: string, all: readonly StoredCrossing[]): string[] {
  const [first] = all;
  if (!first) return [];
  const { crossings } = tablesOf(table);
  const rows = all.map((crossing) => `(${crossing.at},${entryText(crossing)})`);
  const oldest = `SELECT id, at FROM ${crossings} ORDER BY id LIMIT ${2 * all.length}`;
  return [
    `INSERT INTO ${crossings} (at, entry) VALUES ${rows.join(',')}`,
    `DELETE FROM ${crossings} WHERE id <= (SELECT max(id) FROM ${crossings}) - ${MAX_CROSSINGS}`,
    `DELETE FROM ${crossings} WHERE id = ANY (ARRAY(SELECT id FROM (${oldest}) AS oldest WHERE at < ${first.at - CROSSINGS_LIFE_MS}))`,
  ];
}

/** An entry as JSON in ASCII, because the database may have any encoding. */
function entryText(entry: object): string {
  const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return literal(JSON.stringify(entry).replace(/[\u007f-\uffff]/g, escaped));
}

/** An entry with its id. */
export interface EntryRow {
  readonly id: string;
  readonly entry: string;
}

/** The newest entries of the log before an id. Returns `EntryRow`s. */
export function logText(table: string, before: string | number | undefined, most: number): string {
  const where = before === undefined ? '' : `WHERE log.id < ${before}`;
  return `SELECT id::text, entry FROM ${tablesOf(table).log} AS log ${where} ORDER BY log.id DESC LIMIT ${most}`;
}

/** Runs statements for a group of readers in a transaction. The readers of a table take turns. */
function readerText(table: string, statements: readonly string[]): string {
  const begin = 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE';
  return [begin, lockText(table, 'readers'), ...statements, 'COMMIT'].join(';\n');
}

/** Reads crossings: unacknowledged ones of `idle` ms ago first. Returns `EntryRow`s. @param now undefined for the server's clock */
export function readText(
  table: string,
  group: string,
  { most, idle, now }: { readonly most: number; readonly idle: number; readonly now: number | undefined },
): string {
  const { crossings, readers } = tablesOf(table);
  const reader = literal(group);
  return readerText(table, [
    `WITH clock AS (SELECT ${now ?? NOW} AS now),
again AS (SELECT c.id, c.entry FROM ${readers} AS r JOIN ${crossings} AS c ON c.id = r.id
  WHERE r.reader = ${reader} AND r.id > 0 AND r.until <= (SELECT now FROM clock) ORDER BY c.id LIMIT ${most}),
fresh AS (SELECT id, entry FROM ${crossings}
  WHERE id > coalesce((SELECT until FROM ${readers} WHERE reader = ${reader} AND id = 0), 0)
  ORDER BY id LIMIT ${most} - (SELECT count(*) FROM again)),
found AS (SELECT * FROM again UNION ALL SELECT * FROM fresh),
noted AS (INSERT INTO ${readers} SELECT ${reader}, id, (SELECT now FROM clock)::bigint + ${idle} FROM found
  UNION ALL SELECT ${reader}, 0, max(id) FROM fresh HAVING max(id) > 0
  ON CONFLICT (reader, id) DO UPDATE SET until = excluded.until)
SELECT id::text, entry FROM found ORDER BY found.id`,
    `DELETE FROM ${readers} WHERE id > 0 AND id < (SELECT min(id) FROM ${crossings})`,
  ]);
}

/** Acknowledges crossings for a group of readers. */
export function ackText(table: string, group: string, ids: readonly string[]): string {
  const { readers } = tablesOf(table);
  // Other texts are not ids of this store.
  const numbers = [0, ...ids].filter((id) => /^\d{1,18}$/.test(String(id)));
  return readerText(table, [
    `DELETE FROM ${readers} WHERE reader = ${literal(group)} AND id > 0 AND id IN (${numbers.join(',')})`,
  ]);
}
