import type { Done } from './clients/commands.js';
import { Eventual } from '../../common/eventual.js';
import { performance, setImmediate, setTimeout } from '../../common/real-time.js';
import type { PolicySet, Query, Reply } from '../../contract/store.js';
import { Distance } from './distance.js';
import { Turns } from './turns.js';

/**
 * With no more decisions than this under way, each is sent at once: waiting for others would cost more than it saves. While turns of the
 * event loop are busy, decisions wait all the same: a call costs the process as much as a request does.
 */
const FEW = 7;

/**
 * With more, so many calls are under way at a time, and further decisions gather until one is answered. So the store works on one call, the
 * next one waits for it there, and this process fills a third.
 */
const CALLS = 2;

/** But no decision waits longer for others than this, ms, and a call that is full does not wait. */
const LONGEST_WAIT = 1;

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
}

/**
 * Gathers the decisions that are asked for in one turn of the event loop, so that they travel as one call. One alone is
 * never held back, and queries of one set are sent in the order in which they were asked.
 */
export class Batcher {
  readonly #carrier: Carrier;
  readonly #startTimer: typeof setTimeout;
  readonly #open = new Map<PolicySet, OpenBatch>();
  /** Decisions that are gathered or on the wire. */
  #pending = 0;
  /** How many those were when the last reply came: what it answers is soon asked for again. */
  #crowd = 0;
  /** Whether those have become more than a few, and decisions are gathered. */
  #crowded = false;
  /** Calls on the wire. */
  #calls = 0;
  #scheduled = false;
  /** Whether a timer will send what waits for others. */
  #isWaiting = false;
  readonly #turns = new Turns();
  readonly #distance = new Distance();

  /** @param startTimer for tests */
  constructor(carrier: Carrier, startTimer = setTimeout) {
    this.#carrier = carrier;
    this.#startTimer = startTimer;
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
    batch = { set, peek, queries: [query], waiters: [waiter], asked: performance.now() };
    if (!this.#crowded && !this.#turns.areBusy) {
      this.#dispatch(batch);
      return;
    }
    this.#open.set(set, batch);
    this.#schedule();
  }

  /** Not a microtask: requests come one in a turn of the event loop's poll phase, and this follows the whole phase. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#endTurn);
  }

  readonly #endTurn = (): void => {
    this.#scheduled = false;
    const mayWait = this.#crowded && this.#calls >= CALLS && this.#sharesCalls;
    const long = performance.now() - LONGEST_WAIT;
    for (const batch of this.#open.values()) if (!mayWait || batch.asked < long) this.#dispatch(batch);
    if (this.#open.size === 0 || this.#isWaiting) return;
    this.#isWaiting = true;
    this.#startTimer(this.#dispatchAll, LONGEST_WAIT);
  };

  readonly #dispatchAll = (): void => {
    this.#isWaiting = false;
    for (const batch of this.#open.values()) this.#dispatch(batch);
  };

  /**
   * Whether decisions of several turns may share a call. In a cluster each key is a call of its own, and those of a turn share a write. Where
   * most time goes by on the way, waiting gains nothing.
   */
  get #sharesCalls(): boolean {
    return !this.#carrier.cluster && !this.#distance.isFar;
  }

  /** Whether a batch goes before its turn is over. Under a busy server none does, as each write costs it as much as a request. */
  #isComplete({ queries: { length } }: OpenBatch): boolean {
    if (length >= MOST) return true;
    // Calls of the same size keep both sides busy.
    const share = Math.max(this.#pending, this.#crowd) / CALLS;
    return length >= share && this.#sharesCalls && !this.#turns.areBusy;
  }

  #dispatch(batch: OpenBatch): void {
    this.#open.delete(batch.set);
    if (batch.queries.length === 1 || !this.#carrier.cluster) this.#send(batch);
    else this.#carrier.together(() => byKey(batch).forEach((part) => this.#send(part)));
  }

  #send(batch: OpenBatch): void {
    const [sent, pending] = [performance.now(), this.#pending];
    this.#calls++;
    this.#carrier.send(batch, (error, reply) => {
      this.#calls--;
      if (this.#open.size > 0) this.#schedule();
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
    // What those who got these replies ask for in turn counts before it is judged whether the crowd is gone.
    if (this.#crowded && this.#pending <= FEW) process.nextTick(this.#settleDown);
  }

  readonly #settleDown = (): void => {
    if (this.#pending <= FEW) this.#crowded = false;
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
