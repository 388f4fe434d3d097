import { HeadgateError } from '../../common/errors.js';
import { performance, setImmediate } from '../../common/real-time.js';
import { within } from '../../common/within.js';
import type { Clock } from '../../contract/store.js';
import { EXPIRED_STATE_LIFE_MS, type StateChange } from '../state/key-state.js';
import { rejectAll, runUpdate, type Update } from '../state/updates.js';
import type { PostgresClient, PostgresPool, PostgresResult, Row } from './pool.js';
import { checkTable, commentText, type Schema } from './schema.js';
import { identifier, lockAndRead, writeAndCommit, type Patience } from './statements.js';

/** The transactions that are under way at the same time. While one waits for the server, the next one is filled. */
const MAX_TRANSACTIONS = 2;

/** The most updates of a transaction, so that its decisions do not block the event loop for long. */
const MAX_UPDATES = 256;

/** The attempts at a transaction that the server rolled back for a reason that passes. */
const MAX_ATTEMPTS = 5;

/** The least time that the server gives a statement, ms. Callers do not wait that long. */
const MIN_STATEMENT_MS = 1000;

/** The time between the two texts of a transaction after which the server ends it, ms. A busy process needs longer than an idle one. */
const MAX_IDLE_MS = 2000;

/** The rows that a sweep checks for each written row, so that expired rows are a small part of the table. */
const CHECKED_ROWS_PER_WRITE = 4;

/** The rows that are written between two sweeps. */
const WRITES_PER_SWEEP = 64;

/** SQL states after which the transaction is tried again: serialization failure, deadlock, idle for too long. */
const TRANSIENT = new Set(['40001', '40P01', '25P03']);

/** SQL states by which a server that shuts down may answer even a commit that took effect. */
const SHUTDOWN = /^(57P0[1-5]|08)/;

/** The failure of a transaction. */
class Failure extends Error {
  /** Whether certainly nothing was written. */
  readonly isUndone: boolean;

  constructor(cause: unknown, isUndone: boolean) {
    super('', { cause });
    this.isUndone = isUndone;
  }

  get isTransient(): boolean {
    return this.isUndone && TRANSIENT.has(stateOf(this.cause));
  }
}

/** Updates states in transactions. The updates of a turn of the event loop, and those that arrive while no connection is free, share one. */
export class Batches {
  readonly #pool: PostgresPool;
  readonly #schema: Schema;
  readonly #table: string;
  readonly #clock: Clock | undefined;
  #queue: Update[] = [];
  /** The transactions under way, including those that wait for a connection. */
  #running = 0;
  #isScheduled = false;
  #isClosed = false;
  #isTableChecked = false;
  /** The rows written since the last sweep. */
  #written = 0;
  /** The key at which the next sweep begins. Undefined before the first sweep. */
  #swept: string | undefined;
  #idle: (() => void)[] = [];

  constructor(pool: PostgresPool, schema: Schema, clock: Clock | undefined) {
    this.#pool = pool;
    this.#schema = schema;
    this.#table = identifier(schema.table);
    this.#clock = clock;
  }

