import { HeadgateError } from '../../common/errors.js';
import { JointState, KeyState, stateKey, stateKeys, type StateChange } from './key-state.js';
import { partsOf } from './parts.js';
import {
  isPromise,
  type Change,
  type ChangeReply,
  type LeaseChange,
  type MaybePromise,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from '../../contract/store.js';

/** What keeps the bytes of a {@link stateStore}: a map, a table, a key-value server. */
export interface StateBackend {
  /**
   * Reads the state of a key, hands it to `change`, and writes what that returns, such that nobody else writes between: under a lock, or
   * under a compare-and-set that reads and calls `change` again until it succeeds. `now` is the time of the backend's clock, the same for
   * all processes, in whole ms since the epoch.
   *
   * Where the state did not change (`changed`), nothing need be written. It ends when the write is done, and fails if it is not known
   * to be done.
   */
  update(
    key: string,
    change: (bytes: Uint8Array | undefined, now: number) => StateChange,
  ): MaybePromise<void>;
  /**
   * The same of several keys at once, for limiters with keys of several dimensions: all that `change` returns is written, one for each
   * key, or nothing is. Such limiters are refused on a backend without it.
   */
  updateAll?(
    keys: readonly string[],
    change: (bytes: readonly (Uint8Array | undefined)[], now: number) => readonly StateChange[],
  ): MaybePromise<void>;
  /** Frees what the backend itself made. */
  close?(): MaybePromise<void>;
}

/** A question about a key, and what answers it. */
interface Job<T = unknown> {
  readonly subject: Subject;
  run(state: KeyState | JointState): T;
  answer?: T;
}

interface Waiting extends Job {
  resolve(answer: unknown): void;
  reject(error: unknown): void;
}

/** A store on a backend that keeps bytes. Use {@link stateStore}. */
class StateStore implements Store {
  readonly #backend: StateBackend;
  /** Of each key with an update under way, those who wait for it: they share the next one. */
  readonly #waiting = new Map<string, Waiting[]>();

  constructor(backend: StateBackend) {
    this.#backend = backend;
  }

  /** @throws HeadgateError `HEADGATE_DIMENSIONS` */
  checkDimensions(set: PolicySet): void {
    if (this.#backend.updateAll || partsOf(set).length < 2) return;
    throw new HeadgateError(
      'HEADGATE_DIMENSIONS',
      'This store changes the state of one key at a time, and these policies are by keys of several dimensions. Give the backend of ' +
        'stateStore a method `updateAll`, or make a limiter for each dimension.',
    );
  }

  decide(query: Query): MaybePromise<Reply> {
    return this.#ask({ subject: query, run: (state) => state.decide(query) });
  }

  adjust(change: Change): MaybePromise<ChangeReply> {
    return this.#ask({ subject: change, run: (state) => state.adjust(change) });
  }

  lease(change: LeaseChange): MaybePromise<boolean> {
    return this.#ask({ subject: change, run: (state) => state.lease(change) });
  }

  reset(subject: Subject): MaybePromise<void> {
    return this.#ask({ subject, run: (state) => state.reset(subject) });
  }

  ban(subject: Subject, duration: number): MaybePromise<void> {
    return this.#ask({ subject, run: (state) => state.ban(subject, duration) });
  }

  close(): MaybePromise<void> {
    return this.#backend.close?.();
  }

  #ask<T>(job: Job<T>): MaybePromise<T> {
    if (typeof job.subject.key !== 'string') return this.#askTogether(job);
    const key = stateKey(job.subject);
    const waiting = this.#waiting.get(key);
    if (waiting) {
      return new Promise<T>((resolve, reject) => {
        waiting.push({ ...job, resolve: resolve, reject });
      });
    }
    const updated = this.#update(key, [job]);
    if (!isPromise(updated)) return job.answer as T;
    this.#waiting.set(key, []);
    const next = (): void => void this.#next(key);
    updated.then(next, next);
    return updated.then(() => job.answer as T);
  }

  #askTogether<T>(job: Job<T>): MaybePromise<T> {
    this.checkDimensions(job.subject.set);
    const keys = stateKeys(job.subject);
    const change = (bytes: readonly (Uint8Array | undefined)[], now: number): StateChange[] => {
      const state = new JointState(bytes, now);
      if (!job.subject.abandoned) job.answer = job.run(state);
      return state.save();
    };
    const updated = this.#backend.updateAll
      ? this.#backend.updateAll(keys, change)
      : this.#backend.update(keys[0]!, (bytes, now) => change([bytes], now)[0]!);
    return isPromise(updated) ? updated.then(() => job.answer as T) : (job.answer as T);
  }

  /** Asks for all who wait for a key, in the order in which they came. */
  async #next(key: string): Promise<void> {
    const jobs = this.#waiting.get(key)!;
    if (jobs.length === 0) {
      this.#waiting.delete(key);
      return;
    }
    this.#waiting.set(key, []);
    try {
      await this.#update(key, jobs);
      for (const { resolve, answer } of jobs) resolve(answer);
    } catch (error) {
      for (const { reject } of jobs) reject(error);
    }
    await this.#next(key);
  }

  #update(key: string, jobs: readonly Job[]): MaybePromise<void> {
    return this.#backend.update(key, (bytes, now) => {
      const state = new KeyState(bytes, now);
      for (const job of jobs) {
        // Who has been answered otherwise is not charged.
        if (!job.subject.abandoned) job.answer = job.run(state);
      }
      return state.save();
    });
  }
}

/**
 * Makes a store of anything that can keep bytes by key and update them atomically. It decides as the memory store does: verdict for
 * verdict. Requests for one key that come while an update of it is under way share the next one.
 */
export function stateStore(backend: StateBackend): Store {
  return new StateStore(backend);
}
