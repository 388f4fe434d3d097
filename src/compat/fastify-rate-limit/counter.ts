import type { Decision } from '../../common/decision.js';
import { HeadgateError } from '../../common/errors.js';
import { memo } from '../../common/memo.js';
import { assembleLimiter } from '../../limiter/create-limiter.js';
import type { Limiter } from '../../limiter/limiter.js';
import type { PolicySet, Store } from '../../contract/store.js';
import { MAX_DURATION_MS } from '../../common/duration.js';
import { MAX_UNITS } from '../../common/validate.js';
import type { Count, FastifyRateLimitStore } from './types.js';

/** The result of a `keyGenerator`. */
export type Key = string | number;

/** The quota of one request, after functions of the request were called. */
export interface Quota {
  readonly max: number;
  /** Milliseconds. */
  readonly timeWindow: number;
  /** The denials that are answered with 429 before the first 403, or -1 if all are. */
  readonly maxDenials: number;
}

/** One count per key, on a limiter or in the user's custom store. */
export abstract class Counter {
  /** The requests that were counted. Each request counts once, even if several hooks run. */
  readonly seen = new WeakSet<object>();

  /** Whether counts are also read without counting. */
  readable = false;

  abstract incr(key: Key, quota: Quota): Promise<Count>;
  /** Like `incr`, without counting. */
  abstract read(key: Key, quota: Quota): Promise<Count>;
  /** @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` if the store cannot read counts */
  checkReadable(): void {}
  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Counts in the user's custom store. A child may be the store itself, so the key includes the group. */
export class StoreCounter extends Counter {
  readonly #store: FastifyRateLimitStore;
  readonly #groupId: string | undefined;

  constructor(store: FastifyRateLimitStore, groupId: string | undefined) {
    super();
    this.#store = store;
    this.#groupId = groupId;
  }

  incr(key: Key, quota: Quota): Promise<Count> {
    return this.#ask('incr', key, quota);
  }

  read(key: Key, quota: Quota): Promise<Count> {
    return this.#ask('read', key, quota);
  }

  #ask(method: 'incr' | 'read', key: Key, { timeWindow, max }: Quota): Promise<Count> {
    return new Promise((resolve, reject) => {
      const done = (error: Error | null, result?: Count): void => (error ? reject(error) : resolve(result!));
      // The key is passed as the generator returned it, even as a number.
      const grouped = this.#groupId ? `${key}${this.#groupId}` : (key as string);
      this.#store[method]!(grouped, done, timeWindow, max);
    });
  }

  override checkReadable(): void {
    if (typeof this.#store.read === 'function') return;
    throw new HeadgateError(
      'HEADGATE_INVALID_ARGUMENT',
      'The configured rate-limit store does not implement a `read` method, which is required to use `{ increment: false }`',
    );
  }
}

/** The effect of a denied request. `renew` begins the window again; `double` at least doubles the remaining wait. */
export type Penalty = 'renew' | 'double';

const MAX_COMPILED_POLICIES = 1000;

/**
 * Counts with a fixed window. A limiter charges only admitted requests, but the option `ban` must count denials, and `read` must report them. So
 * the policy's limit is `max` plus the number of denials, and the caller compares the count with `max`.
 */
export class LimiterCounter extends Counter {
  readonly #limiter: Limiter;
  readonly #penalty: Penalty | undefined;
  /** Counts denials up to `maxDenials`, if there is a penalty. */
  readonly #denials: Limiter | undefined;
  readonly #sets = memo(MAX_COMPILED_POLICIES, (_: string, limiter: Limiter, limit: number, window: number) =>
    limiter.compile([{ algorithm: 'fixed-window', limit, window }]),
  );

  constructor(name: string, store: Store, penalty: Penalty | undefined) {
    super();
    const options = {
      store,
      onStoreError: 'throw',
      timeout: '1s',
      // Windows are always in milliseconds here.
      warnings: ['HEADGATE_SHORT_WINDOW', 'HEADGATE_LIKELY_SECONDS'],
      ...(penalty && { ban: {} }),
    } as const;
    this.#penalty = penalty;
    this.#limiter = assembleLimiter({ ...options, name }, { dynamic: true });
    this.#denials = penalty && assembleLimiter({ ...options, name: `${name} denials` }, { dynamic: true });
  }

  async incr(given: Key, quota: Quota): Promise<Count> {
    const key = String(given);
    const decision = await this.#decide(key, quota, 1);
    if (!this.#penalty) return this.#count(decision, quota);
    if (decision.allowed && decision.limit - decision.remaining <= quota.max)
      return this.#count(decision, quota);
    const left = decision.reason === 'banned' ? decision.retryAfterMs : 0;
    const ttl = this.#penalty === 'renew' ? quota.timeWindow : doubled(left, quota.timeWindow);
    const [isTooMany] = await Promise.all([this.#strike(key, quota, ttl), this.#limiter.ban(key, ttl)]);
    return { current: over(quota, isTooMany), ttl };
  }

  async read(given: Key, quota: Quota): Promise<Count> {
    const key = String(given);
    const decision = await this.#decide(key, quota, 0);
    if (decision.reason !== 'banned') return this.#count(decision, quota);
    const { reason } = await this.#denials!.decide(key, 0, this.#set(this.#denials!, 1, quota.timeWindow));
    return { current: over(quota, reason === 'banned'), ttl: decision.retryAfterMs };
  }

  override async close(): Promise<void> {
    await Promise.all([this.#limiter.close(), this.#denials?.close()]);
  }

  async #decide(key: string, { max, maxDenials, timeWindow }: Quota, cost: number): Promise<Decision> {
    const more = this.#penalty ? 0 : Math.max(0, maxDenials) + (this.readable ? 1 : 0);
    const limit = Math.min(MAX_UNITS, Math.max(1, Math.floor(max) + more));
    return this.#limiter.decide(key, cost, this.#set(this.#limiter, limit, timeWindow));
  }

  #count(decision: Decision, quota: Quota): Count {
    const { allowed, limit, remaining, resetAfterMs } = decision;
    return { current: allowed ? limit - remaining : over(quota, true), ttl: resetAfterMs };
  }

  /** Counts a denial within one window. Returns true after more than `maxDenials`, for as long as the penalty lasts. */
  async #strike(key: string, { maxDenials, timeWindow }: Quota, ttl: number): Promise<boolean> {
    if (maxDenials <= 0) return maxDenials === 0;
    const denials = this.#denials!;
    const { allowed } = await denials.decide(
      key,
      1,
      this.#set(denials, Math.min(MAX_UNITS, maxDenials), timeWindow),
    );
    if (!allowed) await denials.ban(key, ttl);
    return !allowed;
  }

  #set(limiter: Limiter, limit: number, window: number): PolicySet {
    return this.#sets(`${limiter.name} ${limit} ${window}`, limiter, limit, window);
  }
}

/** The lowest possible count of a denied request. */
function over({ max, maxDenials }: Quota, isTooMany: boolean): number {
  return max + 1 + (isTooMany ? Math.max(0, maxDenials) : 0);
}

/** The shortest of 1, 2, 4, 8 ... windows of at least twice the remaining time, or a single window if no time remains. */
function doubled(left: number, window: number): number {
  let length = window;
  while (left > 0 && length < MAX_DURATION_MS && length / 2 < Math.max(left, window)) length *= 2;
  return Math.min(length, MAX_DURATION_MS);
}
