import type { Done } from './clients/commands.js';
import { Eventual } from '../../common/eventual.js';
import { performance, setImmediate } from '../../common/real-time.js';
import type { PolicySet, Query, Reply } from '../../contract/store.js';

/** The most decisions of one call: while the store works on one, this process gathers another. */
const MOST = 32;

/** Queries of one policy set, all peeks or none, in the order in which they were asked. */
export interface Batch {
  readonly set: PolicySet;
  readonly peek: boolean;
  readonly queries: Query[];
  /** When the first was asked, by `performance.now()`. */
  readonly asked: number;
}

/** How the store takes batches. */
export interface Carrier {
  /** Keys live in many slots: a batch may have but one. */
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
 * Gathers the decisions that are asked for in one turn of the event loop, so that they travel as one call. It is sent at the end of the turn. A
 * decision that is asked for while none is under way, after a turn with one, is sent at once. Queries of one set are sent in the order in which they were asked.
 */
export class Batcher {
  readonly #carrier: Carrier;
  readonly #open = new Map<PolicySet, OpenBatch>();
  /** Decisions that are gathered or on the wire. */
  #pending = 0;
  /** Decisions that were asked for in this turn. */
  #asked = 0;
  /** Whether the last turn that asked for decisions asked for one alone. */
  #isCalm = true;

  constructor(carrier: Carrier) {
    this.#carrier = carrier;
  }

  ask(query: Query): Promise<Reply> {
    const waiter = new Eventual<Reply>();
    this.#add(query, waiter);
    return waiter;
  }

  /** Sends what is gathered of a set, for what must come after it. */
  flush(set: PolicySet): void {
    const batch = this.#open.get(set);
    if (batch) this.#dispatch(batch);
  }

  #add(query: Query, waiter: Eventual<Reply>): void {
    const { set, peek } = query;
    // Not a microtask: requests come one in a callback of the event loop's poll phase, and this follows the whole phase.
    if (++this.#asked === 1) setImmediate(this.#endTurn);
    this.#pending++;
    let batch = this.#open.get(set);
    if (batch && batch.peek !== peek) {
      this.#dispatch(batch);
      batch = undefined;
    }
    if (batch) {
      batch.queries.push(query);
      batch.waiters.push(waiter);
      if (batch.queries.length === MOST) this.#dispatch(batch);
      return;
    }
    batch = { set, peek, queries: [query], waiters: [waiter], asked: performance.now() };
    if (this.#isCalm && this.#pending === 1) this.#dispatch(batch);
    else this.#open.set(set, batch);
  }

  readonly #endTurn = (): void => {
    this.#isCalm = this.#asked === 1;
    this.#asked = 0;
    for (const open of this.#open.values()) this.#dispatch(open);
  };

  #dispatch(batch: OpenBatch): void {
    this.#open.delete(batch.set);
    if (batch.queries.length === 1 || !this.#carrier.cluster) this.#send(batch);
    else this.#carrier.together(() => byKey(batch).forEach((part) => this.#send(part)));
  }

  #send(batch: OpenBatch): void {
    this.#carrier.send(batch, (error, reply) => {
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
    this.#pending -= waiters.length;
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
    this.#pending -= batch.waiters.length;
    for (const waiter of batch.waiters) waiter.reject(error);
  }
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
