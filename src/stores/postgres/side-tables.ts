// The tables beside the table of state: the log of changes, and those of crossing-tables.ts.
import { isAutomatic, MAX_CHANGES, type LoggedChange } from '../journal.js';
import { crossingSchema, crossingTables, crossingTexts, type CrossingRecords } from './crossing-tables.js';
import { entryText, ID_COLUMN, identifier, lockText } from './statements.js';

const logTable = (table: string): string => identifier(`${table}_log`);

export const sideTables = (table: string): string[] => [
  logTable(table),
  ...Object.values(crossingTables(table)),
];

export const writtenTables = (table: string, isStream: boolean): string[] =>
  isStream ? [logTable(table), crossingTables(table).crossings] : [logTable(table)];

/** The SQL that creates the tables. They are always logged, so that a crash of the server neither loses an entry nor gives an id twice. */
export function recordSchema(table: string): string {
  const log = logTable(table);
  return `CREATE TABLE ${log} (${ID_COLUMN}, automatic boolean NOT NULL, entry text NOT NULL);
CREATE INDEX ON ${log} (automatic, id);
${crossingSchema(table)}`;
}

export interface Records extends CrossingRecords {
  readonly log: readonly LoggedChange[];
}

/**
 * Writes entries. A lock until the commit makes ids visible in their order: otherwise a reader that has read an id would miss a smaller one that is
 * committed later. The texts must be the last before the commit, so that the lock is short, and its holder waits for no other lock.
 */
export function recordTexts(table: string, records: Records): string[] {
  const texts = [...logTexts(table, records.log), ...crossingTexts(table, records)];
  return texts.length === 0 ? [] : [lockText(table, 'records'), ...texts];
}

function logTexts(table: string, changes: readonly LoggedChange[]): string[] {
  if (changes.length === 0) return [];
  const log = logTable(table);
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

export interface EntryRow {
  readonly id: string;
  readonly entry: string;
}

/** The newest entries of the log before an id. Returns `EntryRow`s. */
export function logText(table: string, before: string | number | undefined, most: number): string {
  const where = before === undefined ? '' : `WHERE log.id < ${before}`;
  return `SELECT id::text, entry FROM ${logTable(table)} AS log ${where} ORDER BY log.id DESC LIMIT ${most}`;
}
