import { HeadgateError } from '../../common/errors.js';
import { performance, setImmediate, setTimeout } from '../../common/real-time.js';
import {
  ask,
  dropBackground,
  extendWaits,
  MAX_UPDATE_WAIT_MS,
  MIN_BUSY_MS,
  rejectAll,
  type Update,
} from '../state/updates.js';
import type { Clients } from './clients.js';
import { type PostgresConnection, Failure, stateOf } from './connection.js';
import { FORBIDDEN, GRANT_FIX } from './rights.js';
import type { PostgresTable } from './table.js';

/** The most transactions at the same time. While a transaction waits for the server, the next is filled. */
const MAX_TRANSACTIONS = 2;

/** The time after which a transaction asks the pool again, ms, because a connection that hangs must not keep its place. */
const MAX_CONNECT_MS = 1000;

/** The most updates of a transaction, so that the decisions do not block the event loop for long. */
const MAX_UPDATES = 128;

/** The attempts at a transaction in conflict with others. Without a limit, the updates could wait for ever. */
const MAX_ATTEMPTS = 5;

/** The connections on which an update may be lost before its commit, until the update is rejected. */
const MAX_LOSSES = 3;

/** The time between two checks of the updates that wait, ms. */
const WATCH_MS = 20;

/**
 * Updates states in transactions. The updates of a turn of the event loop share a transaction, and so do updates that arrive while no
 * connection is free.
 */
export class Batches {
  readonly #clients: Clients;
  readonly #table: PostgresTable;
  #queue: Update[] = [];
  #turn = 0;
  /** The updates of each transaction under way. Not in a `Set`: see `PassingMap`. */
  #underWay: readonly (readonly Update[])[] = [];
  /** The number of times that an update was lost with its connection. */
  readonly #losses = new WeakMap<Update, number>();
  /** The transactions under way, including transactions that wait for a connection. */
  #running = 0;
  #isScheduled = false;
  #isWatched = false;
  #isClosed = false;
  #idle: (() => void)[] = [];

  constructor(clients: Clients, table: PostgresTable) {
    this.#clients = clients;
    this.#table = table;
  }

