import { statSync } from 'node:fs';
import { Worker } from 'node:worker_threads';

/** The size from which a thread copies the log to the file, bytes. */
const MAX_LOG_BYTES = 8 * 2 ** 20;

/** The same size where threads are not available, bytes. The event loop stops for about 2 ms per MB. */
const MAX_LOG_BYTES_WITHOUT_THREAD = 2 * 2 ** 20;

/**
 * The code of the thread. Most of the log is copied during writes of other connections. SQLite never begins a new log during a write, so
 * writes are refused during the rest, and repeated.
 */
const THREAD = `
  const { parentPort, workerData: [path, synchronous] } = require('node:worker_threads');
  const { DatabaseSync } = require('node:sqlite');
  parentPort.on('message', () => {
    const database = new DatabaseSync(path);
    try {
      database.exec('PRAGMA busy_timeout = 1000; PRAGMA synchronous = ' + synchronous);
      database.prepare('PRAGMA wal_checkpoint(PASSIVE)').get();
      database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
    } catch {
      // The copy is tried again when the log has grown.
    } finally {
      database.close();
      parentPort.postMessage('');
    }
  });
`;

interface Database {
  prepare(sql: string): { get(): unknown };
}

/** Keeps the write-ahead log of a database short, if possible without stopping the event loop. */
export class SqliteLog {
  readonly #file: string;
  readonly #synchronous: string;
  readonly #checkpoint: ReturnType<Database['prepare']>;
  #worker: Worker | undefined;
  #isAtWork = false;
  #isHere: boolean;

  /** @param file the path of the database */
  constructor(database: Database, file: string, synchronous: string) {
    this.#file = file;
    this.#synchronous = synchronous;
    this.#checkpoint = database.prepare('PRAGMA wal_checkpoint(TRUNCATE)');
    // A process must not open a file by two copies of SQLite: a close by one copy ends the locks of the second.
    this.#isHere = database.constructor.name !== 'DatabaseSync';
  }

  /** Must be called after some writes. */
  shorten(): void {
    if (this.#isAtWork) return;
    const size = statSync(`${this.#file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
    if (size > MAX_LOG_BYTES && !this.#isHere) this.#startThread();
    // If another process is writing, the next call tries again.
    else if (size > MAX_LOG_BYTES_WITHOUT_THREAD && this.#isHere) this.#checkpoint.get();
  }

  #startThread(): void {
    try {
      if (!this.#worker) {
        // Node 22 has already warned that its SQLite is experimental.
        const execArgv = ['--no-warnings'];
        const options = { eval: true, workerData: [this.#file, this.#synchronous], execArgv, env: {} };
        this.#worker = new Worker(THREAD, options);
        this.#worker.on('message', () => (this.#isAtWork = false));
        this.#worker.on('error', () => this.#giveUp());
        this.#worker.unref();
      }
      this.#isAtWork = true;
      this.#worker.postMessage('');
    } catch {
      this.#giveUp();
    }
  }

  /** Copies in this thread from now on, because threads may be forbidden. */
  #giveUp(): void {
    this.#isHere = true;
    this.#isAtWork = false;
  }

  close(): void {
    void this.#worker?.terminate();
  }
}
