import { useOf, type SharesParams } from '../algorithms/shares/sharing.js';
import { compilePolicies } from '../contract/compile-policies.js';
import type { Policy } from '../contract/policy.js';
import { sharedOf } from '../contract/shares.js';
import type { LimiterDecision } from '../limiter/decision.js';
import { verdictsOf, type PolicyVerdict } from './finds.js';
import type { FoundKey, State } from './state.js';
import { broughtWeight } from './shared-limits.js';

/** The use of a tenant, in all shared limits of a limiter. */
export interface TenantUse {
  /** As of `broughtWeight`. */
  weight: number | undefined;
  /** Whether the policies have the weight that the tenant brought, if it is known. */
  isOfWeight: boolean;
  readonly used: Map<string, number>;
}

/** The use of tenants of units, by the texts of their owners. @param keys their states */
export async function usesOf(
  state: State,
  policies: readonly Policy[],
  keys: readonly FoundKey[],
): Promise<ReadonlyMap<string, TenantUse>> {
  const compiled = compilePolicies('policies', policies);
  const now = await state.now();
  const uses = new Map<string, TenantUse>();
  for (const { policy, tenant } of sharedOf({ name: '', policies: compiled, timeout: 0 })) {
    const { id } = compiled[tenant]!;
    const params = compiled[tenant]!.params as unknown as SharesParams;
    const own = keys.filter((key) => key.id === id);
    const states = own.length === 0 ? [] : await state.tenants(own, params.segments);
    for (const [i, saved] of states.entries()) {
      if (!saved) continue;
      const { text } = own[i]!.owner;
      const use = uses.get(text) ?? { weight: undefined, isOfWeight: true, used: new Map() };
      uses.set(text, use);
      use.weight ??= broughtWeight(saved);
      use.isOfWeight = use.weight === undefined || use.weight === params.weight;
      use.used.set(compiled[policy]!.name, useOf(saved, params, now).used);
    }
  }
  return uses;
}

export function tenantVerdicts(decision: LimiterDecision, use: TenantUse | undefined): PolicyVerdict[] {
  return verdictsOf(decision).map((verdict) => {
    const used = use?.used.get(verdict.name);
    return used === undefined ? verdict : { ...verdict, used };
  });
}
