import {
  CROSSINGS_LIFE_MS,
  MAX_CROSSINGS,
  type CrossingSource,
  type ReadCrossing,
  type StoredCrossing,
} from './crossings.js';

/** A database with the transaction under way in it. better-sqlite3 refuses `all` for statements without rows, and numbers as in `?1`. */
interface Statements {
  all(sql: string, ...values: readonly (string | number)[]): unknown[];
  run(sql: string, ...values: readonly (string | number)[]): void;
}

/** A row of a reader has the time at which it gets an unacknowledged crossing again. The row 0 has the last crossing that it has read. */
const TABLES = [
  'CREATE TABLE IF NOT EXISTS headgate_crossings (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, entry TEXT NOT NULL)',
  `CREATE TABLE IF NOT EXISTS headgate_readers (reader TEXT NOT NULL, id INTEGER NOT NULL, until INTEGER NOT NULL,
    PRIMARY KEY (reader, id)) WITHOUT ROWID`,
];

interface CrossingRow {
  readonly id: number;
  readonly entry: string;
}

/** Writes crossings in the transaction under way. The first writer of a file creates the tables. */
export function writeCrossings(database: Statements, crossings: readonly StoredCrossing[]): void {
  for (const table of TABLES) database.run(table);
  for (const crossing of crossings) {
    const insert = 'INSERT INTO headgate_crossings (at, entry) VALUES (?, ?) RETURNING id';
    const [{ id }] = database.all(insert, crossing.at, JSON.stringify(crossing)) as [{ id: number }];
    const old = `DELETE FROM headgate_crossings WHERE id <= ? OR (at < ? AND id IN
      (SELECT id FROM headgate_crossings ORDER BY id LIMIT 2))`;
    database.run(old, id - MAX_CROSSINGS, crossing.at - CROSSINGS_LIFE_MS);
  }
}

type Write = <T>(use: (database: Statements, now: number) => T) => Promise<T>;

/** The crossings of a file. @param write runs a function in a transaction */
export function crossingsOf(write: Write): CrossingSource {
  return {
    read: (group, most, idle) =>
      write((database, now) => readCrossings(database, group, { most, idle, now })),
    ack: (reader, ids) =>
      write((database) => {
        for (const table of TABLES) database.run(table);
        for (const id of ids)
          database.run('DELETE FROM headgate_readers WHERE reader = ? AND id = ?', reader, Number(id));
      }),
  };
}

/** Reads crossings for a group of readers, in the transaction under way: unacknowledged ones of `idle` ms ago first. */
function readCrossings(
  database: Statements,
  reader: string,
  { most, idle, now }: { readonly most: number; readonly idle: number; readonly now: number },
): ReadCrossing[] {
  for (const table of TABLES) database.run(table);
  const again = `SELECT c.id, c.entry FROM headgate_readers r JOIN headgate_crossings c ON c.id = r.id
    WHERE r.reader = ? AND r.id > 0 AND r.until <= ? ORDER BY c.id LIMIT ?`;
  const rows = database.all(again, reader, now, most) as CrossingRow[];
  const end = 'SELECT until AS last FROM headgate_readers WHERE reader = ? AND id = 0';
  const [{ last } = { last: 0 }] = database.all(end, reader) as [{ last: number }?];
  const next = 'SELECT id, entry FROM headgate_crossings WHERE id > ? ORDER BY id LIMIT ?';
  const fresh = database.all(next, last, most - rows.length) as CrossingRow[];
  const note = 'REPLACE INTO headgate_readers VALUES (?, ?, ?)';
  for (const { id } of [...rows, ...fresh]) database.run(note, reader, id, now + idle);
  const newest = fresh.at(-1)?.id;
  if (newest !== undefined) database.run(note, reader, 0, newest);
  database.run('DELETE FROM headgate_readers WHERE id > 0 AND id < (SELECT min(id) FROM headgate_crossings)');
  return [...rows, ...fresh].map(({ id, entry }) => ({
    id: String(id),
    ...(JSON.parse(entry) as StoredCrossing),
  }));
}
