import { toMilliseconds, type Duration } from '../duration.js';
import { HeadgateError, invalidOption } from '../errors.js';
import { compilePolicies, type Policy } from '../policy.js';
import { checkChoice } from '../validate.js';
import { memoryStore } from './memory.js';
import type { Change, LeaseChange, MaybePromise, PolicySet, Query, Reply, Store, Subject } from './store.js';

export interface FailureOptions {
  /**
   * What to do when the store fails or is late: `'local'` (default) decides in an embedded memory store, `'allow'` admits,
   * `'deny'` denies (503), `'throw'` throws the store's error.
   */
  onStoreError?: 'local' | 'allow' | 'deny' | 'throw';
  /** For `'local'`: the share of each limit that this process may admit meanwhile: above 0, up to 1 (default). */
  localShare?: number;
  /** How long the store may take: from `'1ms'` to `'1m'`, default `'100ms'`. */
  timeout?: Duration;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function checkTimeout(timeout: unknown): number {
  const result = toMilliseconds('timeout', timeout ?? '100ms');
  if (result > 60_000) throw invalidOption('timeout', timeout, "Write '1ms' to '1m'.");
  return result;
}

/** Answers in time whatever the store does. A store that answers at once needs none of it and is returned as it is. */
export function withFailurePolicy(store: Store, options: FailureOptions, timeout: number): Store {
  const mode = checkChoice('onStoreError', options.onStoreError ?? 'local', [
    'local',
    'allow',
    'deny',
    'throw',
  ]);
  const share = options.localShare ?? 1;
  if (typeof share !== 'number' || !(share > 0 && share <= 1)) {
    throw invalidOption('localShare', share, 'Write a number above 0, up to 1.');
  }
  return new FailurePolicy(store, mode, share, timeout);
}

class FailurePolicy implements Store {
  readonly #store: Store;
  readonly #mode: NonNullable<FailureOptions['onStoreError']>;
  readonly #share: number;
  readonly #timeout: number;
  readonly #local = memoryStore();
  readonly #localSets = new WeakMap<PolicySet, PolicySet>();

  constructor(
    store: Store,
    mode: NonNullable<FailureOptions['onStoreError']>,
    share: number,
    timeout: number,
  ) {
    this.#store = store;
    this.#mode = mode;
    this.#share = share;
    this.#timeout = timeout;
  }

  decide(query: Query): MaybePromise<Reply> {
    let reply: MaybePromise<Reply>;
    try {
      reply = this.#store.decide(query);
    } catch (error) {
      return this.#instead(query, error);
    }
    if (!(reply instanceof Promise)) return reply;
    return this.#inTime(reply).catch((error: unknown) => this.#instead(query, error));
  }

  #instead(query: Query, error: unknown): Reply {
    if (this.#mode === 'throw') throw error;
    if (this.#mode !== 'local') return { now: Date.now(), ban: 0, verdicts: [], degraded: this.#mode };
    const reply = this.#local.decide({ ...query, set: this.#localSet(query.set) }) as Reply;
    return { ...reply, degraded: 'local' };
  }

  /** The set with this process' share of each limit. */
  #localSet(set: PolicySet): PolicySet {
    let local = this.#localSets.get(set);
    if (!local) {
      const scale = (units: number): number => Math.max(1, Math.floor(units * this.#share));
      const policies = set.policies.map(({ name, source }): Policy => {
        const burst = 'burst' in source && source.burst !== undefined ? { burst: scale(source.burst) } : {};
        return { ...source, ...burst, name, limit: scale(source.limit) };
      });
      local = { ...set, policies: compilePolicies('policies', policies) };
      this.#localSets.set(set, local);
    }
    return local;
  }

  async #inTime<T>(answer: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(
          new HeadgateError('HEADGATE_STORE_TIMEOUT', `The store took longer than ${this.#timeout} ms.`),
        );
      }, this.#timeout);
    });
    try {
      return await Promise.race([answer, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  async adjust(change: Change): Promise<Reply> {
    if (change.degraded === 'local')
      return this.#local.adjust({ ...change, set: this.#localSet(change.set) });
    return this.#inTime(Promise.resolve(this.#store.adjust(change)));
  }

  async lease(change: LeaseChange): Promise<boolean> {
    if (change.degraded === 'local') return this.#local.lease({ ...change, set: this.#localSet(change.set) });
    return this.#inTime(Promise.resolve(this.#store.lease(change)));
  }

  async reset(subject: Subject): Promise<void> {
    await this.#inTime(Promise.resolve(this.#store.reset(subject)));
  }

  async ban(subject: Subject, duration: number): Promise<void> {
    await this.#inTime(Promise.resolve(this.#store.ban(subject, duration)));
  }
}
