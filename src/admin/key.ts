import { HeadgateError, withoutPage } from '../common/errors.js';
import { checkInteger } from '../common/validate.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { visiblePolicies } from '../features/shares/contract/shares.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { checkKeyOptions, checkName, type Context, type NameFilter } from './context.js';
import { DeniedNow, withDeniedLately } from './denied-now.js';
import { absentFields } from './key-parts.js';
import type { ReadState } from './finds.js';
import { outlook, type KeyView, type Place } from './key-view.js';
import { likelyTiers } from './likely-tiers.js';
import { LIMIT_FIELDS, limitsOf, ofTier, type GivenLimits, type Limits, setsOf } from './limits.js';
import { dimensionsOfBans, isCountedIn, type Published } from './published.js';
import { withSlotUse } from './queues.js';
import { countedOwner, isCharge, whoseOf } from './owners.js';
import type { Search, State } from './state.js';
import { asWhole, limitKeysOf, sharedLimits } from './shared-limits.js';
import { differing, doubtsOf, subjectIn, warnings, type AdminWarning } from './scope.js';
import { soleKey, subjectOf, typedKey, wrongArgument, type KeyOptions, type TypedKey } from './typed-keys.js';

/** Options of `key`. */
export interface KeyViewOptions extends KeyOptions, GivenLimits, NameFilter {
  /** The tier of the request. @default every tier, and the policies for requests without a tier */
  tier?: string | undefined;
  /** The units of the request, 0 to 1e12. @default 1 */
  cost?: number | undefined;
  /** Ends the search for the shared limits of a tenant after its current step. The views then have a warning, because some may be missing. */
  signal?: AbortSignal | undefined;
}

/** A view, the states that the policies read, and whether the tier has the weight that the tenant brought. */
interface Judged {
  readonly view: KeyView;
  readonly states: readonly ReadState[];
  readonly isOfWeight: boolean;
}

export async function key(
  { state }: Context,
  given: string,
  options: KeyViewOptions = {},
): Promise<KeyView[]> {
  checkKeyOptions('key', options, ...LIMIT_FIELDS, 'tier', 'cost', 'signal');
  const { name, tier, signal } = options;
  const cost = options.cost === undefined ? 1 : checkInteger('cost', options.cost, 0, 1e12);
  if (name !== undefined) checkName(name);
  const typed = typedKey(given, options);
  const passed = limitsOf(options);
  const published = await state.published();
  const asTenant: AsTenant = { tenant: given, dimension: options.dimension, tier, signal, cut: new Set() };

  const viewOf = async (place: Place): Promise<Judged> => {
    const { name: scope, dimension, tier: of, within } = place;
    const limits = within ? place.limits : place.limits && asWhole(place.limits);
    const [subject, doubt] = within ? [] : subjectIn(published, scope, { ...typed, dimension });
    const whose = { name: scope, key: subject ? soleKey(subject) : given, dimension };
    const asked = { key: whose.key, cost };
    const { states, isOfWeight, ...view } = await outlook(state, published, { ...place, limits }, asked);
    const cut = asTenant.cut.has(scope) ? CUT : undefined;
    const doubts = warnings(...doubtsOf(published, scope), differing(published, scope), doubt, cut);
    const judged: KeyView = {
      ...whose,
      given,
      ...(within && { within: `${within.by} ${within.key}` }),
      ...(of !== undefined && { tier: of }),
      likely: true,
      ...view,
      stored: view.stored || place.stored === true,
      warnings: [...doubts, ...view.warnings],
    };
    return { view: judged, states, isOfWeight };
  };
  /** One limiter of another kind, such as one with slotBy, does not hide the answers of the others. */
  const orUnanswered = (place: Place): Promise<Judged> =>
    viewOf(place).catch((error: unknown) => {
      if (!(error instanceof HeadgateError) || error.code !== 'HEADGATE_INVALID_ARGUMENT') throw error;
      return { view: unanswered(place, given, cost, error), states: [], isOfWeight: true };
    });

  const judged: Judged[] = [];
  if (name === undefined) {
    const { entry } = typed;
    // No limiter has a single answer for a network of several keys.
    if (typeof entry !== 'string' && entry.prefix < (entry.address.kind() === 'ipv4' ? 32 : 48))
      throw wrongArgument(`key: ${given} is a network. Pass an address, or \`raw: true\`.`);
    for (const place of await allPlaces(state, published, typed, asTenant))
      judged.push(await orUnanswered(place));
  } else {
    const known = passed ?? published.limitsOf(name);
    if (!known && published.scopes.has(name)) throw wrongArgument(DYNAMIC);
    const tenancies = known ? await tenanciesIn(state, name, known, asTenant) : [];
    const { dimension } = typed;
    const own: Place[] = setsOf(known && tier === undefined ? known : NO_LIMITS)
      .filter(([, policies]) => policies.some(({ by = DEFAULT_DIMENSION }) => by === dimension))
      .map(([of, policies]) => ({ name, dimension, tier: of, limits: { ...known!, policies } }));
    if (own.length + tenancies.length === 0) {
      const limits = known && ofTier(known, name, tier);
      const found =
        limits || published.scopes.has(name) ? [] : await statesOf(state, typed, { name, signal });
      const stored = found.some((each) => each.dimension === dimension);
      own.push({ name, dimension, tier, limits, stored });
    }
    judged.push(...(await Promise.all([...own, ...tenancies].map(viewOf))));
  }
  const isCounted = (scope: string): boolean => isCountedIn(published.scopes.get(scope) ?? []) ?? true;
  const denied = new DeniedNow(state);
  const views = await withDeniedLately(state, published, denied, await withLikely(state, denied, judged));
  return withSlotUse(state, views, isCounted);
}

