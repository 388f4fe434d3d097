import { invalidOption } from '../common/errors.js';
import { checkChoice, checkInteger, checkShape } from '../common/validate.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { entryInForce } from '../contract/overrides.js';
import { overrideOf, type OverrideChange } from '../limiter/overrides/override.js';
import { ALL_KEYS, escapeName } from '../stores/keys.js';
import type { Finding, LiveLimiter } from '../stores/redis/operators/check.js';
import { checkKeyOptions, checkName, warnings, type Context, type NameFilter } from './context.js';
import { Finder, type Wanted } from './finder.js';
import type { Find, JudgedKey } from './finds.js';
import { outlook, type KeyView } from './key-view.js';
import { limitsOf, ofTier, type GivenLimits, type Limits } from './limits.js';
import type { Configuration, Instance, Published } from './published.js';
import { differing, doubtsOf, subjectIn, type AdminWarning } from './scope.js';
import type { Search, State } from './state.js';
import { soleKey, typedKey, wrongArgument, type KeyOptions } from './typed-keys.js';

/** The limiters of one name. */
export interface LimiterView {
  /** The name of the limiter. */
  readonly name: string;
  /** The configurations. The most common one comes first. If there are several, processes differ. */
  readonly configurations: readonly Configuration[];
  /** For limiters with overrides: the number of keys with their own limits, and the override of all keys. */
  readonly overridden?: { readonly keys: number; readonly all: OverrideChange | null };
}

/** The result of `limiters`. */
export interface LimitersView {
  /** The stores of processes that publish their limiters. */
  readonly instances: readonly Instance[];
  /** The limiters, by name. */
  readonly limiters: readonly LimiterView[];
  /** `UNKNOWN_SCOPE`, `DIFFERENT` and `UNREADABLE`. */
  readonly warnings: readonly AdminWarning[];
}

/** Options of `key`. */
export interface KeyViewOptions extends KeyOptions, GivenLimits, NameFilter {
  /** The tier of the request. @default the policies for requests without a tier; without a name every tier */
  tier?: string | undefined;
  /** The units of the request, 0 to 1e12. @default 1 */
  cost?: number | undefined;
}

/** Options of `keys`. */
export interface KeysOptions extends GivenLimits, NameFilter, Pick<Search, 'count' | 'progress' | 'signal'> {
  /** The limits of several limiters, by name, in place of `policies`. @default the published limits */
  limits?: Readonly<Record<string, GivenLimits>> | undefined;
  /** The tier of all keys. @default the policies for requests without a tier */
  tier?: string | undefined;
  /** The kinds of facts. @default banned and limited keys, and the state of limiters with unknown limits */
  kinds?: readonly Find['kind'][] | undefined;
  /** Whether to search all keys for bans, even if there is a complete index. @default false */
  scan?: boolean | undefined;
}

/** Options of `limited`. */
export type LimitedOptions = Omit<KeysOptions, 'kinds' | 'scan'>;

/** Keys of a search, with facts about the search. */
export interface KeySearch extends AsyncIterable<Find> {
  /** The kinds of facts that the search finds. */
  readonly wanted: Pick<Wanted, 'banned' | 'limited' | 'admitted' | 'states'> & {
    readonly hasLimits: boolean;
  };
  /** The number of keys with state that were checked so far. */
  readonly checked: number;
  /** Whether only the index of bans was read. */
  readonly isOfIndex: boolean;
  /** `UNKNOWN_SCOPE` and `UNREADABLE`. */
  readonly warnings: readonly AdminWarning[];
}

