// The views of operators after a trace, compared with the model: denials by policy, times, units left, bans, overrides and tenants.
import type { Admin, BannedKey, JudgedKey, KeyView } from 'headgate/admin';
import { all } from '../admin/stores.js';
import type { Both } from './actions.js';
import { compare } from './compare.js';
import { WEIGHTS } from './draw.js';
import { decide, wholeOf } from './model/decide.js';
import type { LimiterModel } from './model/limiter.js';
import { isBucket } from './model/overrides.js';
import { SharedCount } from './model/shares.js';
import { ANY, type Algorithm, type Decision, type Policy } from './model/types.js';
import { isDeniedSince, likelySets, rowDiffers, type Judged, type Use } from './tiers.js';

/** The answers of one view: of the administration, the command line, or the page. */
export interface View {
  readonly name: string;
  /** The most by which the view's clock may differ from the trace's, ms. */
  readonly slack: number;
  /** Whether its lists leave out denials in tiers that the key does not have, judging by its use. */
  readonly isOfLikely: boolean;
  /** The changes of limits after which its keys may have a tier that they seem to exceed, if there are any. */
  readonly changes?: 'of keys' | 'of all keys' | undefined;
  key(key: string, dimension?: string): Promise<readonly KeyView[]>;
  limited(): Promise<readonly JudgedKey[]>;
  bans(): Promise<readonly BannedKey[]>;
}