const NO_LIMITS: Limits = { policies: [], tiers: new Map(), shadow: false };

/** The places of a key in all limiters. */
async function allPlaces(
  state: State,
  published: Published,
  typed: TypedKey,
  asTenant: AsTenant,
): Promise<Place[]> {
  const { dimension, tier, signal } = asTenant;
  const places = placesIn(published);
  for (const [scope, limits] of published.limits())
    places.push(...(await tenanciesIn(state, scope, limits, asTenant)));
  // Without published limiters, such as in a file of another process, only state names them.
  if (published.scopes.size === 0) places.push(...(await statesOf(state, typed, { signal })));
  else if (dimension !== undefined) checkKnown(published, places, dimension);
  return places.filter(
    (place) =>
      (dimension === undefined || place.dimension === dimension) &&
      (tier === undefined || place.tier === undefined || place.tier === tier),
  );
}

/** Marks the tiers that requests of the key may have: of those whose weight the tenant brought, or of all, those that `likelyTiers` finds. */
async function withLikely(state: State, denied: DeniedNow, all: readonly Judged[]): Promise<KeyView[]> {
  const placeOf = ({ view: { name, dimension, within } }: Judged): string =>
    JSON.stringify([name, dimension, within]);
  const places = new Map<string, Judged[]>();
  for (const each of all) if (!places.get(placeOf(each))?.push(each)) places.set(placeOf(each), [each]);
  const denialOf = async (tiers: readonly Judged[]) => {
    const { text } = state.counts ?? {};
    const [{ view }] = tiers as [Judged];
    const isOpen = text && tiers.length > 1 && tiers.some((each) => each.view.allowed === false);
    const whose = isOpen ? whoseOf(countedOwner(view, text), view.name) : undefined;
    return whose && denied.of(whose);
  };
  const likely = new Set<Judged>();
  for (const tiers of places.values()) {
    const some = tiers.filter((each) => each.isOfWeight);
    const judged = some.length > 0 ? some : tiers;
    const verdicts = judged.map(({ view, states }) => ({ policies: view.policies, states }));
    const fits = likelyTiers(verdicts, await denialOf(judged));
    for (const [i, each] of judged.entries()) if (fits[i]) likely.add(each);
  }
  return all.map((each) => ({ ...each.view, likely: likely.has(each) }));
}

/** A question about a key as a tenant. */
interface AsTenant extends Pick<KeyViewOptions, 'dimension' | 'tier' | 'signal'> {
  readonly tenant: string;
  /** Receives the limiters whose search ended early. */
  readonly cut: Set<string>;
}

const CUT: AdminWarning = {
  code: 'CUT',
  message: 'the search for shared limits ended early, so the key may be a tenant of more of them.',
};

