import { HeadgateError } from '../../common/errors.js';
import { performance } from '../../common/real-time.js';
import type { ChangeNote } from '../../contract/change-note.js';
import { setsByDimension } from '../../contract/dimension-sets.js';
import { overridesAmong } from '../../features/overrides/state-record.js';
import { answered } from '../../features/features.js';
import type { StateChange, TextChange } from './key-record.js';
import { StoredStates, type States } from './key-state.js';
import { PassingMap } from './passing-map.js';
import type { StoredState } from './saved-state.js';
import { idKey, stateKeys } from './state-keys.js';
import type { ChangeReply, Reply, UsageReply } from '../../contract/reply.js';
import {
  isPromise,
  type ChargeChange,
  type LeaseChange,
  type MaybePromise,
  type PolicySet,
  type Query,
  type Store,
  type Subject,
} from '../../contract/store.js';

/** The storage for the bytes of a {@link stateStore}: a map, a table, a key-value server. */
export interface StateBackend {
  /**
   * Reads the state of a key, passes it to `change`, and writes the result. No other update of the key may come between: use a lock, or a
   * compare-and-set that reads and calls `change` again until it succeeds. `now` is the time of the backend's clock in whole ms since the
   * epoch. All processes must get it from the same clock.
   *
   * The write may be omitted if the state did not change (`changed`). The promise resolves when the write is complete, and rejects if that
   * is not certain.
   *
   * A backend that delays updates can set the new end of the wait in `askers`: see `Call.until`.
   */
  update(
    key: string,
    change: (bytes: Uint8Array | undefined, now: number) => StateChange,
    askers: Askers,
  ): MaybePromise<void>;
  /**
   * Like `update` for several keys at once, for limiters with keys of several dimensions. Either every result of `change` is written, one
   * for each key, or nothing is. Without this method, such limiters and requests with ids are refused.
   */
  updateAll?(
    keys: readonly string[],
    change: (bytes: readonly (Uint8Array | undefined)[], now: number) => readonly StateChange[],
    askers: Askers,
  ): MaybePromise<void>;
  /** Frees the resources that the backend created. */
  close?(): MaybePromise<void>;
}

/** A change of the states of some keys, which returns texts if the states are texts. */
export type StatesChange = (states: readonly StoredState[], now: number) => readonly TextChange[];

/** Updates the states of one or more keys, as `StateBackend.updateAll` does. */
export type UpdateStates = (
  keys: readonly string[],
  change: StatesChange,
  askers: Askers,
) => MaybePromise<void>;

/** The storage of a store in this package. */
interface Storage {
  readonly update: UpdateStates;
  readonly updatesSeveral: boolean;
  /** Learns that an update has ended. @param ms its duration @param isDone false if it was rejected */
  ended?(askers: Askers, ms: number, isDone: boolean): void;
  close?(): MaybePromise<void>;
}

/** The waiting callers of an update. Others join it until `change` is called. */
export type Askers = readonly { readonly subject: Subject }[];

/**
 * A question about a key, and the function that answers it. A class with all fields from the start, because V8 would give an object new space
 * and another hidden class for each field that is added later.
 */
class Job<T = unknown> {
  readonly subject: Subject & Pick<Query, 'idHome'>;
  /** The id of the request, whose state changes together with the key's. */
  readonly id: string | undefined;
  readonly run: (state: States) => T;
  answer: T | undefined;
  /** Whether the update under way answers or rejects the job. */
  isTaken: boolean;
  resolve: ((answer: T) => void) | undefined;
  reject: ((error: unknown) => void) | undefined;

  constructor(subject: Job['subject'], id: string | undefined, run: Job<T>['run']) {
    this.subject = subject;
    this.id = id;
    this.run = run;
    this.answer = undefined;
    this.isTaken = false;
    this.resolve = undefined;
    this.reject = undefined;
  }

  promise(): Promise<T> {
    return new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }
}

/** The answer to a job whose update is written. The features learn of it even if the caller no longer waits. */
function answerOf({ subject, answer }: Job): unknown {
  answered(subject, answer ?? {});
  return answer;
}

/** A store on a backend that keeps bytes. Use {@link stateStore}. */
class StateStore implements Store {
  readonly #backend: Storage;
  /** The jobs of each key with an update under way. Jobs that arrive too late for it share the next update. */
  readonly #jobs = new PassingMap<string, Job[]>();

  constructor(backend: Storage) {
    this.#backend = backend;
  }

  get remembersIds(): boolean {
    return this.#backend.updatesSeveral;
  }

