import { checkShape } from '../common/validate.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { CompiledPolicy, Policy } from '../contract/policy.js';
import { sharedOf, tenantsOf } from '../features/shares/contract/shares.js';
import { ofLimiter } from '../limiter/decision.js';
import type { Limiter } from '../limiter/limiter.js';
import { batches } from './batches.js';
import { checkName, type Context, type NameOption } from './context.js';
import { lacksSlots, verdictsOf } from './finds.js';
import { decidingBy, overriddenWeight } from './overrides/override-views.js';
import { type Limits, setsOf } from './limits.js';
import { whoseState, withinOf, type Hash } from './owners.js';
import { byDenials, type KeyRates, type Rates } from './rates.js';
import type { FoundKey, State } from './state.js';
import { callable, usesOf, type TenantUse } from './shared-limits.js';
import { ratesOfTenant } from './tenant-rates.js';
import { readTraffic } from './traffic.js';

/** A tenant of a shared limit. Its requests a second are those that all policies of the limiter decided. */
export interface TenantView extends Rates {
  /** The name of the limiter. */
  readonly name: string;
  /** The tier of the policies. Absent for the policies for requests without a tier. */
  readonly tier?: string;
  /** The name of the shared policy. */
  readonly policy: string;
  /** The tenant. */
  readonly key: string | Hash;
  /** The dimension of tenants, such as `'tenant'`. */
  readonly dimension: string;
  /** The shared limit, by its dimension and its key: `'provider openai'`. */
  readonly within: string;
  /** The whole limit, units. */
  readonly limit: number;
  /** The part of the limit that the tenant may use now, units. */
  readonly share: number;
  /** The units that it has used, of the window. Null if they are unknown, as for slots. */
  readonly used: number | null;
  /** The units that it could spend now. */
  readonly remaining: number;
  /**
   * The weight that the tenant's requests brought when it was heavy most recently, by which `share` and the answer are computed. Otherwise that of
   * its override or of the policy. Requests of a light tenant may have another one.
   */
  readonly weight: number;
  /** Whether it lately asked for more than its share, which bounds it. Null if `used` is. */
  readonly isHeavy: boolean | null;
  /** Whether a request of cost 1 would be admitted now, by the shared policy and by those of the tenant alone. */
  readonly allowed: boolean;
  /** The policy that would deny it, or `null`. */
  readonly denying: string | null;
  /** Whether only slots are missing, so that `retryAfterMs` is the time until a lease ends, which a process that is alive renews. */
  readonly lacksSlots: boolean;
  /** The policies that denied the tenant in the last seconds, most denials first. Policies of the tenant alone count for each of its limits. */
  readonly deniedBy: readonly {
    /** The name of the shared policy. */
    readonly policy: string;
    readonly denied: number;
  }[];
  /** The reason of a denial, `'fair-share'` or `'quota-exceeded'`, or `null`. */
  readonly reason: string | null;
  /** The time until a request of cost 1 would be admitted, ms, or `null` for an admission. */
  readonly retryAfterMs: number | null;
}

/** Options of `tenants`. */
export interface TenantsOptions extends NameOption {
  /** Ends the search of the limiter's state after its current step. The tenants found so far are returned. */
  signal?: AbortSignal | undefined;
}

const MAX_TENANTS = 200;

/** The most tenants with a state to read. Others are only known by their requests in the last seconds. */
const MAX_FOUND = 2000;

const BATCH_SIZE = 100;

interface Shared {
  readonly tier: string | undefined;
  readonly limits: Limits;
  readonly policy: CompiledPolicy;
  readonly hidden: CompiledPolicy;
  readonly share: string;
}

/** A tenant with a state that was found, or with requests that were counted. */
interface Candidate {
  readonly shared: Shared;
  readonly key: string | Hash;
  readonly within: string;
  /** The keys for a limiter. */
  readonly place: Readonly<Record<string, string>>;
  readonly found?: FoundKey;
}

export async function tenants({ state }: Context, options: TenantsOptions): Promise<TenantView[]> {
  checkShape('tenants', options, ['name', 'signal']);
  const { name } = options;
  checkName(name);
  const limits = (await state.published()).limitsOf(name);
  const shared = limits ? setsOf(limits).flatMap(([tier, own]) => sharedIn(limits, tier, own)) : [];
  if (shared.length === 0) return [];
  const rates = (await readTraffic(state, { name, keys: 20, ofPlaces: true })).limiters.flatMap(
    ({ keys }) => keys,
  );
  const candidates = await candidatesOf(state, options, shared, rates);
  const views = await viewsOf(state, name, candidates, rates);
  return views.sort((a, b) => byDenials(a, b) || (b.used ?? 0) - (a.used ?? 0)).slice(0, MAX_TENANTS);
}

function sharedIn(limits: Limits, tier: string | undefined, policies: readonly Policy[]): Shared[] {
  const compiled = compilePolicies('policies', policies);
  const set = { name: '', policies: compiled, timeout: 0 };
  return sharedOf(set).map(({ policy: at, tenant }) => {
    const [policy, hidden] = [compiled[at]!, compiled[tenant]!];
    const share = tenantsOf(policy)!.slice(policy.by.length + 1);
    return { tier, limits: { ...limits, policies }, policy, hidden, share };
  });
}

