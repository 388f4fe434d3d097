import { assembleLimiter } from '../limiter/create-limiter.js';
import type { Limiter } from '../limiter/limiter.js';
import type { Policy } from '../contract/policy.js';
import type { Store } from '../contract/store.js';
import type { Limits } from './limits.js';

/** Makes limiters on the state that a command is about. */
export class Limiters {
  readonly #store: () => Store;
  readonly #timeout: number;

  constructor(store: () => Store, timeout: number) {
    this.#store = store;
    this.#timeout = timeout;
  }

  /** Makes a limiter of a scope. */
  limiter(name: string, policies: readonly Policy[], shadow = false): Limiter {
    return assembleLimiter({ ...this.#common(name), policies, shadow });
  }

  /** Makes a limiter of a scope whose limits can be changed. @param limits undefined: they come with each request */
  liveLimiter(name: string, limits: Limits | undefined): Limiter {
    const { policies = [], tiers = new Map<string, readonly Policy[]>(), shadow = false } = limits ?? {};
    return assembleLimiter(
      {
        ...this.#common(name),
        shadow,
        ...(policies.length > 0 && { policies }),
        ...(tiers.size > 0 && { tiers: Object.fromEntries(tiers) }),
        overrides: true,
      },
      { dynamic: limits === undefined },
    );
  }

  #common(name: string) {
    return {
      // The command reports mistakes as its own errors.
      warnings: false as const,
      name,
      store: this.#store(),
      onStoreError: 'throw',
      timeout: this.#timeout,
    } as const;
  }
}
