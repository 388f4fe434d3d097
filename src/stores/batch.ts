import type { PolicySet, Query, Reply } from './store.js';

/** With no more decisions than this under way each is sent at once: waiting for others would cost more than it saves. */
const FEW = 8;

/** The most decisions of one call. With more, this process and the store would take turns instead of working at once. */
const MOST = 32;

/** Sends queries as one call. Resolves with a reply for each, or with the error that it alone failed with. */
export type Send = (batch: Batch) => Promise<readonly (Reply | Error)[]>;

/** Queries of one policy set, all peeks or none, in the order in which they were asked. */
export interface Batch {
  readonly set: PolicySet;
  readonly peek: boolean;
  readonly queries: Query[];
  /** When the first was asked, by `performance.now()`. */
  readonly asked: number;
}

interface Waiter {
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: unknown) => void;
}

interface OpenBatch extends Batch {
  readonly waiters: Waiter[];
}

/**
 * Gathers the decisions that are asked for in one turn of the event loop, so that they travel as one call. One alone is
 * never held back, and queries of one set are sent in the order in which they were asked.
 */
export class Batcher {
  readonly #send: Send;
  readonly #alone: boolean;
  readonly #open = new Map<PolicySet, OpenBatch>();
  /** Decisions that are gathered or on the wire. */
  #pending = 0;
  /** Whether those have become more than a few, and decisions are gathered. */
  #crowded = false;
  #scheduled = false;

  /** @param alone sends each decision by itself: the keys of two may be in two slots */
  constructor(send: Send, alone: boolean) {
    this.#send = send;
    this.#alone = alone;
  }

  ask(query: Query): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.#add(query, { resolve, reject });
    });
  }

  /** Sends what is gathered of a set, for what must come after it. */
  flush(set: PolicySet): void {
    const batch = this.#open.get(set);
    if (batch) this.#dispatch(batch);
  }

  #add(query: Query, waiter: Waiter): void {
    const { set, peek } = query;
    if (++this.#pending > FEW && !this.#alone) this.#crowded = true;
    let batch = this.#open.get(set);
    if (batch && batch.peek !== peek) {
      this.#dispatch(batch);
      batch = undefined;
    }
    if (batch) {
      batch.queries.push(query);
      batch.waiters.push(waiter);
      if (batch.queries.length >= MOST) this.#dispatch(batch);
      return;
    }
    batch = { set, peek, queries: [query], waiters: [waiter], asked: performance.now() };
    if (!this.#crowded) {
      this.#dispatch(batch);
      return;
    }
    this.#open.set(set, batch);
    if (this.#scheduled) return;
    this.#scheduled = true;
    // Not a microtask: requests come one in a turn of the event loop's poll phase, and this follows the whole phase.
    setImmediate(() => {
      this.#scheduled = false;
      for (const open of this.#open.values()) this.#dispatch(open);
    });
  }

  #dispatch(batch: OpenBatch): void {
    const { set, waiters } = batch;
    this.#open.delete(set);
    this.#send(batch).then(
      (replies) => {
        this.#finished(waiters.length);
        replies.forEach((reply, i) => {
          const { resolve, reject } = waiters[i]!;
          if (reply instanceof Error) reject(reply);
          else resolve(reply);
        });
      },
      (error: unknown) => {
        this.#finished(waiters.length);
        for (const { reject } of waiters) reject(error);
      },
    );
  }

  #finished(decisions: number): void {
    this.#pending -= decisions;
    // What those who got these replies ask for in turn counts before it is judged whether the crowd is gone.
    if (this.#crowded && this.#pending <= FEW) process.nextTick(this.#settleDown);
  }

  readonly #settleDown = (): void => {
    if (this.#pending <= FEW) this.#crowded = false;
  };
}
