import type { Done } from './clients/commands.js';
import { Eventual } from '../../common/eventual.js';
import { performance, setImmediate } from '../../common/real-time.js';
import type { PolicySet, Query, Reply } from '../../contract/store.js';
import { Turns } from './turns.js';

/**
 * With no more decisions than this under way, each is sent at once: waiting for others would cost more than it saves. While turns of the
 * event loop are busy, decisions wait all the same: a call costs the process as much as a request does.
 */
const FEW = 7;

/**
 * Else a batch is sent as soon as it has this part of all decisions under way. Of some, so that three batches are on their way:
 * while the store works on one, this process takes in another, where with one or two both would wait for each other in turn.
 * Of many, two keep both busy, and cost the store less; they are a little less than halves, so that neither waits for the last.
 */
const PART_OF_SOME = 1 / 3.25;
const PART_OF_MANY = 1 / 2.2;
const MANY = 40;

/**
 * But if they come further apart than this, ms, this process is busy with more than deciding, as between two requests: then what it
 * saves is calls, each of which costs it a write, and a batch is all that is asked for in one turn. With no more than `FEW_CALLS`
 * under way they are so few calls that they are not worth a wait, unless turns are busy.
 */
const APART = 0.004;
const FEW_CALLS = 16;

/** The most decisions of one call: the first one waits for the last one's answer. */
const MOST = 64;

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
  /** Its decisions have come in quick succession so far. */
  burst: boolean;
}

/**
 * Gathers the decisions that are asked for in one turn of the event loop, so that they travel as one call. One alone is
 * never held back, and queries of one set are sent in the order in which they were asked.
 */
export class Batcher {
  readonly #carrier: Carrier;
  readonly #open = new Map<PolicySet, OpenBatch>();
  /** Decisions that are gathered or on the wire. */
  #pending = 0;
  /** Whether those have become more than a few, and decisions are gathered. */
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

  /** Sends what is gathered of all sets of a name, which share their state, for what must come after it. */
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
    // Not a microtask: requests come one in a turn of the event loop's poll phase, and this follows the whole phase.
    setImmediate(() => {
      this.#scheduled = false;
      for (const open of this.#open.values()) this.#dispatch(open);
    });
  }

  #isComplete(batch: OpenBatch): boolean {
    const { length } = batch.queries;
    if (length >= MOST) return true;
    // In a cluster each key is a call of its own, and those of a turn share a write.
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
    // What those who got these replies ask for in turn counts before it is judged whether the crowd is gone.
    if (this.#crowded && this.#pending <= FEW) process.nextTick(this.#settleDown);
  }

  readonly #settleDown = (): void => {
    if (this.#pending <= FEW) this.#crowded = false;
  };
}

/** Whether its decisions are asked for in quick succession. Once they are not, it is not asked again. */
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
