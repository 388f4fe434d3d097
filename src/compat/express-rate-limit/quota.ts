import type { Decision } from '../../common/decision.js';
import { exactMilliseconds, type Duration } from '../../common/duration.js';
import { memo } from '../../common/memo.js';
import { createLimiter } from '../../limiter/create-limiter.js';
import type { Limiter } from '../../limiter/limiter.js';
import { isPromise, type MaybePromise, type Store } from '../../contract/store.js';
import { MAX_UNITS } from '../../common/validate.js';
import type { Counted, Counter } from './counter.js';
import type { ClientRateLimitInfo } from './types.js';

const MAX_COMPILED_LIMITS = 1000;

/** The maximum number of keys with a count of denials: some 10 MB. */
const MAX_DENIED_KEYS = 100_000;

interface Scope {
  readonly store: Store;
  readonly windowMs: number;
  readonly name?: string | undefined;
  readonly timeout?: Duration | undefined;
}

/** Counts with a limiter of Headgate: a fixed window, with the limit of each request. */
export class Quota implements Counter {
  readonly #limiter: Limiter;
  readonly #window: number;
  readonly #setOf = memo(MAX_COMPILED_LIMITS, (limit: number) =>
    this.#limiter.compile([this.#policy(limit)]),
  );
  readonly #denials = new ShownDenials();
  readonly #now: () => number;

  /** @param now returns the store's time of the latest decision */
  constructor({ store, windowMs, name, timeout }: Scope, now = Date.now) {
    this.#now = now;
    this.#window = exactMilliseconds('windowMs', Math.ceil(windowMs));
    // The largest possible limit, so that counts are readable for every limit of a request.
    this.#limiter = createLimiter({
      store,
      ...this.#policy(MAX_UNITS),
      ...(name !== undefined && { name }),
      ...(timeout !== undefined && { timeout }),
      onStoreError: 'throw',
      // Windows are always in milliseconds here.
      warnings: ['HEADGATE_SHORT_WINDOW', 'HEADGATE_LIKELY_SECONDS'],
    });
  }

  count(key: string, limit: number): MaybePromise<Counted> {
    const units = Math.min(Math.floor(limit), MAX_UNITS);
    if (units < 1) return this.#deny(key, 0, Date.now() + this.#window);
    const answer = this.#limiter.decide(String(key), 1, this.#setOf(units));
    return isPromise(answer)
      ? answer.then((decision) => this.#counted(key, units, decision))
      : this.#counted(key, units, answer);
  }

  #counted(key: string, units: number, decision: Decision): Counted {
    const end = this.#endOf(decision);
    if (!decision.allowed) return this.#deny(key, units, end);
    return {
      // A full memory store does not count the request, but this request counts as one.
      used: Math.max(1, units - decision.remaining),
      denied: false,
      resetTime: new Date(end),
      undo() {
        return decision.refund();
      },
    };
  }

  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const answer = this.#limiter.decide(String(key), 0);
    const decision = isPromise(answer) ? await answer : answer;
    const end = this.#endOf(decision);
    const denied = this.#denials.find(key) ?? { end: 0, count: 0 };
    const totalHits = MAX_UNITS - decision.remaining + denied.count;
    if (decision.resetAfterMs > 0) return { totalHits, resetTime: new Date(end) };
    // With a limit of 0, there are only denials.
    return denied.count > 0 ? { totalHits, resetTime: new Date(denied.end) } : undefined;
  }

  async increment(key: string): Promise<ClientRateLimitInfo> {
    const { used, resetTime } = await this.count(key, MAX_UNITS);
    return { totalHits: used, resetTime };
  }

  decrement(key: string): Promise<void> {
    return this.#limiter.refund(String(key));
  }

  resetKey(key: string): Promise<void> {
    this.#denials.forget(key);
    return this.#limiter.reset(String(key));
  }

  /** Counts a denied request without charging it, because express-rate-limit also includes denied requests. */
  #deny(key: string, limit: number, end: number): Counted {
    const denied = this.#denials.add(key, end);
    return {
      used: limit + denied.count,
      denied: true,
      resetTime: new Date(limit > 0 ? end : denied.end),
      undo() {
        denied.count--;
      },
    };
  }

  /** The end of a decision's window. The memory store decides at once, so `now` is the time of this decision. */
  #endOf({ resetAfterMs, retryAfterMs = 0 }: Decision): number {
    // A full memory store also denies keys whose window has not begun. Such keys wait until the store has room.
    return this.#now() + Math.max(resetAfterMs, retryAfterMs);
  }

  #policy(limit: number) {
    return { algorithm: 'fixed-window', limit, window: this.#window } as const;
  }
}

interface DeniedKey {
  readonly end: number;
  count: number;
}

/**
 * The number of this process' denials per key and window. The number is only shown, and does not decide anything here, but
 * express-slow-down, with a limit of 0, computes a delay from the number.
 */
class ShownDenials {
  /** The denied keys, in the order of their windows' ends. */
  readonly #keys = new Map<string, DeniedKey>();

  /** @param end the end of the window in which the key is denied */
  add(key: string, end: number): DeniedKey {
    let denied = this.find(key);
    if (!denied) {
      this.#makeRoom();
      this.#keys.delete(key);
      this.#keys.set(key, (denied = { end, count: 0 }));
    }
    denied.count++;
    return denied;
  }

  forget(key: string): void {
    this.#keys.delete(key);
  }

  find(key: string): DeniedKey | undefined {
    const denied = this.#keys.get(key);
    return denied && Date.now() < denied.end ? denied : undefined;
  }

  /** Removes keys whose window is over, and the earliest key if there are too many. */
  #makeRoom(): void {
    for (const [key, { end }] of this.#keys) {
      if (Date.now() < end && this.#keys.size < MAX_DENIED_KEYS) return;
      this.#keys.delete(key);
    }
  }
}
