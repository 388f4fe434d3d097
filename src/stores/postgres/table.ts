import { HeadgateError } from '../../common/errors.js';
import { performance } from '../../common/real-time.js';
import type { Clock } from '../../contract/store.js';
import type { StoredCrossing } from '../../features/thresholds/crossings.js';
import type { LoggedChange } from '../journal.js';
import { EXPIRED_STATE_LIFE_MS, type TextChange } from '../state/key-record.js';
import { decode, encode, type StoredState } from '../state/saved-state.js';
import { runUpdate, type Update } from '../state/updates.js';
import type { PostgresConnection } from './connection.js';
import type { PostgresRow } from './pool.js';
import { recordTexts } from './side-tables.js';
import { checkTable, commentText, type CommentRow, type Schema } from './schema.js';
import { unescaped, unescapedText } from './state-text.js';
import {
  identifier,
  lockAndRead,
  writeAndCommit,
  type ReadRow,
  type Rows,
  type Sweep,
  type SweepRow,
  type Texts,
} from './statements.js';

/** The least time that the server gives a statement, ms. Callers wait less long. */
const MIN_STATEMENT_MS = 1000;

/**
 * The time between the two texts of a transaction after which the server ends it, ms. The rows of a process that stalls are locked for this
 * time. The process then decides again.
 */
const MAX_IDLE_MS = 500;

/**
 * The rows to check for each row that is created, so that expired rows are a small part of the table. If the last sweep found an expired row, each
 * other written row counts as much.
 */
const CHECKED_ROWS_PER_WRITE = 4;

/** The rows to check for another written row while sweeps find no expired rows. */
const CHECKED_ROWS_PER_REWRITE = 0.5;

const MIN_SWEPT_ROWS = 128;

/** The transactions in turn without a new key, after which the next one expects none. If it has one, it begins anew. */
const SETTLED_AFTER = 2;

/** The locked rows of a transaction. */
interface Locked {
  readonly texts: Texts;
  readonly row: ReadRow;
  /** The states of the keys, in their order. */
  readonly lines: readonly string[];
}

/** The table, and the transactions that change it. */
export class PostgresTable {
  hasAnswered = false;
  readonly #schema: Schema;
  readonly #name: string;
  readonly #clock: Clock | undefined;
  #isChecked = false;
  /** The rows to check in the next sweep. */
  #unchecked = 0;
  #hasExpired = false;
  /** The transactions in turn that created no row. */
  #withoutNew = 0;
  /** The key at which the next sweep begins. Undefined before the first sweep. */
  #swept: string | undefined;

  constructor(schema: Schema, clock: Clock | undefined) {
    this.#schema = schema;
    this.#name = identifier(schema.table);
    this.#clock = clock;
  }

