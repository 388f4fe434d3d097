import type { Done } from './clients/commands.js';
import { Eventual } from '../../common/eventual.js';
import { performance, setImmediate } from '../../common/real-time.js';
import type { PolicySet, Query, Reply } from '../../contract/store.js';
import { Distance } from './distance.js';
import { EventLoopTurns } from './event-loop-turns.js';

/**
 * A batch is sent as soon as it has this part of the pending decisions. So two batches are in flight: the store decides one, while this
 * process makes another.
 */
const PART = 1 / 2;

/** The most decisions of one call. All of them are answered when the last one is decided. */
const MOST = 64;

/** Queries of one policy set, all peeks or none, in the order in which they were asked. */
export interface Batch {
  readonly set: PolicySet;
  readonly peek: boolean;
  readonly queries: Query[];
  /** When the first was asked, by `performance.now()`. */
  readonly asked: number;
}

/** Sends batches to the server, and reads the replies. */
export interface Carrier {
  /** Whether the servers are a cluster. Its keys are on several servers, so a batch may have only one key. */
  readonly cluster: boolean;
  /** Whether this error says that a batch may have but one key, and that nothing of it was run. */
  refusesKeys(error: unknown): boolean;
  /** Sends a batch as one call. */
  send(batch: Batch, done: Done): void;
  /** What came back for each query, or the error that it alone failed with. Throws if it is no reply to this batch. */
  decode(batch: Batch, reply: unknown): readonly (Reply | Error)[];
  /** Puts what `send` sends on the wire in as few writes as it can. */
  together(send: () => void): void;
}

interface OpenBatch extends Batch {
  readonly waiters: Eventual<Reply>[];
}

/**
 * Gathers decisions of one turn of the event loop, and sends them as one call or two. A decision that is alone is sent at once. Queries of one
 * set are sent in the order in which they were asked.
 */
export class Batcher {
  readonly #carrier: Carrier;
  readonly #open = new Map<PolicySet, OpenBatch>();
  /** How many decisions are gathered or in flight. */
  #pending = 0;
  /** How many were pending when the last reply came. Those that it answers will soon ask again. */
  #crowd = 0;
  /** Whether several were pending in this turn of the event loop or the last one, so that decisions are gathered. */
  #crowded = false;
  /** Whether the end of this turn will send what is gathered. */
  #scheduled = false;
  readonly #turns = new EventLoopTurns();
  readonly #distance = new Distance();

  constructor(carrier: Carrier) {
    this.#carrier = carrier;
  }

  ask(query: Query): Promise<Reply> {
    const waiter = new Eventual<Reply>();
    this.#add(query, waiter);
    return waiter;
  }

  /** Sends all gathered decisions of a name, as sets of one name share their state. What is sent next then comes after them. */
  flush(name: string): void {
    for (const batch of this.#open.values()) if (batch.set.name === name) this.#dispatch(batch);
  }

  #add(query: Query, waiter: Eventual<Reply>): void {
    const { set, peek } = query;
    this.#turns.count();
    if (++this.#pending > 1) this.#crowded = true;
    let batch = this.#open.get(set);
    if (batch && batch.peek !== peek) {
      this.#dispatch(batch);
      batch = undefined;
    }
    if (batch) {
      batch.queries.push(query);
      batch.waiters.push(waiter);
      if (this.#isComplete(batch)) this.#dispatch(batch);
      return;
    }
    batch = { set, peek, queries: [query], waiters: [waiter], asked: performance.now() };
    if (!this.#crowded && !this.#turns.areBusy && !this.#distance.isFar) {
      this.#dispatch(batch);
      return;
    }
    this.#open.set(set, batch);
    if (this.#scheduled) return;
    this.#scheduled = true;
    // A microtask would be too early, as it follows each request. This follows the poll phase with all of its requests.
    setImmediate(this.#endTurn);
  }

  readonly #endTurn = (): void => {
    this.#scheduled = false;
    for (const batch of this.#open.values()) this.#dispatch(batch);
  };

  /**
   * Whether a batch is sent before its turn is over. On a busy server none is, as each write costs it as much as a request. None is sent early to
   * a store far away, as most time goes by on the way. In a cluster each key is a call of its own, and those of a turn share a write.
   */
  #isComplete({ queries: { length } }: OpenBatch): boolean {
    if (length >= MOST) return true;
    const isShare = length >= PART * Math.max(this.#pending, this.#crowd);
    return isShare && !this.#turns.areBusy && !this.#distance.isFar && !this.#carrier.cluster;
  }

  #dispatch(batch: OpenBatch): void {
    this.#open.delete(batch.set);
    if (batch.queries.length === 1 || !this.#carrier.cluster) this.#send(batch);
    else this.#carrier.together(() => byKey(batch).forEach((part) => this.#send(part)));
  }

  #send(batch: OpenBatch): void {
    const [sent, pending] = [performance.now(), this.#pending];
    this.#carrier.send(batch, (error, reply) => {
      this.#distance.took(performance.now() - sent, pending);
      if (error === undefined) this.#answer(batch, reply);
      else this.#fail(batch, error);
    });
  }

  #answer(batch: OpenBatch, reply: unknown): void {
    const { waiters } = batch;
    let answers: readonly (Reply | Error)[];
    try {
      answers = this.#carrier.decode(batch, reply);
    } catch (error) {
      this.#fail(batch, error as Error);
      return;
    }
    this.#finished(waiters.length);
    for (let i = 0; i < waiters.length; i++) {
      const answer = answers[i]!;
      if (answer instanceof Error) waiters[i]!.reject(answer);
      else waiters[i]!.resolve(answer);
    }
  }

  #fail(batch: OpenBatch, error: Error): void {
    const parts = this.#carrier.refusesKeys(error) ? byKey(batch) : [];
    if (parts.length > 1) {
      for (const part of parts) this.#send(part);
      return;
    }
    this.#finished(batch.waiters.length);
    for (const waiter of batch.waiters) waiter.reject(error);
  }

  #finished(decisions: number): void {
    this.#crowd = this.#pending;
    this.#pending -= decisions;
    // Callers that get these replies may ask again in this turn. They are counted first.
    if (this.#crowded && this.#pending <= 1) setImmediate(this.#endCrowd);
  }

  readonly #endCrowd = (): void => {
    this.#crowded = this.#pending > 1;
  };
}

/** A batch for each key, in the order of their first queries. */
function byKey({ set, peek, asked, queries, waiters }: OpenBatch): OpenBatch[] {
  const parts = new Map<string, OpenBatch>();
  queries.forEach((query, i) => {
    const key = typeof query.key === 'string' ? query.key : JSON.stringify(query.key);
    let part = parts.get(key);
    if (!part) parts.set(key, (part = { set, peek, asked, queries: [], waiters: [] }));
    part.queries.push(query);
    part.waiters.push(waiters[i]!);
  });
  return [...parts.values()];
}