/** The functions that show state. */
export function viewFunctions({ state }: Context) {
  async function limiters(options: NameFilter = {}): Promise<LimitersView> {
    checkShape('limiters', options, ['name']);
    const { name } = options;
    const published = await state.published();
    const wanted = [...published.scopes].filter(([scope]) => name === undefined || scope === name);
    return {
      instances: published.instances,
      limiters: await withOverrides(state, wanted),
      warnings: warnings(
        ...doubtsOf(published, name),
        name === undefined ? undefined : differing(published, name),
      ),
    };
  }

  async function key(given: string, options: KeyViewOptions = {}): Promise<KeyView[]> {
    checkKeyOptions('key', options, 'policies', 'tiers', 'shadow', 'tier', 'cost');
    const { name, tier } = options;
    const cost = options.cost === undefined ? 1 : checkInteger('cost', options.cost, 0, 1e12);
    if (name !== undefined) checkName(name);
    const typed = typedKey(given, options);
    const passed = limitsOf(options);
    const published = await state.published();
    const one = async (
      scope: string,
      limits: Limits | undefined,
      dimension: string,
      ofTiers?: string,
    ): Promise<KeyView> => {
      const own = { ...typed, dimension, ...(dimension !== typed.dimension && { entry: given }) };
      const [subject, doubt] = subjectIn(published, scope, own);
      const view = await outlook(state, published, {
        name: scope,
        key: soleKey(subject),
        dimension,
        limits,
        cost,
      });
      return {
        ...{ name: scope, key: soleKey(subject), given, dimension },
        ...(ofTiers !== undefined && { tier: ofTiers }),
        ...view,
        warnings: [
          ...warnings(...doubtsOf(published, scope), differing(published, scope), doubt),
          ...view.warnings,
        ],
      };
    };
    if (name !== undefined) {
      const known = passed ?? published.limitsOf(name);
      if (!known && published.scopes.has(name)) throw wrongArgument(DYNAMIC);
      return [await one(name, known && ofTier(known, name, tier), typed.dimension, tier)];
    }
    const views: KeyView[] = [];
    for (const [scope, limits] of published.limits()) {
      const sets = [['', limits.policies] as const, ...limits.tiers].filter(
        ([, policies]) => policies.length > 0,
      );
      for (const [ofTiers, policies] of sets) {
        if (tier !== undefined && ofTiers !== '' && tier !== ofTiers) continue;
        for (const dimension of new Set(compilePolicies('policies', policies).map(({ by }) => by))) {
          if (options.dimension !== undefined && dimension !== options.dimension) continue;
          views.push(await one(scope, { ...limits, policies }, dimension, ofTiers || undefined));
        }
      }
    }
    return views;
  }

  function keys(options: KeysOptions = {}): Promise<KeySearch> {
    checkShape('keys', options, KEYS_OPTIONS);
    return searchFor(state, options, options.kinds);
  }

  async function* limited(options: LimitedOptions = {}): AsyncGenerator<JudgedKey> {
    checkShape('limited', options, KEYS_OPTIONS);
    for await (const find of await searchFor(state, options, ['limited']))
      if (find.kind === 'limited') yield find;
  }

  async function check(): Promise<readonly Finding[]> {
    const published = await state.published().catch(() => undefined);
    return state.check(liveLimiters(published));
  }

  return { limiters, key, keys, limited, check };
}

const KEYS_OPTIONS = [
  ...[
    'name',
    'policies',
    'tiers',
    'shadow',
    'limits',
    'tier',
    'kinds',
    'scan',
    'count',
    'progress',
    'signal',
  ],
];

const DYNAMIC =
  "policies: missing, because the policies of this limiter depend on the request. Pass `policies: '100/1m'`.";

/** Adds the overrides of each limiter. The index contains every overridden key. */
async function withOverrides(
  state: State,
  scopes: readonly (readonly [name: string, configurations: readonly Configuration[]])[],
): Promise<LimiterView[]> {
  const isLive = (configurations: readonly Configuration[]): boolean =>
    configurations.some(({ overrides }) => overrides);
  const owners = scopes.some(([, configurations]) => isLive(configurations)) ? await state.overridden() : [];
  const now = Date.now();
  return Promise.all(
    scopes.map(async ([name, configurations]): Promise<LimiterView> => {
      if (!isLive(configurations)) return { name, configurations };
      const head = `${escapeName(name)}:`;
      const keys = owners.filter((owner) => owner.startsWith(head) && owner !== head + ALL_KEYS).length;
      const entry = entryInForce(await state.recordOfAll(name), now);
      const all = (entry && overrideOf(entry)?.change) ?? null;
      return { name, configurations, overridden: { keys, all } };
    }),
  );
}

