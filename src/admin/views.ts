import { invalidOption } from '../common/errors.js';
import { checkChoice, checkShape } from '../common/validate.js';
import type { Finding } from '../stores/redis/operators/finding.js';
import { checkName, type Context, type NameFilter } from './context.js';
import { KeyFinder, type Wanted } from './finder.js';
import type { TierLimits } from './known-limiters.js';
import type { KeyVerdictFind, JudgedKey } from './finds.js';
import { LIMIT_FIELDS, limitsOf, ofTier, type GivenLimits, type Limits, setsOf } from './limits.js';
import { countOverrides, liveLimiters, type OverrideCounts } from './overrides/override-views.js';
import {
  isCountedIn,
  traitsOf,
  type Configuration,
  type Instance,
  type LimiterTraits,
  type Published,
} from './published.js';
import { differing, doubtsOf, type AdminWarning, warnings } from './scope.js';
import type { Search, State } from './state.js';
import { wrongArgument } from './typed-keys.js';

/** The limiters of one name. */
export interface LimiterView {
  /** The name of the limiter. */
  readonly name: string;
  /** The configurations. The most common one comes first. If there are several, processes differ. */
  readonly configurations: readonly Configuration[];
  /** The traits of the policies. */
  readonly traits: LimiterTraits;
  /**
   * Whether the stores of all its processes count decisions: false if one has `counts: false`, so that counts of the limiter are not complete.
   * Null if no process is known, as in a database that another process uses.
   */
  readonly isCounted: boolean | null;
  /** For limiters with overrides. */
  readonly overridden?: OverrideCounts;
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

/** Options of `keys`. */
export interface KeysOptions extends GivenLimits, NameFilter, Pick<Search, 'count' | 'progress' | 'signal'> {
  /** The limits of several limiters, by name, in place of `policies`. @default the published limits */
  limits?: Readonly<Record<string, GivenLimits>> | undefined;
  /** The tier of all keys. @default every tier that reads the state of a key, and the policies for requests without a tier */
  tier?: string | undefined;
  /** The kinds of facts. @default banned and limited keys, and the state of limiters with unknown limits */
  kinds?: readonly KeyVerdictFind['kind'][] | undefined;
  /** Has no effect. @deprecated All keys are always searched */
  scan?: boolean | undefined;
}

/** Options of `limited`. */
export type LimitedOptions = Omit<KeysOptions, 'kinds' | 'scan'>;

/** Keys of a search, with facts about the search. */
export interface KeySearch extends AsyncIterable<KeyVerdictFind> {
  /** The kinds of facts that the search finds. */
  readonly wanted: Pick<Wanted, 'banned' | 'limited' | 'admitted' | 'states'> & {
    readonly hasLimits: boolean;
  };
  /** The number of keys with state that were checked so far. */
  readonly checked: number;
  /** The limiters whose keys were not judged so far, because their limits are unknown. */
  readonly unjudged: readonly string[];
  /** The number of keys with state that no search finds: in memory, those that were used before the administration was created. */
  readonly unnamed: number;
  /** `UNKNOWN_SCOPE`, `DIFFERENT` and `UNREADABLE`. */
  readonly warnings: readonly AdminWarning[];
}

export async function limiters({ state }: Context, options: NameFilter = {}): Promise<LimitersView> {
  checkShape('limiters', options, ['name']);
  const { name } = options;
  const published = await state.published();
  const wanted = [...published.scopes].filter(([scope]) => name === undefined || scope === name);
  const counts = await countOverrides(state, wanted);
  const limiters = wanted.map(([scope, configurations]): LimiterView => {
    const overridden = counts.get(scope);
    return {
      ...{ name: scope, configurations, isCounted: isCountedIn(configurations) },
      traits: traitsOf(configurations),
      ...(overridden && { overridden }),
    };
  });
  return {
    instances: published.instances,
    limiters,
    warnings: warnings(
      ...doubtsOf(published, name),
      name === undefined ? undefined : differing(published, name),
    ),
  };
}

export function keys({ state }: Context, options: KeysOptions = {}): Promise<KeySearch> {
  checkShape('keys', options, KEYS_OPTIONS);
  return searchFor(state, options, options.kinds);
}

export async function* limited({ state }: Context, options: LimitedOptions = {}): AsyncGenerator<JudgedKey> {
  checkShape('limited', options, KEYS_OPTIONS);
  for await (const find of await searchFor(state, options, ['limited']))
    if (find.kind === 'limited') yield find;
}

export async function check({ state }: Context): Promise<readonly Finding[]> {
  const published = await state.published().catch(() => undefined);
  return state.check(liveLimiters(published));
}

const KEYS_OPTIONS = [
  ...['name', ...LIMIT_FIELDS, 'limits', 'tier', 'kinds', 'scan'],
  ...['count', 'progress', 'signal'],
];

const KINDS: readonly KeyVerdictFind['kind'][] = ['banned', 'limited', 'admitted', 'state', 'unreadable'];

async function searchFor(
  state: State,
  { name, tier, limits: several, count, progress, signal, ...given }: KeysOptions,
  kinds: KeysOptions['kinds'],
): Promise<KeySearch> {
  if (name !== undefined) checkName(name);
  if (kinds !== undefined && !Array.isArray(kinds))
    throw invalidOption('kinds', kinds, "Pass an array, such as ['banned', 'limited'].");
  for (const kind of kinds ?? []) checkChoice('kinds', kind, KINDS);
  const own = limitsOf(given);
  if (own && name === undefined)
    throw wrongArgument('name: missing. Pass the name of the limiter with these `policies`.');
  const named = Object.entries(several ?? {}).flatMap(([scope, each]) => {
    const limits = limitsOf(each);
    return limits ? [[scope, limits] as const] : [];
  });
  const published = await state.published();
  const passed = own ? new Map([[name!, own]]) : several && new Map(named);
  const limits = byTier(passed ?? published.limits(name), name, tier);
  const has = (kind: KeyVerdictFind['kind']): boolean => kinds?.includes(kind) ?? false;
  if (has('limited') && !has('state') && limits.size === 0)
    throw wrongArgument(
      `policies: missing. ${whyUnknown(published, name)} Pass \`name: 'api'\` and \`policies: '100/1m'\`.`,
    );
  const unknownOnly = limits.size === 0 || (passed === undefined && 'of unknown scopes');
  const wanted: Wanted = {
    ...{ name, limits },
    banned: kinds ? has('banned') : true,
    limited: kinds ? has('limited') : limits.size > 0,
    admitted: has('admitted'),
    states: kinds ? has('state') : unknownOnly,
  };
  const names = name === undefined ? [...published.scopes.keys()] : [name];
  const finder = new KeyFinder(state, wanted);
  return {
    wanted: { ...wanted, hasLimits: limits.size > 0 },
    // Keys of limits that the operator passed are not judged by published ones.
    warnings: warnings(
      ...doubtsOf(published, name),
      ...(passed ? [] : names.map((each) => differing(published, each))),
    ),
    get checked() {
      return finder.looked;
    },
    get unnamed() {
      return state.unnamed?.(name) ?? 0;
    },
    get unjudged() {
      return [...finder.unjudged];
    },
    [Symbol.asyncIterator]: () =>
      finder.finds({ ...(count !== undefined && { count }), ...(progress && { progress }), signal }),
  };
}

/** The limits of each tier, and of requests without a tier; or of one tier. A key's tier is unknown. */
function byTier(
  limits: ReadonlyMap<string, Limits>,
  name: string | undefined,
  tier: string | undefined,
): ReadonlyMap<string, readonly TierLimits[]> {
  if (tier !== undefined && name === undefined)
    throw wrongArgument('name: missing. Pass the name of the limiter with this `tier`.');
  return new Map(
    [...limits].map(([scope, each]) => {
      if (tier !== undefined) return [scope, [{ ...ofTier(each, scope, tier), tier }]];
      return [scope, setsOf(each).map(([of, policies]) => ({ ...each, policies, tier: of }))];
    }),
  );
}

function whyUnknown({ scopes }: Published, name: string | undefined): string {
  if (name === undefined || scopes.size === 0) return 'No limiter has published its limits.';
  const limiter = `limiter called ${JSON.stringify(name)}`;
  return scopes.has(name)
    ? `The limits of the ${limiter} depend on the request.`
    : `No ${limiter} has published its limits.`;
}
