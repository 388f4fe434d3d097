import { HeadgateError, withoutPage } from '../common/errors.js';
import { checkInteger } from '../common/validate.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { visiblePolicies } from '../contract/shares.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { checkKeyOptions, checkName, warnings, type Context, type NameFilter } from './context.js';
import { outlook, type KeyView } from './key-view.js';
import { limitsOf, ofTier, type GivenLimits, type Limits } from './limits.js';
import type { Published } from './published.js';
import { differing, doubtsOf, subjectIn } from './scope.js';
import { soleKey, typedKey, wrongArgument, type KeyOptions } from './typed-keys.js';

/** Options of `key`. */
export interface KeyViewOptions extends KeyOptions, GivenLimits, NameFilter {
  /** The tier of the request. @default the policies for requests without a tier; without a name every tier */
  tier?: string | undefined;
  /** The units of the request, 0 to 1e12. @default 1 */
  cost?: number | undefined;
}

/** A question about a key: a limiter, a dimension and a tier. */
interface Place {
  readonly name: string;
  readonly dimension: string;
  readonly tier: string | undefined;
  /** Undefined if the limits are unknown. */
  readonly limits: Limits | undefined;
}

/** The function that shows the answers to a key. */
export function keyFunctions({ state }: Context) {
  async function key(given: string, options: KeyViewOptions = {}): Promise<KeyView[]> {
    checkKeyOptions('key', options, 'policies', 'tiers', 'shadow', 'tier', 'cost');
    const { name, tier } = options;
    const cost = options.cost === undefined ? 1 : checkInteger('cost', options.cost, 0, 1e12);
    if (name !== undefined) checkName(name);
    const typed = typedKey(given, options);
    const passed = limitsOf(options);
    const published = await state.published();

    const viewOf = async ({ name: scope, dimension, tier: of, limits }: Place): Promise<KeyView> => {
      const own = { ...typed, dimension, ...(dimension !== typed.dimension && { entry: given }) };
      const [subject, doubt] = subjectIn(published, scope, own);
      const whose = { name: scope, key: soleKey(subject), dimension };
      const view = await outlook(state, published, { ...whose, limits, cost });
      const doubts = warnings(...doubtsOf(published, scope), differing(published, scope), doubt);
      return {
        ...whose,
        given,
        ...(of !== undefined && { tier: of }),
        ...view,
        warnings: [...doubts, ...view.warnings],
      };
    };

    if (name !== undefined) {
      const known = passed ?? published.limitsOf(name);
      if (!known && published.scopes.has(name)) throw wrongArgument(DYNAMIC);
      const limits = known && ofTier(known, name, tier);
      return [await viewOf({ name, dimension: typed.dimension, tier, limits })];
    }
    soleKeyOf(given, options);
    const views: KeyView[] = [];
    const places = placesIn(published);
    if (options.dimension !== undefined) checkKnown(places, options.dimension);
    for (const place of places) {
      if (options.dimension !== undefined && place.dimension !== options.dimension) continue;
      if (tier !== undefined && place.tier !== undefined && place.tier !== tier) continue;
      views.push(
        await viewOf(place).catch((error: unknown) => {
          // One limiter of another kind, such as one with slotBy, does not hide the answers of the others.
          if (!(error instanceof HeadgateError) || error.code !== 'HEADGATE_INVALID_ARGUMENT') throw error;
          return unanswered(place, given, cost, error);
        }),
      );
    }
    return views;
  }

  return { key };
}

/** Refuses a network of several keys, for which no limiter has a single answer. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` */
function soleKeyOf(given: string, options: KeyOptions): void {
  const { entry } = typedKey(given, options);
  const isNetwork = typeof entry !== 'string' && entry.prefix < (entry.address.kind() === 'ipv4' ? 32 : 48);
  if (isNetwork) throw wrongArgument(`key: ${given} is a network. Pass an address, or \`raw: true\`.`);
}

/** @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` if no limiter counts by a dimension */
function checkKnown(places: readonly Place[], dimension: string): void {
  const known = new Set(places.map((place) => place.dimension));
  if (known.size > 0 && !known.has(dimension))
    throw wrongArgument(
      `dimension: no limiter counts by '${dimension}'. Pass one of: ${[...known].sort().join(', ')}.`,
    );
}

/** All places of the published limiters that count a key or ban it. */
function placesIn(published: Published): Place[] {
  return [...published.scopes].flatMap(([name, configurations]) => {
    const limits = published.limitsOf(name);
    const sets = limits
      ? [[undefined, limits.policies] as const, ...limits.tiers].filter(([, policies]) => policies.length > 0)
      : [];
    const judged = sets.flatMap(([tier, policies]) =>
      [...new Set(visiblePolicies(compilePolicies('policies', policies)).map(({ by }) => by))].map(
        (dimension): Place => {
          return { name, dimension, tier, limits: { ...limits!, policies } };
        },
      ),
    );
    // Limiters also ban by dimensions without policies, and those with policies of the request ban by any.
    const banning = configurations.flatMap(({ ban, banBy = DEFAULT_DIMENSION }) => (ban ? [banBy] : []));
    const others = new Set(judged.length === 0 ? [DEFAULT_DIMENSION, ...banning] : banning);
    const unjudged = [...others].filter((each) => !judged.some(({ dimension }) => dimension === each));
    return [
      ...judged,
      ...unjudged.map((dimension) => ({ name, dimension, tier: undefined, limits: undefined })),
    ];
  });
}

const DYNAMIC =
  "policies: missing, because the policies of this limiter depend on the request. Pass `policies: '100/1m'`.";

function unanswered({ name, dimension, tier }: Place, given: string, cost: number, error: Error): KeyView {
  return {
    ...{ name, key: given, given, dimension, ...(tier !== undefined && { tier }), cost },
    ...{ allowed: null, reason: null, retryAfterMs: null, policies: [] },
    ...{ bannedForMs: 0, bannedBy: null, banReason: null, override: null },
    ...{ stored: false, known: true },
    warnings: [{ code: 'UNANSWERED', message: withoutPage(error.message) }],
  };
}
