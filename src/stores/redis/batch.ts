import type { Done } from './clients/commands.js';
import { Eventual } from '../../common/eventual.js';
import { performance, setImmediate } from '../../common/real-time.js';
import type { PolicySet, Query, Reply } from '../../contract/store.js';
import { Turns } from './turns.js';

/**
 * Up to this many pending decisions are sent one by one, as waiting for others would cost more than it saves. While the event loop is
 * busy, they are gathered all the same: a call costs this process as much time as a request does.
 */
const FEW = 7;

/**
 * With more, a batch is sent as soon as it has this part of all pending decisions. Up to 40 pending, that keeps three batches in flight:
 * one sent, one executing, one decoding. With two, client and server would idle in turns. Above 40 pending, two batches keep both busy
 * and cost the server less. They are a little less than halves, so that a batch need not wait for the last decision.
 */
const PART_OF_SOME = 1 / 3.25;
const PART_OF_MANY = 1 / 2.2;
const MANY = 40;

/**
 * If decisions come further apart than this, ms, this process is busy with other work between them. Then a batch waits for the end of the
 * event loop's turn, as fewer calls save writes. Up to `FEW_CALLS` pending, so few calls are not worth the wait, unless the loop is busy.
 */
const APART = 0.004;
const FEW_CALLS = 16;

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
  /** Whether its decisions have come in quick succession so far. */
  burst: boolean;
}

/**
 * Gathers the decisions that are asked for in one turn of the event loop, and sends them as one call. A single decision is sent at
 * once. Queries of one set are sent in the order in which they were asked.
 */
export class Batcher {
  readonly #carrier: Carrier;
  readonly #open = new Map<PolicySet, OpenBatch>();
  /** How many decisions are gathered or in flight. */
  #pending = 0;
  /** Whether so many are pending that decisions are gathered. */
  #crowded = false;
  #scheduled = false;
  readonly #turns = new Turns();

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
    if (++this.#pending > FEW) this.#crowded = true;
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
    batch = { set, peek, queries: [query], waiters: [waiter], asked: performance.now(), burst: true };
    if (!this.#crowded && !this.#turns.areBusy) {
      this.#dispatch(batch);
      return;
    }
    this.#open.set(set, batch);
    if (this.#scheduled) return;
    this.#scheduled = true;
    // A microtask would be too early: it follows each request, while this follows the poll phase with all of its requests.
    setImmediate(() => {
      this.#scheduled = false;
      for (const open of this.#open.values()) this.#dispatch(open);
    });
  }

  #isComplete(batch: OpenBatch): boolean {
    const { length } = batch.queries;
    if (length >= MOST) return true;
    // In a cluster each key is a call of its own. The calls of one turn of the event loop share a write.
    if (this.#carrier.cluster) return false;
    const part = this.#pending > MANY ? PART_OF_MANY : PART_OF_SOME;
    const isFew = this.#pending <= FEW_CALLS && !this.#turns.areBusy;
    return length >= part * this.#pending && (isFew || inBurst(batch));
  }

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
    this.#pending -= decisions;
    // Whoever gets these replies may ask again at once. These decisions are counted first.
    if (this.#crowded && this.#pending <= FEW) process.nextTick(this.#settleDown);
  }

  readonly #settleDown = (): void => {
    if (this.#pending <= FEW) this.#crowded = false;
  };
}

/** Whether a batch's decisions have come in quick succession. Once they have not, that stays so. */
function inBurst(batch: OpenBatch): boolean {
  batch.burst &&= performance.now() - batch.asked < APART * batch.queries.length;
  return batch.burst;
}

/** A batch for each key, in the order of their first queries. */
function byKey({ set, peek, asked, queries, waiters }: OpenBatch): OpenBatch[] {
  const parts = new Map<string, OpenBatch>();
  queries.forEach((query, i) => {
    const key = typeof query.key === 'string' ? query.key : JSON.stringify(query.key);
    let part = parts.get(key);
    if (!part) parts.set(key, (part = { set, peek, asked, queries: [], waiters: [], burst: true }));
    part.queries.push(query);
    part.waiters.push(waiters[i]!);
  });
  return [...parts.values()];
}