/** The shared limits of which the key is a tenant. */
async function tenanciesIn(
  state: State,
  name: string,
  limits: Limits,
  { tenant, dimension, tier, signal, cut }: AsTenant,
): Promise<Place[]> {
  const sets = setsOf(limits).filter(([of]) => tier === undefined || of === undefined || of === tier);
  const shared = sets.flatMap(([, policies]) => sharedLimits(policies));
  // Any key may be a tenant of slots, which has no state of its own, so the caller must name the dimension.
  const wanted = shared.filter(({ share, ofSlots }) =>
    dimension === undefined ? !ofSlots : share === dimension,
  );
  if (wanted.length === 0) return [];
  const keys = await limitKeysOf(state, { name, tenant, signal }, wanted);
  if (signal?.aborted) cut.add(name);
  return keys.flatMap((within) =>
    sets.flatMap(([of, policies]): Place[] =>
      sharedLimits(policies).some((each) => each.by === within.by && each.share === within.share)
        ? [{ name, dimension: within.share, tier: of, limits: { ...limits, policies }, within }]
        : [],
    ),
  );
}

/** The limiters and dimensions with state of a key. Their limits are unknown. @param search the name, for one limiter */
async function statesOf(
  state: State,
  typed: TypedKey,
  search: Pick<Search, 'name' | 'signal'>,
): Promise<Place[]> {
  const found = new Map<string, Place>();
  const keys = [subjectOf(typed).keys[0]!, typed.given];
  for await (const page of state.search(search))
    for (const { owner, id } of page) {
      const { name, by, slot } = owner;
      if (typeof name !== 'string' || slot) continue;
      if (!keys.some((key) => owner.text === state.ownerOf(name, key, by).text)) continue;
      const place = `${by} ${name}`;
      const stored = isCharge(id) || found.get(place)?.stored === true;
      found.set(place, { name, dimension: by, limits: undefined, stored });
    }
  return [...found.values()];
}

/** @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` if no limiter counts by a dimension */
function checkKnown(published: Published, places: readonly Place[], dimension: string): void {
  const tenants = [...published.limits().values()].flatMap((limits) =>
    setsOf(limits).flatMap(([, policies]) => sharedLimits(policies).map(({ share }) => share)),
  );
  const known = new Set([...places.map((place) => place.dimension), ...tenants]);
  if (known.size > 0 && !known.has(dimension))
    throw wrongArgument(
      `dimension: no limiter counts by '${dimension}'. Pass one of: ${[...known].sort().join(', ')}.`,
    );
}

/** All places of the published limiters that count a key or ban it. */
function placesIn(published: Published): Place[] {
  return [...published.scopes].flatMap(([name, configurations]) => {
    const limits = published.limitsOf(name);
    const sets = limits ? setsOf(limits) : [];
    const judged = sets.flatMap(([tier, policies]) =>
      [...new Set(visiblePolicies(compilePolicies('policies', policies)).map(({ by }) => by))].map(
        (dimension): Place => {
          return { name, dimension, tier, limits: { ...limits!, policies } };
        },
      ),
    );
    // Limiters also ban by dimensions without policies, and those with policies of the request ban by any.
    const dimensions = dimensionsOfBans(configurations);
    const others = new Set(judged.length === 0 ? [DEFAULT_DIMENSION, ...dimensions] : dimensions);
    const unjudged = [...others].filter((each) => !judged.some(({ dimension }) => dimension === each));
    return [...judged, ...unjudged.map((dimension) => ({ name, dimension, limits: undefined }))];
  });
}

const DYNAMIC =
  "policies: missing, because the policies of this limiter depend on the request. Pass `policies: '100/1m'`.";

function unanswered({ name, dimension, tier }: Place, given: string, cost: number, error: Error): KeyView {
  return {
    ...{ name, key: given, given, dimension, ...(tier !== undefined && { tier }), likely: true, cost },
    ...{ allowed: null, reason: null, retryAfterMs: null, policies: [] },
    ...absentFields(),
    ...{ stored: false, known: true },
    warnings: [{ code: 'UNANSWERED', message: withoutPage(error.message) }],
  };
}
