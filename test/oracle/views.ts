// The views of operators after a trace, compared with the model: denials by policy, times, units left, bans, overrides and tenants.
import type { Admin, BannedKey, JudgedKey, KeyView } from 'headgate/admin';
import { all } from '../admin/stores.js';
import type { Both } from './actions.js';
import { compare } from './compare.js';
import { decide } from './model/decide.js';
import type { LimiterModel } from './model/limiter.js';
import { SharedCount } from './model/shares.js';
import { ANY, type Decision, type Policy } from './model/types.js';

/** The answers of one view: of the administration, the command line, or the page. */
export interface View {
  readonly name: string;
  /** The most by which the view's clock may differ from the trace's, ms. */
  readonly slack: number;
  key(key: string, dimension?: string): Promise<readonly KeyView[]>;
  limited(): Promise<readonly JudgedKey[]>;
  bans(): Promise<readonly BannedKey[]>;
}

/** The functions of the administration. */
export const adminView = (admin: Admin): View => ({
  name: 'admin',
  slack: 0,
  key: (key, dimension) => admin.key(key, dimension === undefined ? {} : { dimension }),
  limited: () => all(admin.limited()),
  bans: () => all(admin.bans()),
});

export const KEYS = ['a', 'b', 'x', 'o', 't', 'u', 'v'];
const DEFAULT = 'key';

/** @returns the first difference between the views and the model, or undefined */
export async function differenceIn(
  view: View,
  limiters: readonly Both[],
  now: number,
): Promise<string | undefined> {
  const denied = new Denied();
  const deniedTenants = new Set<string>();
  for (const key of KEYS) {
    const views = await view.key(key);
    const asTenant = limiters.some(isOfSlots) ? await view.key(key, 'tenant') : [];
    for (const both of limiters) {
      const own = views.filter(({ name }) => name === both.name);
      const difference =
        (await usageDiffers(both, key, now, view.slack)) ??
        differenceOfKey(both, key, own, now, view.slack) ??
        (await tenants(both, key, [...own, ...asTenant.filter(({ name }) => name === both.name)], {
          now,
          slack: view.slack,
        }));
      if (difference) return `${view.name}, key ${key} of ${both.name}: ${difference}`;
      addPlaces(denied, both, key, own, now);
      for (const each of own.filter(({ within }) => within !== undefined)) {
        if (!isDeniedByPolicies(each)) continue;
        deniedTenants.add(placeOf(each as never));
        if (isDemanding(both.model, each, now)) denied.tiersIn(placeOf(each as never)).denying.add(each.tier);
      }
    }
  }
  // Requests without a tenant are a tenant, too, for which nobody can ask by its key.
  const limited = (await view.limited()).filter(({ key }) => key !== '');
  const listed = limited.map(placeOf);
  // Denials in a tier that a key does not seem to have are left out of lists, and the model does not know tiers by use yet.
  const tiered = limiters.filter(({ model }) => setsOf(model).length > 1).map(({ name }) => `${name} `);
  const isOpen = (place: string): boolean => tiered.some((name) => place.startsWith(name));
  const missing = denied.places.filter((each) => !listed.includes(each) && !isOpen(each));
  const extra = listed.filter((each) => !denied.has(each) && !deniedTenants.has(each));
  const difference =
    missing.length + extra.length > 0
      ? `limited: missing ${missing.join('; ')}, not denied ${extra.join('; ')}`
      : (tiersDiffer(
          limited.filter((find) => !isOpen(placeOf(find))),
          denied,
        ) ?? bansDiffer(await view.bans(), limiters, now, view.slack));
  return difference && `${view.name}: ${difference}`;
}

/** The tiers that deny a key in one place, and those that read its state and admit it. */
interface Tiers {
  readonly denying: Set<string | undefined>;
  readonly admitting: Set<string | undefined>;
  /** The number of tiers, those without state of the key included. */
  count: number;
}

/** The keys that policies deny, by the model. */
class Denied {
  readonly #tiers = new Map<string, Tiers>();

