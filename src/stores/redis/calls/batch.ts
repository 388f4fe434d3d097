import type { Done } from '../clients/commands.js';
import { Eventual } from '../../../common/eventual.js';
import { performance, setImmediate } from '../../../common/real-time.js';
import type { Reply } from '../../../contract/reply.js';
import type { PolicySet, Query } from '../../../contract/store.js';
import type { LatencyHistogram } from '../../counts/latency-histogram.js';
import type { Plan } from './plans.js';

/**
 * A batch is sent as soon as it has this part of the pending decisions. Three batches are then in flight, so that neither the store nor this
 * process goes to sleep while the other one works. With two batches, both often sleep, and waking up takes longer than a decision.
 */
const EARLY_BATCH_SHARE = 1 / 3;

/** The most decisions of a call. Every caller in the call waits until the last decision. */
const MAX_DECISIONS_PER_CALL = 64;

/** Queries of a policy set, either all peeks or all charges, in the order in which the callers asked. */
export interface Batch {
  readonly set: PolicySet;
  readonly peek: boolean;
  /** The plan of all queries, which have the same kind. */
  readonly plan: Plan;
  readonly queries: Query[];
  /** The time of the first query, by `performance.now()`. */
  readonly asked: number;
}

/** Sends batches to the server, and parses the replies. */
export interface Carrier {
  /** Whether the servers are a cluster, where a batch may have only one key because keys are on several servers. */
  readonly cluster: boolean;
  /** Whether each call is a request of its own, so that even the first decisions of a turn are gathered. */
  readonly connectionless?: boolean;
  /** Whether an error means that a batch may have only one key, and that the server ran nothing of the batch. */
  refusesKeys(error: unknown): boolean;
  send(batch: Batch, done: Done): void;
  /** The reply to each query, or the query's own error. @throws HeadgateError for a value that is not a reply to the batch */
  decode(batch: Batch, reply: unknown): readonly (Reply | Error)[];
  /** Counts the times until batches were answered. */
  readonly latency?: LatencyHistogram | undefined;
  /** Writes the calls of `send` to the connection in as few writes as possible. */
  together(send: () => void): void;
}

interface OpenBatch extends Batch {
  readonly waiters: Eventual<Reply>[];
  /** Whether the batch has a single key, and is a repetition for that reason. */
  readonly isPart?: boolean;
}

/**
 * Gathers the decisions of a turn of the event loop, and sends the gathered decisions in one or two calls. A single decision is sent at
 * once. Queries of a set are sent in the order in which the callers asked.
 */
export class Batcher {
  readonly #carrier: Carrier;
  readonly #open = new Map<PolicySet, OpenBatch>();
  /** The count of decisions that are gathered or in flight. */
  #pending = 0;
  /** The count of pending decisions when the last reply came, because the callers will soon ask again. */
  #pendingAtReply = 0;
  /** Whether several decisions were pending in the current or last turn of the event loop, so that decisions are gathered. */
  #gathers = false;
  /** Whether the end of this turn will send the gathered decisions. */
  #scheduled = false;
  readonly #turns = new EventLoopTurns();
  readonly #distance = new Distance();

  constructor(carrier: Carrier) {
    this.#carrier = carrier;
    this.#distance.isFar = carrier.connectionless ?? false;
  }

