import type { OverrideFields } from './overrides/override-source.js';
import { orUnlimited } from '../contract/compile-policies.js';
import type { Policy } from '../contract/policy.js';
import { assembleLimiter } from '../limiter/create-limiter.js';
import type { Limiter } from '../limiter/limiter.js';
import type { Limits } from './limits.js';
import type { State } from './state.js';

/** A limiter of a scope on the state. @param limits undefined for policies by request */
export function limiterOn(
  state: State,
  name: string,
  limits: Limits | undefined,
  { isLive = true, changes }: { readonly isLive?: boolean; readonly changes?: OverrideFields } = {},
): Limiter {
  const { policies = [], tiers = new Map<string, readonly Policy[]>(), shadow = false } = limits ?? {};
  // Without policies of its own, a limiter with tiers needs the tier of each request.
  const isPlan =
    limits !== undefined && (policies.length > 0 || !isLive || tiers.size === 0 || limits.isUnlimited);
  const plans = [...tiers].map(([tier, all]) => [tier, orUnlimited(all)] as const);
  return assembleLimiter(
    {
      // The administration reports mistakes as its own errors.
      ...({
        warnings: false,
        name,
        shadow,
        onStoreError: 'throw',
        timeout: state.timeout,
        connectTimeout: state.timeout,
      } as const),
      store: state.openStore(changes),
      ...(isPlan && { policies: orUnlimited(policies) }),
      ...(isLive && tiers.size > 0 && { tiers: Object.fromEntries(plans) }),
      overrides: isLive,
    },
    { dynamic: limits === undefined },
  );
}

export async function withLimiter<T>(limiter: Limiter, use: (limiter: Limiter) => Promise<T>): Promise<T> {
  try {
    return await use(limiter);
  } finally {
    await limiter.close();
  }
}
