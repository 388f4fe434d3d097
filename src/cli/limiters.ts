import { assembleLimiter } from '../limiter/create-limiter.js';
import type { Limiter } from '../limiter/limiter.js';
import type { Policy } from '../contract/policy.js';
import type { Store } from '../contract/store.js';
import type { Limits } from './limits.js';

/** Creates limiters on the state that a command works on. */
export function limitersOn(store: () => Store, timeout: number) {
  // The command reports mistakes as its own errors.
  const common = (name: string) =>
    ({ warnings: false, name, store: store(), onStoreError: 'throw', timeout }) as const;
  return {
    /** A limiter of a scope. */
    limiter(name: string, policies: readonly Policy[], shadow = false): Limiter {
      return assembleLimiter({ ...common(name), policies, shadow });
    },

    /** A limiter of a scope with changeable limits. @param limits the limits, or `undefined` if they come with each request */
    liveLimiter(name: string, limits: Limits | undefined): Limiter {
      const { policies = [], tiers = new Map<string, readonly Policy[]>(), shadow = false } = limits ?? {};
      return assembleLimiter(
        {
          ...common(name),
          shadow,
          ...(policies.length > 0 && { policies }),
          ...(tiers.size > 0 && { tiers: Object.fromEntries(tiers) }),
          overrides: true,
        },
        { dynamic: limits === undefined },
      );
    },
  };
}

export type Limiters = ReturnType<typeof limitersOn>;

/** Resolves once a limiter has read the override of all keys, if that is possible. Earlier decisions ignore that override. */
export async function readOverrideOfAll(limiter: Limiter): Promise<void> {
  await limiter.overrideOf().catch(() => undefined);
}
