import { oncePer } from '../../common/lazy.js';
import { clearTimeout, performance, setTimeout } from '../../common/real-time.js';
import { PostgresConnection } from './connection.js';
import type { PostgresClient, PostgresPool } from './pool.js';

/** The most calls of `connect` that a pool has not answered. A pool that never answers keeps each in its queue. */
const MAX_UNANSWERED = 10;

/** The time after which an unanswered call no longer counts, so that no number of lost calls ends the use of the pool, ms. */
const UNANSWERED_LIFE_MS = 60_000;

type Done = (error: Error | undefined, client?: PostgresClient) => void;

interface Taker {
  take(connection: PostgresConnection): void;
  fail(error: Error): void;
}

/** Takes the clients of a pool, each for a limited time, because a pool without `connectionTimeoutMillis` may never answer. */
export class Clients {
  readonly #pool: PostgresPool;
  readonly #takers = new Set<Taker>();
  readonly #unanswered = new Set<{ readonly asked: number }>();

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  /**
   * Takes a connection. @returns undefined if none came within `ms`. A connection that comes later is for the next caller, or returns to the pool
   * @throws the error of the pool
   */
  take(ms: number): Promise<PostgresConnection | undefined> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#takers.delete(taker);
      };
      const taker: Taker = {
        take: (connection) => (end(), resolve(connection)),
        fail: (error) => (end(), reject(error)),
      };
      const timer = setTimeout(() => (end(), resolve(undefined)), ms);
      this.#takers.add(taker);
      if (this.#mayAsk()) this.#ask(taker);
    });
  }

  #mayAsk(): boolean {
    const oldest = performance.now() - UNANSWERED_LIFE_MS;
    for (const call of this.#unanswered) if (call.asked < oldest) this.#unanswered.delete(call);
    return this.#unanswered.size < MAX_UNANSWERED;
  }

  #ask(own: Taker): void {
    const call = { asked: performance.now() };
    this.#unanswered.add(call);
    const done: Done = (error, client) => {
      this.#unanswered.delete(call);
      if (!client) return own.fail(error!);
      const connection = new PostgresConnection(client);
      const [taker] = this.#takers.has(own) ? [own] : this.#takers;
      if (taker) taker.take(connection);
      else connection.release(false);
    };
    try {
      connect(this.#pool, done);
    } catch (error) {
      done(error as Error);
    }
  }
}

/**
 * Asks for a client. `pg` calls a callback in the moment at which its pool stops listening to the client. The result of a promise would be later,
 * and an error that the server sent in the same packet would end the process. Other libraries only return a promise.
 */
function connect(pool: PostgresPool, done: Done): void {
  let isDone = false;
  const once: Done = (error, client) => {
    if (!isDone) done(error, client);
    isDone = true;
  };
  const asked = (pool as { connect(done: Done): Promise<PostgresClient> | undefined }).connect(once);
  void asked?.then((client) => once(undefined, client), once);
}

/** The clients of a pool, the same object for each store. */
export const clientsOf = oncePer((pool: PostgresPool) => new Clients(pool));
