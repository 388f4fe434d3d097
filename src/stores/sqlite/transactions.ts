import { HeadgateError } from '../../common/errors.js';
import { performance, setImmediate, setTimeout } from '../../common/real-time.js';
import type { Clock } from '../../contract/store.js';
import { isLoss } from '../store-error.js';
import {
  ask,
  dropBackground,
  extendWaits,
  MAX_UPDATE_WAIT_MS,
  MIN_BUSY_MS,
  rejectAll,
  runUpdate,
  type Update,
} from '../state/updates.js';
import type { SqliteHandle, Opener } from './database.js';
import { isBusy } from './driver.js';

/** The longest time for which a transaction may block the event loop and other processes, ms. */
const MAX_TRANSACTION_MS = 2;

/** The attempts to get a lock at once, before timers try. */
const IMMEDIATE_TRIES = 4;

/** The attempts after which the store checks whether the file system refuses locks, which SQLite reports as the lock of another process. */
const TRIES_BEFORE_LOCK_CHECK = 24;

/** The time between two checks of a file system that has granted a lock, ms. */
const LOCK_CHECK_INTERVAL_MS = 60_000;

const LOCKS_REFUSED =
  'its file system refuses locks (such as ENOLCK or EACCES). Pass a file on a local disk.';

/** The normal delay of a timer in a process that is not busy, ms. */
const TIMER_DELAY_MS = 5;

const FILE_CHECK_INTERVAL_MS = 1000;

/**
 * Updates states in transactions. All updates of a turn of the event loop share a transaction. The store never blocks on the lock of
 * another process: a refused transaction is tried again later, and all updates keep their order.
 */
export class Transactions {
  readonly #opener: Opener;
  readonly clock: Clock;
  #database: SqliteHandle | undefined;
  #queue: Update[] = [];
  #scheduled = false;
  #closed = false;
  /** The successive attempts for which the lock was not free. */
  #tries = 0;
  #checked = 0;
  /** The last time at which the file system granted the lock of a new file. */
  #locksTried = -Infinity;
  /** The time until the next attempt, ms. */
  #wait = 0;
  /** The beginning of the wait, or of the part for which waiting calls have not got more time. */
  #since = 0;
  /**
   * The time for which updates have waited for this process and not for a lock, ms. Until the file answers, only `connectTimeout` counts.
   */
  #busy = Infinity;
  #hasAnswered = false;
  /** The loss of the file that an update in the background met, until an update of a request reports it. */
  #untold: HeadgateError | undefined;
  #idle: (() => void)[] = [];

  constructor(opener: Opener, clock: Clock) {
    this.#opener = opener;
    this.clock = clock;
  }

  update(keys: Update['keys'], change: Update['change'], askers: Update['askers']): Promise<void> {
    return ask({ keys, change, takesTexts: false, askers }, this.#closed, (update) => {
      this.#queue.push(update);
      if (this.#scheduled) return;
      this.#since = update.asked;
      this.#schedule();
    });
  }

  /** Reads the file outside of a transaction. @throws the error of the database */
  read<T>(use: (database: SqliteHandle) => T): T {
    this.#database ??= this.#opener.open();
    return use(this.#database);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#queue = dropBackground(this.#queue);
    if (this.#scheduled) await new Promise<void>((resolve) => this.#idle.push(resolve));
    this.#drop();
  }

  #schedule(): void {
    this.#scheduled = true;
    this.#wait = this.#tries <= IMMEDIATE_TRIES ? 0 : 1 + Math.random();
    if (this.#wait === 0) setImmediate(this.#run);
    else setTimeout(this.#run, this.#wait);
  }

  readonly #run = (): void => {
    const now = performance.now();
    const locked = this.#tries === 0 ? 0 : Math.min(now - this.#since, this.#wait + TIMER_DELAY_MS);
    try {
      this.#begin(now);
      this.#tries = 0;
      this.#transact(now);
    } catch (error) {
      if (isBusy(error)) this.#refuse(now - MAX_UPDATE_WAIT_MS);
      else this.#fail(this.#queue.splice(0), error, true);
    }
    this.#scheduled = false;
    if (this.#queue.length > 0) {
      this.#extend(locked);
      this.#schedule();
    } else for (const resolve of this.#idle.splice(0)) resolve();
  };

  /** Extends the time of waiting calls while this process is busy, but not while another process has the lock. @param locked ms */
  #extend(locked: number): void {
    const now = performance.now();
    this.#busy += now - this.#since - locked;
    this.#since = now;
    if (this.#busy < MIN_BUSY_MS || !this.#hasAnswered) return;
    extendWaits(this.#queue, this.#busy);
    this.#busy = 0;
  }

  #begin(now: number): void {
    if (this.#untold && this.#queue.some(hasAsker)) throw this.#untold;
    const database = (this.#database ??= this.#opener.open());
    if (now - this.#checked > FILE_CHECK_INTERVAL_MS) {
      this.#checked = now;
      database.check();
    }
    database.begin();
  }

  /** Answers updates until the time is over, and resolves them when the transaction has ended. */
  #transact(began: number): void {
    const database = this.#database!;
    const done: Update[] = [];
    let isWritten = false;
    try {
      const now = this.clock();
      let n = 0;
      do {
        const update = this.#queue[n++]!;
        if (runUpdate(database, update, now)) done.push(update);
      } while (n < this.#queue.length && performance.now() - began < MAX_TRANSACTION_MS);
      isWritten = true;
      this.#queue.splice(0, n);
      database.commit(now);
      this.#hasAnswered = true;
    } catch (error) {
      database.rollback();
      // The updates after the failed update might fail as well, so every update is rejected.
      this.#fail([...done, ...this.#queue.splice(0)], error, !isWritten);
      return;
    }
    for (const { resolve } of done) resolve();
  }

  /** Tries again later, because the lock was not free. */
  #refuse(askedBefore: number): void {
    if (++this.#tries === TRIES_BEFORE_LOCK_CHECK && this.#refusesLocks()) {
      this.#fail(this.#queue.splice(0), new Error(LOCKS_REFUSED), true);
      return;
    }
    const n = this.#queue.findIndex(({ asked }) => asked > askedBefore);
    const late = this.#queue.splice(0, n < 0 ? this.#queue.length : n);
    if (late.length > 0) rejectAll(late, away('another process has kept it locked for a minute'));
  }

  #refusesLocks(): boolean {
    const now = performance.now();
    if (now < this.#locksTried + LOCK_CHECK_INTERVAL_MS) return false;
    const isRefused = this.#opener.refusesLocks();
    // A file system that grants locks is unlikely to refuse locks soon.
    if (!isRefused) this.#locksTried = now;
    return isRefused;
  }

  /**
   * Rejects updates. The file is opened again next time, because it may have been replaced. @param undone whether certainly nothing was
   * written
   */
  #fail(updates: readonly Update[], error: unknown, undone: boolean): void {
    this.#drop();
    if (error instanceof HeadgateError && isLoss(error))
      this.#untold = updates.some(hasAsker) ? undefined : error;
    const known = error instanceof HeadgateError || !undone;
    rejectAll(updates, known ? error : away(error instanceof Error ? error.message : String(error), error));
  }

  #drop(): void {
    this.#database?.close();
    this.#database = undefined;
    this.#tries = 0;
  }
}

function hasAsker({ askers }: Update): boolean {
  return askers.length > 0;
}

function away(why: string, cause?: unknown): HeadgateError {
  return new HeadgateError('HEADGATE_STORE_AWAY', `The SQLite file cannot be used: ${why}`, { cause });
}