/** The published limiters that support overrides. */
function liveLimiters(published: Published | undefined): LiveLimiter[] {
  return [...(published?.limits() ?? [])].flatMap(([name, { policies, tiers, overrides }]) => {
    if (!overrides) return [];
    const sets = [['', policies] as const, ...tiers].filter(([, some]) => some.length > 0);
    return [{ name, sets: new Map(sets.map(([tier, some]) => [tier, compilePolicies(tier, some)])) }];
  });
}

const KINDS: readonly Find['kind'][] = ['banned', 'limited', 'admitted', 'state', 'unreadable'];

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function checkKinds(kinds: readonly string[]): void {
  if (!Array.isArray(kinds))
    throw invalidOption('kinds', kinds, "Pass an array, such as ['banned', 'limited'].");
  for (const kind of kinds) checkChoice('kinds', kind, KINDS);
}

async function searchFor(
  state: State,
  { name, tier, scan = false, limits: several, count, progress, signal, ...given }: KeysOptions,
  kinds: KeysOptions['kinds'],
): Promise<KeySearch> {
  if (name !== undefined) checkName(name);
  if (kinds !== undefined) checkKinds(kinds);
  const own = limitsOf(given);
  if (own && name === undefined)
    throw wrongArgument('name: missing. Pass the name of the limiter with these `policies`.');
  const named = several
    ? Object.entries(several).flatMap(([scope, each]) => {
        const limits = limitsOf(each);
        return limits ? [[scope, limits] as const] : [];
      })
    : undefined;
  const published = await state.published();
  const passed = own ? new Map([[name!, own]]) : named && new Map(named);
  const limits = byTier(passed ?? published.limits(name), name, tier);
  const has = (kind: Find['kind']): boolean => kinds?.includes(kind) ?? false;
  if (has('limited') && !has('state') && limits.size === 0)
    throw wrongArgument(
      `policies: missing. ${whyUnknown(published, name)} Pass \`name: 'api'\` and \`policies: '100/1m'\`.`,
    );
  const unknownOnly = limits.size === 0 || (passed === undefined && 'of unknown scopes');
  const wanted: Wanted = {
    ...{ name, limits, scan },
    banned: kinds ? has('banned') : true,
    limited: kinds ? has('limited') : limits.size > 0,
    admitted: has('admitted'),
    states: kinds ? has('state') : unknownOnly,
  };
  const finder = new Finder(state, wanted);
  return {
    wanted: { ...wanted, hasLimits: limits.size > 0 },
    warnings: doubtsOf(published, name),
    get checked() {
      return finder.looked;
    },
    get isOfIndex() {
      return finder.isOfIndex;
    },
    [Symbol.asyncIterator]: () =>
      finder.finds({ ...(count !== undefined && { count }), ...(progress && { progress }), signal }),
  };
}

/** Selects limits by tier. A key's tier is unknown, so scopes whose requests all have a tier are omitted without a tier. */
function byTier(
  limits: ReadonlyMap<string, Limits>,
  name: string | undefined,
  tier: string | undefined,
): ReadonlyMap<string, Limits> {
  if (tier !== undefined && name === undefined)
    throw wrongArgument('name: missing. Pass the name of the limiter with this `tier`.');
  const known = [...limits].filter(([, { policies }]) => tier !== undefined || policies.length > 0);
  return new Map(known.map(([scope, each]) => [scope, ofTier(each, scope, tier)]));
}

function whyUnknown({ scopes }: Published, name: string | undefined): string {
  if (name === undefined || scopes.size === 0) return 'No limiter has published its limits.';
  const limiter = `limiter called ${JSON.stringify(name)}`;
  const tiers = Object.keys(scopes.get(name)?.[0]?.tiers ?? {});
  if (tiers.length > 0)
    return `The ${limiter} has the tiers ${tiers.map((tier) => JSON.stringify(tier)).join(', ')}: pass \`tier\`.`;
  return scopes.has(name)
    ? `The limits of the ${limiter} depend on the request.`
    : `No ${limiter} has published its limits.`;
}