async function candidatesOf(
  state: State,
  { name, signal }: TenantsOptions,
  shared: readonly Shared[],
  rates: readonly KeyRates[],
): Promise<Candidate[]> {
  const all = new Map<string, Candidate>();
  const add = (each: Shared, candidate: Omit<Candidate, 'shared'>): void => {
    const id = JSON.stringify([each.tier, each.policy.name, candidate.key, candidate.within]);
    const known = all.get(id);
    if (!known?.found) all.set(id, { ...candidate, shared: each });
  };
  for (const each of shared)
    for (const { key, dimension, within = '' } of rates) {
      const { by } = each.policy;
      if (dimension !== each.share || !within.startsWith(`${by} `)) continue;
      const limitKey = within.slice(by.length + 1);
      if (typeof key === 'string') add(each, { key, within, place: { [by]: limitKey, [each.share]: key } });
    }
  if (shared.every(({ policy }) => policy.traits.holdsSlots)) return [...all.values()];
  for await (const page of state.search({ name, signal })) {
    for (const found of page) {
      const { by, key, slot } = found.owner;
      for (const each of shared) {
        if (each.hidden.id !== found.id || slot?.by !== each.policy.by || by !== each.share) continue;
        const [limitKey, tenant] = [callable(state, slot.key), callable(state, key)];
        if (limitKey === undefined || tenant === undefined) continue;
        const place = { [slot.by]: limitKey, [by]: tenant };
        add(each, { key: whoseState(found.owner).key, within: withinOf(slot), place, found });
      }
    }
    if (all.size >= MAX_FOUND) break;
  }
  return withState([...all.values()]);
}

/** A tenant with state is not also one of the tiers in which it has none. */
function withState(candidates: readonly Candidate[]): Candidate[] {
  const tenantOf = ({ shared, key, within }: Candidate): string =>
    JSON.stringify([shared.share, key, within]);
  const stored = new Set(candidates.flatMap((each) => (each.found ? [tenantOf(each)] : [])));
  return candidates.filter((each) => each.found !== undefined || !stored.has(tenantOf(each)));
}

async function viewsOf(
  state: State,
  name: string,
  candidates: readonly Candidate[],
  rates: readonly KeyRates[],
): Promise<TenantView[]> {
  /** By the shared state, the views in the tiers that use it. */
  const views = new Map<string, ViewInTier[]>();
  for (const shared of new Set(candidates.map((each) => each.shared))) {
    const own = candidates.filter((each) => each.shared === shared);
    const limits = ofTenant(shared);
    const isLive = limits.overrides ?? false;
    await decidingBy(state, name, limits, async (limiter) => {
      for (const some of batches(own, BATCH_SIZE)) {
        const found = some.flatMap((each) => each.found ?? []);
        const uses = await usesOf(state, limits.policies, found);
        const shown = some.map(async (candidate) => {
          const use = candidate.found && uses.get(candidate.found.owner.text);
          const inTier = await viewOf(limiter, candidate, use, { name, rates, isLive });
          const id = JSON.stringify([shared.hidden.id, inTier.view.key, inTier.view.within]);
          if (!views.get(id)?.push(inTier)) views.set(id, [inTier]);
        });
        await Promise.all(shown);
      }
    });
  }
  return [...views.values()].map(inOneTier);
}

/** The limits of the shared policy's tier that count the tenant or the key whose limit it shares. */
function ofTenant({ limits, policy, share }: Shared): Limits {
  const isOfIt = ({ by = DEFAULT_DIMENSION }: Policy): boolean => by === policy.by || by === share;
  return { ...limits, policies: limits.policies.filter(isOfIt), tiers: new Map() };
}

/** A tenant's view in one of the tiers that share a limit. */
interface ViewInTier {
  readonly view: TenantView;
  /** Whether the shared policy admits the tenant. */
  readonly isAdmitted: boolean;
  /** Whether the tenant brought the weight of this tier. */
  readonly isOfWeight: boolean;
}

/** The view in the tier whose weight the tenant brought. If its weight is unknown, the first tier that admits it, as it is light. */
function inOneTier(views: readonly ViewInTier[]): TenantView {
  const found = views.find(({ isOfWeight }) => isOfWeight) ?? views.find(({ isAdmitted }) => isAdmitted);
  return (found ?? views.at(-1)!).view;
}

async function viewOf(
  limiter: Limiter,
  { shared, key, within, place }: Candidate,
  brought: TenantUse | undefined,
  { name, rates, isLive }: { name: string; rates: readonly KeyRates[]; isLive: boolean },
): Promise<ViewInTier> {
  const { tier, policy, hidden, share: dimension } = shared;
  const { weight, isOfWeight = false } = brought ?? {};
  const use = brought?.of.get(policy.name);
  const decision = ofLimiter(await limiter.peek(place, { weight }));
  const verdict = decision.policies.find((each) => each.name === policy.name);
  const own = isLive ? await overriddenWeight(limiter, place, policy.name) : undefined;
  const { allowed } = decision;
  const { limit = policy.limit, share = limit, remaining = 0, allowed: isAdmitted = allowed } = verdict ?? {};
  const view = {
    name,
    ...(tier !== undefined && { tier }),
    policy: policy.name,
    key,
    dimension,
    within,
    limit,
    share,
    used: use?.used ?? null,
    remaining,
    weight: weight ?? own ?? hidden.params['weight']!,
    isHeavy: use?.isHeavy ?? null,
    allowed,
    denying: allowed ? null : (decision.policy ?? null),
    lacksSlots: !allowed && lacksSlots(verdictsOf(decision)),
    reason: allowed ? null : (decision.reason ?? null),
    retryAfterMs: allowed ? null : (decision.retryAfterMs ?? null),
    ...ratesOfTenant(rates, { dimension, within, key }),
  };
  return { view, isAdmitted, isOfWeight: weight !== undefined && isOfWeight };
}