  /** Checks once that the table is there. @throws HeadgateError `HEADGATE_STORE_AWAY` @throws Failure */
  async check(connection: PostgresConnection): Promise<void> {
    if (this.#isChecked) return;
    const [{ rows }] = await connection.prepare(commentText(this.#schema), MIN_STATEMENT_MS);
    checkTable(this.#schema.table, rows[0] as unknown as CommentRow);
    this.#isChecked = true;
  }

  /** Forgets the check, because the table may have been dropped or replaced. */
  uncheck(): void {
    this.#isChecked = false;
  }

  /** Undoes a transaction that failed. @throws Failure */
  async rollback(connection: PostgresConnection): Promise<void> {
    await connection.prepare('ROLLBACK', MIN_STATEMENT_MS);
  }

  /** Runs updates in a transaction. @returns the updates that succeeded @throws Failure */
  async transact(connection: PostgresConnection, updates: readonly Update[]): Promise<readonly Update[]> {
    const statement = longestTimeout(updates);
    // The server's own limit should come first, because its answer leaves no doubt.
    const ms = statement + MIN_STATEMENT_MS;
    const keys = [...new Set(updates.flatMap((update) => update.keys))].sort();
    markSent(updates);
    const sent = performance.now();
    const { texts, row, lines } = await this.#lock(connection, keys, statement);
    connection.session.answeredBy(row.pid);
    const states = new BatchStates(keys, lines);
    this.#withoutNew = states.created > 0 ? 0 : this.#withoutNew + 1;
    const now = this.#clock?.() ?? Number(row.now);
    const done = updates.filter((update) => runUpdate(states, update, now));
    const sweep = this.#nextSweep(states, keys[0]!, now);
    const records = recordTexts(this.#schema.table, states);
    const text = writeAndCommit(texts, states.changes, sweep, records);
    // If this process stalled, the server may have ended the transaction. Without this question the outcome of the commit would be unknown.
    if (performance.now() - sent > MAX_IDLE_MS / 2) await connection.prepare('SELECT 1', ms);
    this.#noteSweep(sweep, await connection.commit(text, ms));
    this.hasAnswered = true;
    return done;
  }

  /** Locks and reads the rows of keys. @param statement the longest time for a statement, ms @throws Failure */
  async #lock(connection: PostgresConnection, keys: readonly string[], statement: number): Promise<Locked> {
    const read = async (rows: Rows, before: string): Promise<Locked | undefined> => {
      const texts = connection.session.textsOf(this.#name);
      const text = lockAndRead(texts, keys, { statement, idle: MAX_IDLE_MS }, rows);
      const replies = await connection.prepare(before + text, statement + MIN_STATEMENT_MS);
      const row = replies.at(-1)!.rows[0] as unknown as ReadRow | undefined;
      const lines = row?.states?.split('\n') ?? [];
      return row && lines.length === keys.length ? { texts, row, lines } : undefined;
    };
    const isSettled = this.#withoutNew >= SETTLED_AFTER;
    const found = isSettled ? await read('existing', '') : undefined;
    // The locks are given back first, because new rows must be locked in the order of all keys.
    const locked = found ?? (await read('all', isSettled ? 'ROLLBACK;\n' : ''));
    if (!locked) throw hiddenRows(this.#schema.table);
    return locked;
  }

  /** The part of the table to sweep after some writes. Each new process begins at another key. */
  #nextSweep({ created, changes }: BatchStates, key: string, now: number): Sweep | undefined {
    const perRewrite = this.#hasExpired ? CHECKED_ROWS_PER_WRITE : CHECKED_ROWS_PER_REWRITE;
    this.#unchecked += CHECKED_ROWS_PER_WRITE * created + perRewrite * (changes.size - created);
    if (this.#unchecked < MIN_SWEPT_ROWS) return undefined;
    const rows = Math.floor(this.#unchecked);
    this.#unchecked = 0;
    return { after: (this.#swept ??= key), rows, before: now - EXPIRED_STATE_LIFE_MS };
  }

  #noteSweep(sweep: Sweep | undefined, replies: readonly { readonly rows: readonly PostgresRow[] }[]): void {
    const swept = replies.find(({ rows: [row] }) => row && 'found' in row)?.rows[0];
    if (!sweep || !swept) return;
    const { last, found, gone } = swept as unknown as SweepRow;
    // New keys may always follow the last one, so the end is reached when too few rows are left.
    this.#swept = Number(found) < sweep.rows ? '' : last!;
    this.#hasExpired = gone !== '0';
  }
}

const NO_STATE: TextChange = { changed: true, bytes: undefined, expiresAt: 0 };

/** The states of a transaction: the rows that were read, and the changes to write. */
class BatchStates {
  /** The number of rows without state, which were created for their lock. They are deleted unless a change gives them a state. */
  readonly created: number;
  readonly changes = new Map<string, TextChange>();
  readonly log: LoggedChange[] = [];
  readonly crossings: StoredCrossing[] = [];
  readonly #read = new Map<string, string>();

  /** @param keys of the rows @param states the rows' states as text */
  constructor(keys: readonly string[], states: readonly string[]) {
    for (const [i, key] of keys.entries()) {
      const state = states[i]!;
      this.#read.set(key, state);
      if (state === '') this.changes.set(key, NO_STATE);
    }
    this.created = this.changes.size;
  }

  read(key: string, asText: boolean): StoredState {
    const change = this.changes.get(key);
    if (!change) {
      const text = this.#read.get(key)!;
      return asText ? unescapedText(text) : unescaped(text);
    }
    const { bytes, text } = change;
    if (asText) return text ?? (bytes ? decode(bytes) : '');
    return text === undefined ? bytes : encode(text);
  }

  write(key: string, change: TextChange): void {
    if (change.changed) this.changes.set(key, change);
    if (change.log) this.log.push(...change.log);
    if (change.crossings) this.crossings.push(...change.crossings);
  }
}

/** Starts the time of callers, because their questions are sent now. */
function markSent(updates: readonly Update[]): void {
  const now = performance.now();
  for (const { askers } of updates)
    for (const { subject } of askers)
      if (subject.call && !subject.call.until) subject.call.until = now + subject.set.timeout;
}

/** The error of a table that does not return rows which were just created. Their charges would be lost. */
function hiddenRows(table: string): HeadgateError {
  return new HeadgateError(
    'HEADGATE_STORE_AWAY',
    `PostgreSQL cannot be used: a trigger or row-level security hides rows of the table '${table}'. Remove it.`,
  );
}

function longestTimeout(updates: readonly Update[]): number {
  let longest = MIN_STATEMENT_MS;
  for (const { askers } of updates)
    for (const { subject } of askers)
      if (Number.isFinite(subject.set.timeout)) longest = Math.max(longest, subject.set.timeout);
  return Math.ceil(longest);
}
