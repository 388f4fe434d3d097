// The tables of the crossings of thresholds, and of the groups of their readers.
import {
  CROSSINGS_LIFE_MS,
  MAX_CROSSINGS,
  type StoredCrossing,
} from '../../features/thresholds/crossings.js';
import { entryText, ID_COLUMN, identifier, literal, lockText, NOW } from './statements.js';

export interface CrossingRecords {
  readonly crossings: readonly StoredCrossing[];
}

export function crossingTables(table: string) {
  return { crossings: identifier(`${table}_crossings`), readers: identifier(`${table}_readers`) };
}

/**
 * The SQL that creates the tables. A row of a reader has the time at which it gets an unacknowledged crossing again. The row 0 has the last
 * crossing that it has read.
 */
export function crossingSchema(table: string): string {
  const { crossings, readers } = crossingTables(table);
  return `CREATE TABLE ${crossings} (${ID_COLUMN}, at bigint NOT NULL, entry text NOT NULL);
CREATE TABLE ${readers} (reader text COLLATE "C", id bigint, until bigint NOT NULL, PRIMARY KEY (reader, id));
`;
}

export function crossingTexts(table: string, { crossings: all }: CrossingRecords): string[] {
  const [first] = all;
  if (!first) return [];
  const { crossings } = crossingTables(table);
  const rows = all.map((crossing) => `(${crossing.at},${entryText(crossing)})`);
  const oldest = `SELECT id, at FROM ${crossings} ORDER BY id LIMIT ${2 * all.length}`;
  return [
    `INSERT INTO ${crossings} (at, entry) VALUES ${rows.join(',')}`,
    `DELETE FROM ${crossings} WHERE id <= (SELECT max(id) FROM ${crossings}) - ${MAX_CROSSINGS}`,
    `DELETE FROM ${crossings} WHERE id = ANY (ARRAY(SELECT id FROM (${oldest}) AS oldest WHERE at < ${first.at - CROSSINGS_LIFE_MS}))`,
  ];
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
  const { crossings, readers } = crossingTables(table);
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
  const { readers } = crossingTables(table);
  // Other texts are not ids of this store.
  const numbers = [0, ...ids].filter((id) => /^\d{1,18}$/.test(String(id)));
  return readerText(table, [
    `DELETE FROM ${readers} WHERE reader = ${literal(group)} AND id > 0 AND id IN (${numbers.join(',')})`,
  ]);
}