  get places(): string[] {
    return [...this.#tiers].filter(([, { denying }]) => denying.size > 0).map(([place]) => place);
  }

  has(place: string): boolean {
    return this.tiersIn(place).denying.size > 0;
  }

  tiersIn(place: string): Tiers {
    const tiers = this.#tiers.get(place) ?? { denying: new Set(), admitting: new Set(), count: 0 };
    this.#tiers.set(place, tiers);
    return tiers;
  }
}

/** Each key is listed once. Its tier denies it, and `certain` says whether all do. */
function tiersDiffer(limited: readonly JudgedKey[], denied: Denied): string | undefined {
  const met = new Set<string>();
  for (const find of limited) {
    const place = placeOf(find);
    if (met.has(place)) return `limited: ${place} is listed twice`;
    met.add(place);
    if (find.within !== undefined || !denied.has(place)) continue;
    const { denying, admitting, count } = denied.tiersIn(place);
    const where = `limited: ${place}, tier ${find.tier ?? '-'}, certain ${String(find.certain)}`;
    if (find.certain ? admitting.size > 0 : denying.size === count) return `${where}: the model differs`;
    if (!denying.has(find.tier) && !(find.tier === undefined && find.certain && denying.size > 1))
      return `${where}: this tier does not deny it`;
  }
  return undefined;
}

/** A key in a place of a list, as text. */
export const placeOf = ({ name, dimension = DEFAULT, key, within = '-' }: JudgedKey): string =>
  [name, dimension, key, within]
    .map((part) => (typeof part === 'string' ? part : JSON.stringify(part)))
    .join(' ');

/** `usage` of a key in every tier and dimension. */
async function usageDiffers(
  { model, real }: Both,
  key: string,
  now: number,
  slack: number,
): Promise<string | undefined> {
  if (slack > 0) return undefined;
  for (const [tier, policies] of setsOf(model))
    for (const by of dimensionsOf(policies)) {
      const usage = await real.usage({ [by]: key }, tier === undefined ? {} : { tier });
      const { override } = usage;
      const got = {
        ...usage,
        override: override && {
          ...override,
          since: override.since.getTime(),
          until: override.until?.getTime(),
        },
      };
      const difference = compare(got, model.usage({ [by]: key }, tier, now, usage));
      if (difference) return `usage by ${by}, tier ${tier ?? '-'}: ${difference}`;
    }
  return undefined;
}

/** The sets of policies: without a tier, and of each tier. */
const setsOf = ({ def }: LimiterModel) =>
  [[undefined, def.policies] as const, ...Object.entries(def.tiers)].filter(([, all]) => all.length > 0);

const dimensionsOf = (policies: readonly Policy[]) => [...new Set(policies.map(({ by }) => by))];

/** The decision about a key of one dimension, without bans, and of a shared limit as a whole. */
function decisionOf(
  model: LimiterModel,
  by: string,
  key: string,
  tier: string | undefined,
  now: number,
  view?: KeyView,
) {
  const unbanned = Object.assign(Object.create(model) as LimiterModel, {
    def: { ...model.def, ban: undefined },
  });
  const shared = new Set(model.def.policies.flatMap(({ share, name }) => (share ? [name] : [])));
  const witnesses = (view?.policies ?? []).filter(({ name }) => !shared.has(name));
  const real = { charged: 0, policies: witnesses } as unknown as Decision;
  return decide(
    unbanned,
    { keys: { [by]: key }, cost: 1, isPeek: true, real, ...(tier === undefined ? {} : { tier }) },
    now,
  ).decision;
}

function differenceOfKey(
  { model }: Both,
  key: string,
  views: readonly KeyView[],
  now: number,
  slack: number,
): string | undefined {
  const { def } = model;
  const expected = new Set<string>();
  for (const [tier, policies] of setsOf(model))
    for (const by of dimensionsOf(policies)) {
      const where = `${by} ${tier ?? '-'}`;
      expected.add(where);
      const view = views.find((each) => each.dimension === by && each.tier === tier && !each.within);
      if (!view) return `${where}: no view`;
      const decision = decisionOf(model, by, key, tier, now, view);
      const rest = def.ban?.by === by ? model.bans!.rest(key, now) : 0;
      const own = def.overrides ? model.overrides.of([by, key], now) : undefined;
      const override = def.overrides ? (own ?? model.overrides.of(undefined, now)) : undefined;
      const isNever = decision.reason === 'cost-exceeds-capacity';
      // The model does not know when a shared limit admits whose override ends.
      const isVague =
        policies.some((policy) => policy.by === by && policy.share) &&
        model.overrides.endsAfter({ [by]: key }, now).length > 0;
      const open = isVague ? { retryAfterMs: ANY } : {};
      const difference = compareNear(
        {
          ...answerOf(view),
          bannedForMs: view.bannedForMs,
          override: view.override && { all: view.override.all, change: view.override.change },
        },
        {
          allowed: rest > 0 ? def.shadow : decision.allowed,
          reason: rest > 0 ? 'banned' : decision.reason,
          retryAfterMs:
            rest > 0
              ? isNever || decision.retryAfterMs === (ANY as unknown)
                ? ANY
                : Math.max(rest, orZero(decision.retryAfterMs))
              : decision.retryAfterMs,
          ...open,
          policies: decision.policies.map(({ share: _, ...verdict }) => ({ ...verdict, ...open })),
          bannedForMs: rest,
          override: override ? { all: !own, change: override.change.given } : null,
        },
        slack,
      );
      if (difference) return `${where}: ${difference}`;
      // A key that used more than a tier allows, or has state that the tier lacks, has another tier.
      const hasOther = views.some(
        ({ likely, name, dimension, within, tier }) =>
          likely &&
          name === view.name &&
          dimension === view.dimension &&
          within === view.within &&
          tier !== view.tier,
      );
      if (isCharged(model, by, key, policies, now) && !view.likely && !hasOther)
        return `${where}: has charges, but is unlikely`;
    }
  return views.some(({ likely }) => likely) || views.length === 0 ? undefined : 'no view is likely';
}

const orZero = (value: unknown): number => (typeof value === 'number' ? value : 0);

/** Whether a policy has charges of a key. */
const isCharged = (
  model: LimiterModel,
  by: string,
  key: string,
  policies: readonly Policy[],
  now: number,
): boolean =>
  policies.some((policy) => {
    if (policy.by !== by) return false;
    const { count } = model.counts.of(model.def.name, { policy, base: policy, isNew: false, key });
    const look = count.look(now, 0, policy);
    return look.reset > 0 && policy.algorithm !== 'calendar';
  });

function answerOf({ allowed, reason, retryAfterMs, policies }: KeyView) {
  return {
    ...{ allowed, reason: reason ?? undefined, retryAfterMs: retryAfterMs ?? undefined },
    policies: policies.map((verdict) => {
      const { name, key, limit, remaining, resetAfterMs } = verdict;
      return {
        name,
        key,
        allowed: verdict.allowed,
        limit,
        remaining,
        retryAfterMs: verdict.retryAfterMs ?? undefined,
        resetAfterMs,
      };
    }),
  };
}

/** Adds the places in which policies deny a key, by the model. */
function addPlaces(
  denied: Denied,
  { name, model }: Both,
  key: string,
  views: readonly KeyView[],
  now: number,
): void {
  for (const [tier, policies] of setsOf(model))
    for (const dimension of dimensionsOf(policies)) {
      const view = views.find((each) => each.dimension === dimension && each.tier === tier && !each.within);
      const tiers = denied.tiersIn(placeOf({ name, dimension, key } as JudgedKey));
      tiers.count++;
      if (!decisionOf(model, dimension, key, tier, now, view).allowed) tiers.denying.add(tier);
      else if (isCharged(model, dimension, key, policies, now)) tiers.admitting.add(tier);
    }
}

/** Whether tenants share slots of a limiter. */
const isOfSlots = ({ model: { def } }: Both): boolean =>
  [def.policies, ...Object.values(def.tiers)]
    .flat()
    .some(({ share, algorithm }) => share && algorithm === 'concurrency');

/** The counts that tenants share within a key. */
const sharedCounts = ({ counts }: LimiterModel, share: string, within: string): SharedCount[] =>
  [...counts.entries.values()].flatMap(({ base, by, key, count }) =>
    base.share === share && `${by} ${key}` === within && count instanceof SharedCount ? [count] : [],
  );

/** Whether a tenant asked for units of a shared limit lately. Tenants of slots have no state of their own. */
const isDemanding = (model: LimiterModel, { key, dimension, within }: KeyView, now: number): boolean =>
  sharedCounts(model, dimension, within!).some(({ demand }) => (demand.get(key) ?? 0) > now);

/** Whether the policies deny a tenant, whose view was compared with the limiter's own answer. A ban is not in the list. */
const isDeniedByPolicies = ({ allowed, reason, policies }: KeyView): boolean =>
  allowed === false && (reason !== 'banned' || policies.some((each) => !each.allowed && !each.shadow));

/** The views of a tenant are the limiter's own answers to it. The trace has compared those with the model. */
async function tenants(
  { model, real }: Both,
  tenant: string,
  views: readonly KeyView[],
  { now, slack }: { readonly now: number; readonly slack: number },
): Promise<string | undefined> {
  for (const [tier, policies] of setsOf(model))
    for (const { by, share } of policies.filter((policy) => policy.share !== undefined)) {
      const limitKeys = [...model.counts.entries.values()].filter(
        (entry) => entry.by === by && entry.base.share === share,
      );
      for (const { key, base } of limitKeys) {
        const within = `${by} ${key}`;
        const view = views.find(
          (each) => each.dimension === share && each.tier === tier && each.within === within,
        );
        const options = { ...(tier === undefined ? {} : { tier }) };
        const peeked = await real.peek({ [by]: key, [share!]: tenant }, options);
        const where = `tenant within ${by} ${key}, tier ${tier ?? '-'}`;
        if (!view) {
          // A denied tenant is found. One whose charges were returned, or whose time has passed, has no state.
          const asked = { key: tenant, dimension: share!, within } as KeyView;
          if (peeked.reason === 'fair-share' && isDemanding(model, asked, now))
            return `${where}: no view, although it is denied`;
          continue;
        }
        if (view.bannedForMs > 0) continue;
        const { allowed, reason, retryAfterMs, policies: verdicts } = peeked;
        const { share: of } = view.policies.find(({ name }) => name === base.name) ?? {};
        const got = { ...answerOf(view), share: of };
        const expected = {
          ...{ allowed, reason, retryAfterMs },
          policies: verdicts.map(({ share: _, ...verdict }) => verdict),
          share: verdicts.find(({ name }) => name === base.name)?.share,
        };
        const difference = compareNear(got, expected, slack);
        if (difference) return `${where}: ${difference}`;
      }
    }
  return undefined;
}

function bansDiffer(
  bans: readonly BannedKey[],
  limiters: readonly Both[],
  now: number,
  slack: number,
): string | undefined {
  const got = Object.fromEntries(
    bans.map(({ name, dimension = DEFAULT, key, bannedForMs }) => [
      `${str(name)} ${dimension} ${str(key)}`,
      bannedForMs,
    ]),
  );
  const expected = Object.fromEntries(
    limiters.flatMap(({ name, model }) =>
      KEYS.flatMap((key): [string, number][] => {
        const rest = model.def.ban ? model.bans!.rest(key, now) : 0;
        return rest > 0 ? [[`${name} ${model.def.ban!.by} ${key}`, rest]] : [];
      }),
    ),
  );
  const difference = compareNear(got, expected, slack);
  return difference && `bans: ${difference}`;
}

/** Like `compare`, but times of the view may differ by its slack. */
function compareNear(got: unknown, expected: unknown, slack: number): string | undefined {
  return compare(slack === 0 ? got : moved(got, expected, slack), expected);
}

/** The answer with its times moved to the expected ones where they are near. */
function moved(got: unknown, expected: unknown, slack: number, isTime = false): unknown {
  if (typeof got === 'number' && typeof expected === 'number')
    return isTime && Math.abs(expected - got) <= slack ? expected : got;
  if (typeof got !== 'object' || got === null || typeof expected !== 'object' || expected === null)
    return got;
  const of = expected as Record<string, unknown>;
  const entries = Object.entries(got).map(([name, value]) => [
    name,
    moved(value, of[name], slack, isTime || name.endsWith('Ms') || name.includes(' ')),
  ]);
  return Array.isArray(got) ? entries.map(([, value]) => value) : Object.fromEntries(entries);
}

const str = (text: unknown): string => (typeof text === 'string' ? text : JSON.stringify(text));