  update(keys: Update['keys'], change: Update['change'], askers: Update['askers']): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed) {
        reject(new HeadgateError('HEADGATE_CLOSED', 'The store is closed.'));
        return;
      }
      this.#dropAbandoned();
      this.#queue.push({ keys, change, askers, asked: performance.now(), resolve, reject });
      this.#schedule();
    });
  }

  /** Resolves when all updates have ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#running > 0 || this.#queue.length > 0)
      await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Removes updates from the head of the queue for which nobody waits, in case no connection becomes free for a long time. */
  #dropAbandoned(): void {
    const n = this.#queue.findIndex((update) => !isAbandoned(update));
    if (n === 0) return;
    const gone = this.#queue.splice(0, n < 0 ? this.#queue.length : n);
    rejectAll(gone, away('no connection of the pool became free in time'));
  }

  #schedule(): void {
    if (this.#isScheduled || this.#running >= MAX_TRANSACTIONS) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#running++;
    try {
      await this.#runQueue();
    } finally {
      this.#running--;
      if (this.#queue.length > 0) this.#schedule();
      else if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve();
    }
  }

  /** Takes a connection, then the updates that wait for one. */
  async #runQueue(): Promise<void> {
    let client: PostgresClient;
    try {
      client = await this.#pool.connect();
    } catch (error) {
      rejectAll(this.#queue.splice(0), away(error));
      return;
    }
    this.#dropAbandoned();
    const updates = this.#queue.splice(0, MAX_UPDATES);
    const connection = new Connection(client);
    let isBroken = false;
    try {
      if (updates.length > 0) await this.#attempt(connection, updates);
    } catch (error) {
      isBroken = true;
      const failure = error as Failure;
      if (failure.isTransient) this.#queue.unshift(...updates);
      else this.#fail(updates, failure);
    } finally {
      connection.release(isBroken);
    }
  }

  /** Runs a transaction, again if the connection can be used again. @throws Failure */
  async #attempt(connection: Connection, updates: readonly Update[]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#transact(connection, updates);
        return;
      } catch (error) {
        const failure = error instanceof Failure ? error : new Failure(connection.lost ?? error, true);
        if (!failure.isTransient || connection.lost) throw failure;
        // The updates would wait for ever if they always met others.
        if (attempt === MAX_ATTEMPTS) throw new Failure(new Error(String(failure.cause)), true);
        await connection.query('ROLLBACK', MIN_STATEMENT_MS);
      }
    }
  }

  async #transact(connection: Connection, updates: readonly Update[]): Promise<void> {
    const patience = patienceOf(updates);
    const query = (text: string) => connection.query(text, patience.statement + MIN_STATEMENT_MS);
    if (!this.#isTableChecked) {
      const [{ rows }] = await query(commentText(this.#schema));
      checkTable(this.#schema.table, rows[0] as Parameters<typeof checkTable>[1]);
      this.#isTableChecked = true;
    }
    const keys = [...new Set(updates.flatMap((update) => update.keys))].sort();
    markSent(updates);
    const { rows } = (await query(lockAndRead(this.#table, keys, patience))).at(-1)!;
    const states = new BatchStates(rows);
    const now = this.#clock?.() ?? (rows[0]!['now'] as number);
    const done = updates.filter((update) => runUpdate(states, update, now));
    const sweep = this.#nextSweep(states.changes.size, keys[0]!, now);
    // If the connection was lost in the meantime, nothing is sent.
    if (connection.lost) throw connection.lost;
    try {
      const replies = await query(writeAndCommit(this.#table, states.changes, sweep));
      const swept = replies.find(({ rows: [row] }) => row && 'found' in row);
      if (sweep && swept) this.#noteSweep(sweep.rows, swept.rows[0]!);
    } catch (error) {
      const state = stateOf(error);
      throw new Failure(error, /^\w{5}$/.test(state) && !SHUTDOWN.test(state));
    }
    for (const { resolve } of done) resolve();
  }

  /** The part of the table to sweep after some writes. A new process begins at a key of its own, because others begin elsewhere. */
  #nextSweep(written: number, key: string, now: number): Parameters<typeof writeAndCommit>[2] {
    this.#written += written;
    if (this.#written < WRITES_PER_SWEEP) return undefined;
    const rows = CHECKED_ROWS_PER_WRITE * this.#written;
    this.#written = 0;
    return { after: (this.#swept ??= key), rows, before: now - EXPIRED_STATE_LIFE_MS };
  }

  #noteSweep(rows: number, { last, found }: Row): void {
    // New keys may always follow the last one, so the end is reached when too few rows are left.
    this.#swept = (found as number) < rows ? '' : (last as string);
  }

  #fail(updates: readonly Update[], { cause, isUndone }: Failure): void {
    if (cause instanceof HeadgateError) rejectAll(updates, cause);
    else if (isUndone) rejectAll(updates, away(cause));
    else rejectAll(updates, cause);
    // The table may have been dropped or replaced.
    this.#isTableChecked = false;
  }
}

/** A connection for one transaction. */
class Connection {
  readonly #client: PostgresClient;
  /** The error by which the connection was lost between two queries. */
  lost: Error | undefined;

  constructor(client: PostgresClient) {
    this.#client = client;
    // Without a listener, a connection that is lost between two queries would end the process.
    client.on('error', this.#lose);
  }

  readonly #lose = (error: Error): void => {
    this.lost ??= error;
  };

  /** Runs a text. @returns the result of each statement */
  async query(text: string, ms: number): Promise<readonly [PostgresResult, ...PostgresResult[]]> {
    const reply: unknown = await within(ms, this.#client.query(text), () => {
      throw new Error('the server did not answer in time');
    });
    return (Array.isArray(reply) ? reply : [reply]) as [PostgresResult];
  }

  release(isBroken: boolean): void {
    this.#client.removeListener('error', this.#lose);
    this.#client.release(isBroken);
  }
}

/** The states of a transaction: the rows that were read, and the changes to write. */
class BatchStates {
  readonly changes = new Map<string, StateChange>();
  readonly #read = new Map<string, Uint8Array>();

  constructor(rows: readonly Row[]) {
    for (const { key, state } of rows) {
      const bytes = state as Uint8Array;
      this.#read.set(key as string, bytes);
      // A row without state was created to lock it. It is deleted unless a change gives it a state.
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
  }
}

function isAbandoned({ askers }: Update): boolean {
  return askers.length > 0 && askers.every(({ subject }) => subject.call?.abandoned);
}

/** Starts the time of callers, because their questions are sent now. */
function markSent(updates: readonly Update[]): void {
  const now = performance.now();
  for (const { askers } of updates)
    for (const { subject } of askers)
      if (subject.call && !subject.call.until) subject.call.until = now + subject.set.timeout;
}

function patienceOf(updates: readonly Update[]): Patience {
  const timeouts = updates.flatMap(({ askers }) => askers.map(({ subject }) => subject.set.timeout));
  const statement = Math.ceil(Math.max(MIN_STATEMENT_MS, ...timeouts.filter(Number.isFinite)));
  return { statement, idle: MAX_IDLE_MS };
}

function stateOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' ? code : '';
}

function away(why: unknown): HeadgateError {
  const text = why instanceof Error ? why.message || stateOf(why) : String(why);
  return new HeadgateError('HEADGATE_STORE_AWAY', `PostgreSQL cannot be used: ${text}`, {
    cause: why instanceof Error ? why : undefined,
  });
}