  ask(query: Query, plan: Plan): Promise<Reply> {
    const waiter = new Eventual<Reply>();
    const { set, peek } = query;
    this.#turns.count();
    if (++this.#pending > 1) this.#gathers = true;
    let batch = this.#open.get(set);
    if (batch && (batch.peek !== peek || batch.plan !== plan)) {
      this.#dispatch(batch);
      batch = undefined;
    }
    if (batch) {
      batch.queries.push(query);
      batch.waiters.push(waiter);
      if (this.#isComplete(batch)) this.#dispatch(batch);
      return waiter;
    }
    const asked = performance.now();
    batch = { set, peek, plan, queries: [query], waiters: [waiter], asked };
    if (!this.#gathers && this.#turns.busyTurnsLeft === 0 && !this.#distance.isFar) {
      this.#send(batch);
      return waiter;
    }
    this.#open.set(set, batch);
    if (this.#scheduled) return waiter;
    this.#scheduled = true;
    // A microtask would be too early, because microtasks follow each request. `setImmediate` follows the poll phase with its many requests.
    setImmediate(this.#endTurn);
    return waiter;
  }

  /** Sends all gathered decisions of a name before the next call, because sets with the same name share their state. */
  flush(name: string): void {
    for (const batch of this.#open.values()) if (batch.set.name === name) this.#dispatch(batch);
  }

  readonly #endTurn = (): void => {
    this.#scheduled = false;
    for (const batch of this.#open.values()) this.#dispatch(batch);
  };

  /**
   * Whether a batch is sent before its turn is over. A busy server sends no batch early, because each write costs as much as a request. A
   * distant store gets no batch early, because most time passes in the network. In a cluster each key has a separate call, and the calls of
   * a turn share a write.
   */
  #isComplete({ queries: { length } }: OpenBatch): boolean {
    if (length >= MAX_DECISIONS_PER_CALL) return true;
    const isLarge = length >= EARLY_BATCH_SHARE * Math.max(this.#pending, this.#pendingAtReply);
    return isLarge && this.#turns.busyTurnsLeft === 0 && !this.#distance.isFar && !this.#carrier.cluster;
  }

  #dispatch(batch: OpenBatch): void {
    this.#open.delete(batch.set);
    if (batch.queries.length === 1 || !this.#carrier.cluster) this.#send(batch);
    else this.#carrier.together(() => byKey(batch).forEach((part) => this.#send(part)));
  }

  #send(batch: OpenBatch): void {
    const [sent, pending] = [performance.now(), this.#pending];
    this.#carrier.send(batch, (error, reply) => {
      const ms = performance.now() - sent;
      this.#distance.took(ms, pending);
      const isLate = error !== undefined || ms > batch.set.timeout;
      this.#carrier.latency?.add(ms, batch.queries.length, isLate);
      if (error && !batch.isPart && this.#carrier.refusesKeys(error)) {
        for (const part of byKey(batch)) this.#send(part);
        return;
      }
      const { waiters } = batch;
      let answers: Error | readonly (Reply | Error)[];
      try {
        answers = error ?? this.#carrier.decode(batch, reply);
      } catch (thrown) {
        answers = thrown as Error;
      }
      this.#pendingAtReply = this.#pending;
      this.#pending -= waiters.length;
      // The callers may ask again in this turn, so their new questions are counted first.
      if (this.#gathers && this.#pending <= 1) setImmediate(this.#endGathering);
      for (let i = 0; i < waiters.length; i++) {
        const answer = answers instanceof Error ? answers : answers[i]!;
        if (answer instanceof Error) waiters[i]!.reject(answer);
        else waiters[i]!.resolve(answer);
      }
    });
  }

  readonly #endGathering = (): void => {
    this.#gathers = this.#pending > 1;
  };
}

/** Splits a batch into one for each key, in the order of the first queries. */
function byKey({ set, peek, plan, asked, queries, waiters }: OpenBatch): OpenBatch[] {
  const parts = new Map<string, OpenBatch>();
  queries.forEach((query, i) => {
    const key = typeof query.key === 'string' ? query.key : JSON.stringify(query.key);
    let part = parts.get(key);
    if (!part) parts.set(key, (part = { set, peek, plan, asked, queries: [], waiters: [], isPart: true }));
    part.queries.push(query);
    part.waiters.push(waiters[i]!);
  });
  return [...parts.values()];
}

/** A store is nearby if a round trip takes less than this, ms, plus a little for each decision under way. */
const NEARBY_ROUND_TRIP_MS = 0.3;
const ROUND_TRIP_MS_PER_DECISION = 0.01;

/** The count of calls that are judged together. A busy machine delays some calls, but not all. */
const CALLS_PER_JUDGEMENT = 32;

/** Measures by round trips whether most time passes in the network, or in the store and this process. */
export class Distance {
  isFar = false;
  #calls = 0;
  #oneWasQuick = false;

  /** Must be called for each reply. @param ms the duration of the call @param decisions the decisions under way when it was sent */
  took(ms: number, decisions: number): void {
    this.#oneWasQuick ||= ms < NEARBY_ROUND_TRIP_MS + ROUND_TRIP_MS_PER_DECISION * decisions;
    if (++this.#calls < CALLS_PER_JUDGEMENT) return;
    this.isFar = !this.#oneWasQuick;
    this.#calls = 0;
    this.#oneWasQuick = false;
  }
}

/**
 * While traffic is light, only every 17th decision checks whether the current turn of the event loop brings more decisions. 17 is odd, so
 * in pairs of decisions not always the same half is checked.
 */
const DECISIONS_PER_LOOK = 17;

/** The turns for which the loop counts as busy after a busy turn. Even a busy process has turns with a single decision. */
const BUSY_TURNS = 8;

/**
 * Detects whether several callbacks in a turn of the event loop ask for decisions, as on a busy server. Several decisions of the same
 * callback count once.
 */
class EventLoopTurns {
  #untilLook = DECISIONS_PER_LOOK;
  #isLooking = false;
  #callbacks = 0;
  #isInCallback = false;
  busyTurnsLeft = 0;

  /** Call this for each decision. */
  count(): void {
    if (!this.#isLooking) {
      if (this.busyTurnsLeft === 0 && --this.#untilLook > 0) return;
      this.#isLooking = true;
      this.#untilLook = DECISIONS_PER_LOOK;
      this.#callbacks = 0;
      setImmediate(this.#endTurn);
    }
    if (this.#isInCallback) return;
    this.#isInCallback = true;
    this.#callbacks++;
    process.nextTick(this.#endCallback);
  }

  readonly #endCallback = (): void => {
    this.#isInCallback = false;
  };

  readonly #endTurn = (): void => {
    this.#isLooking = false;
    this.busyTurnsLeft = this.#callbacks > 1 ? BUSY_TURNS : Math.max(0, this.busyTurnsLeft - 1);
  };
}