  /** @throws HeadgateError `HEADGATE_DIMENSIONS` */
  checkDimensions(set: PolicySet): void {
    if (this.#backend.updatesSeveral || setsByDimension(set).length < 2) return;
    throw new HeadgateError(
      'HEADGATE_DIMENSIONS',
      'This store changes the state of one key at a time, and these policies are by keys of several dimensions. Give the backend of ' +
        'stateStore a method `updateAll`, or create a limiter for each dimension.',
    );
  }

  decide(query: Query): MaybePromise<Reply> {
    return this.#ask(query, query.id, (state) => state.decide(query));
  }

  adjust(change: ChargeChange): MaybePromise<ChangeReply> {
    return this.#ask(change, change.claim?.id, (state) => state.adjust(change));
  }

  lease(change: LeaseChange): MaybePromise<boolean> {
    return this.#ask(change, undefined, (state) => state.lease(change));
  }

  reset(subject: Subject, isLogged?: boolean): MaybePromise<void> {
    return this.#ask(subject, undefined, (state) => state.reset(subject, isLogged));
  }

  ban(subject: Subject, duration: number, note?: ChangeNote, isLogged?: boolean): MaybePromise<void> {
    return this.#ask(subject, undefined, (state) => state.ban(subject, duration, note, isLogged));
  }

  usage(subject: Subject): MaybePromise<UsageReply> {
    return this.#ask(subject, undefined, (state) => state.usage(subject));
  }

  readonly overrides = overridesAmong((subject, run) => this.#ask(subject, undefined, run));

  close(): MaybePromise<void> {
    return this.#backend.close?.();
  }

  #ask<T>(subject: Job['subject'], id: string | undefined, run: Job<T>['run']): MaybePromise<T> {
    this.checkDimensions(subject.set);
    const job = new Job(subject, id, run);
    const keys = stateKeys(subject);
    if (id !== undefined) keys.push(idKey(subject.idHome ?? subject, id));
    const [key] = keys as [string];
    const joined = keys.length === 1 ? this.#jobs.get(key) : undefined;
    if (joined) {
      joined.push(job as Job);
      return job.promise();
    }
    const jobs: Job[] = [job as Job];
    const updated = this.#update(keys, jobs);
    if (!isPromise(updated)) return answerOf(job as Job) as T;
    const answer = job.promise();
    this.#settle(keys.length === 1 ? key : undefined, jobs, updated);
    return answer;
  }

  /** Answers the jobs of an update, in order of arrival, when it has ended. @param key for jobs that others may join */
  #settle(key: string | undefined, jobs: Job[], updated: Promise<void>): void {
    if (key !== undefined) this.#jobs.set(key, jobs);
    const sent = this.#backend.ended ? performance.now() : 0;
    const reject = (error: unknown): void => {
      for (const { isTaken, reject } of jobs) if (isTaken) reject!(error);
      this.#goOn(key, jobs);
    };
    updated.then(
      () => {
        this.#backend.ended?.(jobs, performance.now() - sent, true);
        try {
          for (const job of jobs) if (job.isTaken) job.resolve!(answerOf(job));
        } catch (error) {
          return reject(error);
        }
        this.#goOn(key, jobs);
      },
      (error: unknown) => {
        this.#backend.ended?.(jobs, performance.now() - sent, false);
        reject(error);
      },
    );
  }

  /** Begins the next update of a key if further jobs have joined. */
  #goOn(key: string | undefined, jobs: readonly Job[]): void {
    if (key === undefined) return;
    const left = jobs.filter(({ isTaken }) => !isTaken);
    if (left.length === 0) this.#jobs.delete(key);
    else this.#settle(key, left, this.#updateAgain(key, left));
  }

  async #updateAgain(key: string, jobs: Job[]): Promise<void> {
    await this.#update([key], jobs);
  }

  #update(keys: readonly string[], jobs: Job[]): MaybePromise<void> {
    for (const job of jobs) job.isTaken = true;
    const change: StatesChange = (states, now) => {
      const state = new StoredStates(states, now);
      for (const job of jobs) {
        job.isTaken = true;
        // An abandoned query must not be charged, because its caller has another answer by now. The answer of an earlier attempt is void.
        job.answer = job.subject.call?.abandoned ? undefined : job.run(state);
      }
      return state.save();
    };
    return this.#backend.update(keys, change, jobs);
  }
}

/**
 * Creates a store from any storage that can keep bytes by key and update them atomically. It decides exactly like the memory store.
 * Requests for a key that arrive while an update of the key waits share that update, or else the next one.
 */
export function stateStore(backend: StateBackend): Store {
  return stateStoreOn({
    update: (keys, change, askers) =>
      keys.length > 1
        ? backend.updateAll!(keys, change, askers)
        : backend.update(keys[0]!, (bytes, now) => change([bytes], now)[0]!, askers),
    get updatesSeveral() {
      return backend.updateAll !== undefined;
    },
    close: () => backend.close?.(),
  });
}

/** A {@link stateStore} on the storage of a store in this package. */
export function stateStoreOn(storage: Storage): Store {
  return new StateStore(storage);
}
