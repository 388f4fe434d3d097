import { HeadgateError } from '../../common/errors.js';
import { performance } from '../../common/real-time.js';
import type { Clock } from '../../contract/store.js';
import type { StoredCrossing } from '../crossings.js';
import type { LoggedChange } from '../journal.js';
import { EXPIRED_STATE_LIFE_MS, type StateChange } from '../state/key-record.js';
import { runUpdate, type Update } from '../state/updates.js';
import type { Connection } from './connection.js';
import type { Row } from './pool.js';
import { recordTexts } from './records.js';
import { checkTable, commentText, type CommentRow, type Schema } from './schema.js';
import { identifier, lockAndRead, writeAndCommit, type Sweep } from './statements.js';

/** The least time that the server gives a statement, ms. Callers wait less long. */
const MIN_STATEMENT_MS = 1000;

/**
 * The time between the two texts of a transaction after which the server ends it, ms. The rows of a process that stalls are locked for this
 * time. The process then decides again.
 */
const MAX_IDLE_MS = 500;

/** The rows to check in a sweep for each written row, so that expired rows are a small part of the table. */
const CHECKED_ROWS_PER_WRITE = 4;

/** The rows that are written between two sweeps. */
const WRITES_PER_SWEEP = 64;

/** The table, and the transactions that change it. */
export class Table {
  /** Whether the server has answered once. */
  hasAnswered = false;
  readonly #schema: Schema;
  readonly #name: string;
  readonly #clock: Clock | undefined;
  #isChecked = false;
  /** The rows written since the last sweep. */
  #written = 0;
  /** The key at which the next sweep begins. Undefined before the first sweep. */
  #swept: string | undefined;

  constructor(schema: Schema, clock: Clock | undefined) {
    this.#schema = schema;
    this.#name = identifier(schema.table);
    this.#clock = clock;
  }

  /** Checks once that the table is there. @throws HeadgateError `HEADGATE_STORE_AWAY` @throws Failure */
  async check(connection: Connection): Promise<void> {
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
  async rollback(connection: Connection): Promise<void> {
    await connection.prepare('ROLLBACK', MIN_STATEMENT_MS);
  }

  /** Runs updates in a transaction. @returns the updates that succeeded @throws Failure */
  async transact(connection: Connection, updates: readonly Update[]): Promise<readonly Update[]> {
    const statement = longestTimeout(updates);
    // The server's own limit should come first, because its answer leaves no doubt.
    const ms = statement + MIN_STATEMENT_MS;
    const keys = [...new Set(updates.flatMap((update) => update.keys))].sort();
    markSent(updates);
    const sent = performance.now();
    const replies = await connection.prepare(
      lockAndRead(this.#name, keys, { statement, idle: MAX_IDLE_MS }),
      ms,
    );
    const { rows } = replies.at(-1)!;
    if (rows.length < keys.length) throw hiddenRows(this.#schema.table);
    const states = new BatchStates(rows);
    const now = this.#clock?.() ?? Number(rows[0]!['now']);
    const done = updates.filter((update) => runUpdate(states, update, now));
    const sweep = this.#nextSweep(states.changes.size, keys[0]!, now);
    const records = recordTexts(this.#schema.table, states);
    const text = writeAndCommit(this.#name, states.changes, sweep, records);
    // If this process stalled, the server may have ended the transaction. Without this question the outcome of the commit would be unknown.
    if (performance.now() - sent > MAX_IDLE_MS / 2) await connection.prepare('SELECT 1', ms);
    this.#noteSweep(sweep, await connection.commit(text, ms));
    this.hasAnswered = true;
    return done;
  }

  /** The part of the table to sweep after some writes. Each new process begins at another key. */
  #nextSweep(written: number, key: string, now: number): Sweep | undefined {
    this.#written += written;
    if (this.#written < WRITES_PER_SWEEP) return undefined;
    const rows = CHECKED_ROWS_PER_WRITE * this.#written;
    this.#written = 0;
    return { after: (this.#swept ??= key), rows, before: now - EXPIRED_STATE_LIFE_MS };
  }

  #noteSweep(sweep: Sweep | undefined, replies: readonly { readonly rows: readonly Row[] }[]): void {
    const swept = replies.find(({ rows: [row] }) => row && 'found' in row)?.rows[0];
    if (!sweep || !swept) return;
    // New keys may always follow the last one, so the end is reached when too few rows are left.
    this.#swept = Number(swept['found']) < sweep.rows ? '' : (swept['last'] as string);
  }
}

/** The states of a transaction: the rows that were read, and the changes to write. */
class BatchStates {
  readonly changes = new Map<string, StateChange>();
  readonly log: LoggedChange[] = [];
  readonly crossings: StoredCrossing[] = [];
  readonly #read = new Map<string, Uint8Array>();

  constructor(rows: readonly Row[]) {
    for (const { key, state } of rows) {
      const bytes = state as Uint8Array;
      this.#read.set(key as string, bytes);
      // A row without state was created for its lock, and is deleted unless a change gives the row a state.
      if (bytes.length === 0)
        this.changes.set(key as string, { changed: true, bytes: undefined, expiresAt: 0 });
    }
  }

  read(key: string): Uint8Array | undefined {
    const change = this.changes.get(key);
    if (change) return change.bytes;
    return this.#read.get(key);
  }

  write(key: string, change: StateChange): void {
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
  const timeouts = updates.flatMap(({ askers }) => askers.map(({ subject }) => subject.set.timeout));
  return Math.ceil(Math.max(MIN_STATEMENT_MS, ...timeouts.filter(Number.isFinite)));
}