/** The functions of the administration. */
export const adminView = (admin: Admin): View => ({
  name: 'admin',
  slack: 0,
  isOfLikely: false,
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
  const judged = new Map<string, Place>();
  for (const key of KEYS) {
    const views = await view.key(key);
    const asTenant = limiters.some(isOfSlots) ? await view.key(key, 'tenant') : [];
    for (const both of limiters) {
      const own = views.filter(({ name }) => name === both.name);
      const difference =
        (await usageDiffers(both, key, now, view.slack)) ??
        differenceOfKey(both, key, own, now, view.slack) ??
        likelyDiffers(both, key, own, { now, changes: view.changes }) ??
        (await tenants(both, key, [...own, ...asTenant.filter(({ name }) => name === both.name)], {
          now,
          slack: view.slack,
        }));
      if (difference) return `${view.name}, key ${key} of ${both.name}: ${difference}`;
      addPlaces(judged, both, key, own, now);
      addTenants(judged, both, own, now);
    }
  }
  const difference =
    listDiffers(await view.limited(), judged, view) ??
    bansDiffer(await view.bans(), limiters, now, view.slack);
  return difference && `${view.name}: ${difference}`;
}

/** A key in a dimension of a limiter, and the tiers in which it is judged. */
interface Place {
  readonly tiers: readonly Judged[];
  readonly lately: (policy: string) => boolean;
  /** Whether it may be missing in lists, because it has no state. */
  readonly isOpen?: boolean;
}

/** Each denied key is listed once, with a tier that denies it, and what is certain about it. */
function listDiffers(
  rows: readonly JudgedKey[],
  judged: ReadonlyMap<string, Place>,
  { isOfLikely }: View,
): string | undefined {
  // Requests without a tenant are a tenant, too, for which nobody can ask by its key.
  const limited = rows.filter(({ key }) => key !== '');
  for (const place of new Set([...judged.keys(), ...limited.map(placeOf)])) {
    const found = limited.filter((row) => placeOf(row) === place);
    if (found.length > 1) return `limited: ${place} is listed twice`;
    const { tiers, lately, isOpen } = judged.get(place) ?? { tiers: [], lately: () => false };
    if (found.length === 0 && isOpen) continue;
    const difference = rowDiffers(found[0], tiers, { isOfLikely, lately });
    if (difference) return `limited: ${place} ${difference}`;
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
    }
  return undefined;
}

/** A tier is likely by the use of the key, and on the page after a change of its limits, too. */
function likelyDiffers(
  { model }: Both,
  key: string,
  views: readonly KeyView[],
  { now, changes }: Pick<View, 'changes'> & { readonly now: number },
): string | undefined {
  for (const by of new Set(setsOf(model).flatMap(([, policies]) => dimensionsOf(policies)))) {
    const own = views.filter(({ dimension, within }) => dimension === by && !within);
    const tiers = tiersOf(model, by, key, views, now);
    const changedAt = model.limitsChangedAt(changes === 'of keys' ? [by, key] : undefined, now);
    const isOpen = (view: KeyView) => changes !== undefined && isDeniedSince(view, now - changedAt);
    const sets = likelySets(tiers, (policy) => model.hasDenied(by, key, policy));
    const differing = sets.map((likely) =>
      own.find((view) => view.likely !== (isOpen(view) || likely.some(({ tier }) => tier === view.tier))),
    );
    const [view] = differing;
    if (view && !differing.includes(undefined)) return `${by} ${view.tier ?? '-'}: likely is ${view.likely}`;
  }
  return undefined;
}

const orZero = (value: unknown): number => (typeof value === 'number' ? value : 0);

/** The tiers that count by a dimension, with the use of a key. */
function tiersOf(
  model: LimiterModel,
  by: string,
  key: string,
  views: readonly KeyView[],
  now: number,
): Judged[] {
  return setsOf(model)
    .filter(([, policies]) => dimensionsOf(policies).includes(by))
    .map(([tier]) => {
      const view = views.find((each) => each.dimension === by && each.tier === tier && !each.within);
      const { allowed, policies } = decisionOf(model, by, key, tier, now, view);
      const uses = model.inForce({ [by]: key }, tier, now).map((part, i): Use => {
        const { limit, algorithm } = part.policy;
        const { name, remaining } = policies[i]!;
        const used = wholeOf(part.policy) - remaining;
        const isSpent = remaining < 1 && !model.def.shadow;
        return { count: model.counts.of(model.def.name, part).id, name, isSpent, used, limit, algorithm };
      });
      return { tier, uses, isDenied: !allowed };
    });
}

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

/** Adds a key in all its dimensions, as the model judges it. */
function addPlaces(
  judged: Map<string, Place>,
  { name, model }: Both,
  key: string,
  views: readonly KeyView[],
  now: number,
): void {
  for (const dimension of new Set(setsOf(model).flatMap(([, policies]) => dimensionsOf(policies)))) {
    const tiers = tiersOf(model, dimension, key, views, now);
    const lately = (policy: string) => model.hasDenied(dimension, key, policy);
    judged.set(placeOf({ name, dimension, key } as JudgedKey), { tiers, lately });
  }
}

/** Adds tenants by their views, which were compared with the limiter's own answers. A ban is not in the list. */
function addTenants(
  judged: Map<string, Place>,
  { model }: Both,
  views: readonly KeyView[],
  now: number,
): void {
  const hasState = (view: KeyView): boolean =>
    view.policies.some(({ used }) => used !== undefined) || isDemanding(model, view, now);
  const tenants = views.filter(({ within }) => within !== undefined);
  for (const view of tenants) {
    const place = placeOf(view as never);
    // Lists judge a tenant by the tiers in which it has state. Where it has none, others may have used up what would be its share.
    const isOfState = tenants.some((each) => placeOf(each as never) === place && hasState(each));
    if (isOfState && !hasState(view)) continue;
    const { tiers, isOpen = true } = judged.get(place) ?? { tiers: [] };
    const uses = view.policies.map(
      ({ name, algorithm, windowMs, limit, burst, remaining, share, shadow, used }): Use => {
        const isRate = isBucket({ algorithm: algorithm as Algorithm });
        const count = [name, windowMs, ...(isRate ? [limit, burst] : [])].join(' ');
        return {
          ...{ count, name, isSpent: remaining < 1 && !shadow, limit, algorithm: algorithm as Algorithm },
          used: used ?? Math.max(0, (share ?? burst ?? limit) - remaining),
        };
      },
    );
    const tier = { tier: view.tier, uses, isDenied: isDeniedByPolicies(view) };
    const mayMiss = isOpen && !(tier.isDenied && isDemanding(model, view, now));
    judged.set(place, { tiers: [...tiers, tier], lately: () => true, isOpen: mayMiss });
  }
}

/** Whether tenants share slots of a limiter. */
const isOfSlots = ({ model: { def } }: Both): boolean =>
  [def.policies, ...Object.values(def.tiers)]
    .flat()
    .some(({ share, algorithm }) => share && algorithm === 'concurrency');

/** The counts that tenants of a tier share within a key. */
const sharedCounts = ({ counts }: LimiterModel, { dimension, within, policies }: KeyView): SharedCount[] =>
  [...counts.entries.values()].flatMap(({ base, by, key, count }) =>
    base.share === dimension &&
    `${by} ${key}` === within &&
    policies.some(({ name, windowMs }) => name === base.name && windowMs === base.window) &&
    count instanceof SharedCount
      ? [count]
      : [],
  );

/** Whether a tenant asked for units of a shared limit lately. Tenants of slots have no state of their own. */
const isDemanding = (model: LimiterModel, view: KeyView, now: number): boolean =>
  sharedCounts(model, view).some(({ demand }) => (demand.get(view.key) ?? 0) > now);

/** Whether the policies deny a tenant, whose view was compared with the limiter's own answer. A ban is not in the list. */
const isDeniedByPolicies = ({ allowed, reason, policies }: KeyView): boolean =>
  allowed === false && (reason !== 'banned' || policies.some((each) => !each.allowed && !each.shadow));

type Peeked = Awaited<ReturnType<Both['real']['peek']>>;

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
        const place = { [by]: key, [share!]: tenant };
        const peeked = await real.peek(place, options);
        const where = `tenant within ${by} ${key}, tier ${tier ?? '-'}`;
        if (!view) {
          // A denied tenant is found. One whose charges were returned, or whose time has passed, has no state.
          const policies = [{ name: base.name, windowMs: base.window }];
          const asked = { key: tenant, dimension: share!, within, policies } as unknown as KeyView;
          if (peeked.reason === 'fair-share' && isDemanding(model, asked, now))
            return `${where}: no view, although it is denied`;
          continue;
        }
        if (view.bannedForMs > 0) continue;
        const { share: of } = view.policies.find(({ name }) => name === base.name) ?? {};
        const got = { ...answerOf(view), share: of };
        const differs = ({ allowed, reason, retryAfterMs, policies: verdicts }: Peeked) => {
          const expected = {
            ...{ allowed, reason, retryAfterMs },
            policies: verdicts.map(({ share: _, ...verdict }) => verdict),
            share: verdicts.find(({ name }) => name === base.name)?.share,
          };
          return compareNear(got, expected, slack);
        };
        let difference = differs(peeked);
        // A view has the weight that the tenant brought.
        for (const weight of WEIGHTS)
          if (difference && !differs(await real.peek(place, { ...options, weight }))) difference = undefined;
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
