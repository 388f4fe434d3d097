import type { HeadgateError } from '../common/errors.js';
import type { Policy } from '../contract/policy.js';
import { assembleLimiter } from '../limiter/create-limiter.js';
import type { Limiter } from '../limiter/limiter.js';
import type { Limits } from './limits.js';
import type { State } from './state.js';

/** A limiter of a scope on the state. @param limits the limits, or `undefined` if they come with each request @param undoes the id of the logged change that overrides undo */
export function limiterOn(
  state: State,
  name: string,
  limits: Limits | undefined,
  isLive = true,
  undoes?: string,
): Limiter {
  const { policies = [], tiers = new Map<string, readonly Policy[]>(), shadow = false } = limits ?? {};
  return assembleLimiter(
    {
      // The administration reports mistakes as its own errors.
      ...({ warnings: false, name, shadow, onStoreError: 'throw', timeout: state.timeout } as const),
      store: state.openStore(undoes),
      ...(policies.length > 0 && { policies }),
      ...(isLive && tiers.size > 0 && { tiers: Object.fromEntries(tiers) }),
      overrides: isLive,
    },
    { dynamic: limits === undefined },
  );
}

/** Uses a limiter, and closes it. */
export async function withLimiter<T>(limiter: Limiter, use: (limiter: Limiter) => Promise<T>): Promise<T> {
  try {
    return await use(limiter);
  } finally {
    await limiter.close();
  }
}

/** Resolves once a limiter has read the override of all keys, if that is possible. Earlier decisions ignore that override. */
export async function readOverrideOfAll(limiter: Limiter): Promise<void> {
  await limiter.overrideOf().catch(() => undefined);
}

/** Whether a limiter still has all policies of an override. */
export function fits(
  limiter: Limiter,
  ...change: Parameters<Limiter['internals']['operations']['checkOverride']>
): boolean {
  try {
    limiter.internals.operations.checkOverride(...change);
    return true;
  } catch (error) {
    if ((error as HeadgateError).code === 'HEADGATE_CLOSED') throw error;
    return false;
  }
}