  update(
    keys: Update['keys'],
    change: Update['change'],
    askers: Update['askers'],
    takesTexts = false,
  ): Promise<void> {
    return ask({ keys, change, takesTexts, askers }, this.#isClosed, (update) => {
      update.turn = this.#turn;
      this.#queue.push(update);
      this.#schedule();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#queue = dropBackground(this.#queue);
    await new Promise<void>((resolve) => {
      this.#idle.push(resolve);
      this.#dropLate();
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#turn++;
      if (this.#running < MAX_TRANSACTIONS) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#running++;
    this.#watch();
    // Without an update to run, the second transaction has the keys, and continues at its end.
    const hasRun = await this.#runQueue();
    this.#running--;
    if (this.#queue.length > 0 && hasRun) this.#schedule();
    this.#checkIdle();
  }

  #checkIdle(): void {
    if (this.#queue.length > 0 || this.#underWay.length > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** Takes a connection, then the updates that wait for a connection. @returns false if there were no updates */
  async #runQueue(): Promise<boolean> {
    let connection: PostgresConnection | undefined;
    try {
      connection = await this.#clients.take(MAX_CONNECT_MS);
    } catch (error) {
      // The pool may be too small for two transactions. The second continues at the end of the first.
      if (this.#underWay.length === 0) rejectAll(this.#queue.splice(0), away(error));
      return false;
    }
    // The callers wait on. The next attempt may get this or another connection.
    if (!connection) return true;
    let updates: readonly Update[] = [];
    let isBroken = true;
    try {
      await this.#table.check(connection);
      updates = this.#take();
      if (updates.length > 0) await this.#attempt(connection, updates);
      isBroken = false;
    } catch (error) {
      this.#fail(updates, error);
    } finally {
      this.#underWay = this.#underWay.filter((each) => each !== updates);
      connection.release(isBroken);
    }
    return isBroken || updates.length > 0;
  }

  /** The updates of the next transaction. Updates of keys under way stay, so that the updates of a key keep their order. */
  #take(): readonly Update[] {
    this.#dropLate();
    const keys = new Set<string>();
    for (const update of this.#underWay.flat()) for (const key of update.keys) keys.add(key);
    const left: Update[] = [];
    const updates: Update[] = [];
    let n = 0;
    for (; n < this.#queue.length && updates.length < MAX_UPDATES; n++) {
      const update = this.#queue[n]!;
      const isBlocked = keys.size > 0 && update.keys.some((key) => keys.has(key));
      (isBlocked ? left : updates).push(update);
      if (isBlocked) for (const key of update.keys) keys.add(key);
    }
    this.#queue = [...left, ...this.#queue.slice(n)];
    if (updates.length > 0) this.#underWay = [...this.#underWay, updates];
    return updates;
  }

  /** Runs a transaction, again after a conflict. @throws Failure */
  async #attempt(connection: PostgresConnection, updates: readonly Update[]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        for (const { resolve } of await this.#table.transact(connection, updates)) resolve();
        this.#extendRest(updates);
        return;
      } catch (error) {
        if (!(error instanceof Failure && error.isConflict) || attempt === MAX_ATTEMPTS) throw error;
        await this.#table.rollback(connection);
      }
    }
  }

  /** @param updates of the transaction. Without any, the connection was not fit for one */
  #fail(updates: readonly Update[], error: unknown): void {
    // Any other error, such as a missing table, came before the commit.
    const failure = error instanceof Failure ? error : { cause: error, isUndone: true, isLost: false };
    const { cause, isUndone, isLost } = failure;
    if (!isLost) this.#table.uncheck();
    if (updates.length === 0) updates = this.#queue.splice(0);
    if (isLost) updates = this.#requeue(updates);
    rejectAll(updates, isUndone ? away(cause) : cause);
  }

  /** Lets updates run on another connection. @returns the updates that have been lost too often */
  #requeue(updates: readonly Update[]): readonly Update[] {
    const isOften = (update: Update) => (this.#losses.get(update) ?? 0) >= MAX_LOSSES;
    for (const update of updates) this.#losses.set(update, 1 + (this.#losses.get(update) ?? 0));
    this.#queue.unshift(...updates.filter((update) => !isOften(update)));
    return updates.filter(isOften);
  }

  /** Checks the updates that wait, while there is anything to wait for. */
  #watch(): void {
    if (this.#isWatched) return;
    this.#isWatched = true;
    const due = performance.now() + WATCH_MS;
    setTimeout(() => {
      this.#isWatched = false;
      this.#extend(performance.now() - due);
      this.#dropLate();
      if (this.#running > 0) this.#watch();
    }, WATCH_MS).unref();
  }

  /** Gives the rest of a turn with more updates than a transaction may have its time anew, because the server has answered. */
  #extendRest(updates: readonly Update[]): void {
    if (this.#queue.length === 0) return;
    const turns = new Set(updates.map(({ turn }) => turn));
    const rest = this.#queue.filter(({ turn }) => turns.has(turn));
    extendWaits(rest, Infinity);
  }

  /** Extends the time of waiting calls. Until the server has answered, only `connectTimeout` counts for unsent calls. */
  #extend(busy: number): void {
    if (busy < MIN_BUSY_MS) return;
    extendWaits(this.#underWay.flat(), busy);
    if (this.#table.hasAnswered) extendWaits(this.#queue, busy);
  }

  /** Rejects updates without a waiting caller, in case no connection becomes free for a long time. */
  #dropLate(): void {
    const late = performance.now() - MAX_UPDATE_WAIT_MS;
    const isLate = (update: Update) => update.asked < late || isAbandoned(update);
    if (this.#queue.some(isLate)) {
      const updates = this.#queue.filter(isLate);
      this.#queue = this.#queue.filter((update) => !isLate(update));
      rejectAll(updates, away('no connection of the pool became free in time'));
    }
    this.#checkIdle();
  }
}

function isAbandoned({ askers }: Update): boolean {
  for (const { subject } of askers) if (!subject.call?.abandoned) return false;
  return askers.length > 0;
}

/** The error of a server that did not do its part. */
export function away(why: unknown): HeadgateError {
  if (why instanceof HeadgateError) return why;
  const text = why instanceof Error ? why.message || stateOf(why) : String(why);
  const fix = stateOf(why) === FORBIDDEN ? `. ${GRANT_FIX}` : '';
  return new HeadgateError('HEADGATE_STORE_AWAY', `PostgreSQL cannot be used: ${text}${fix}`, {
    cause: why instanceof Error ? why : undefined,
  });
}
