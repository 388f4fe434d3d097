import { banDimension } from '../features/bans/contract/ban-options.js';
import type { Announcement } from '../contract/announcement.js';
import { checkSlots, dimensionsOf, unknownDimension } from '../contract/dimensions.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { AS_CONFIGURED } from '../features/overrides/contract/records.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { HeadgateError, invalidOption } from '../common/errors.js';
import { readOptions } from '../common/options.js';
import { checkInteger, checkShape } from '../common/validate.js';
import { checkCapacity, checkCosts, type Cost } from '../contract/costs.js';
import type { EitherLimitOrPolicies, Policies, PolicyText } from '../contract/policy.js';
import { visiblePolicies } from '../features/shares/contract/shares.js';
import { checkOnThreshold, thresholdReporter } from '../features/thresholds/crossing-reports.js';
import type { PolicySet } from '../contract/store.js';
import { checkOffences, freshBansOf } from './bans.js';
import { guarded } from './guard/store-guard.js';
import { makeMemoryStore } from '../stores/memory/memory.js';
import { Lifetime } from './lifetime.js';
import { Limiter } from './limiter.js';
import { LiveLimits } from './live-limits.js';
import { claimName } from './name-claims.js';
import type { CheckedOptions } from './checked-options.js';
import {
  CREATING_OPTIONS,
  hasPolicies,
  LIMITER_TABLE,
  optionsOf,
  policiesOf,
  type CreateLimiterOptions,
  type LimiterOptions,
  type Spread,
} from './options.js';
import { checkDimensions, Scope, type ByOptions } from './scope.js';
import {
  checkProcess,
  checkPolicies,
  FirstQuestion,
  fleetingLimiters,
  isFirstOf,
  isTest,
} from './setup-checks.js';
import { Tiers } from './tiers.js';

/**
 * Makes a limiter.
 *
 * @example
 * const limiter = createLimiter({ name: 'api', store: redisStore(redis), limit: 100, window: '1m' })
 * const { allowed, remaining, retryAfterMs } = await limiter.consume('user:42')
 *
 * @param given the options, or the text of a single policy: `createLimiter('100/1m')`
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`; `HEADGATE_NAME_REQUIRED` for a second limiter without a name
 * on one store; `HEADGATE_POLICY_MISMATCH` for a limiter of the same name with other policies
 */
export function createLimiter<Given = never>(
  given: CreateLimiterOptions | Spread<CreateLimiterOptions, Given> | PolicyText,
): Limiter {
  const options = optionsOf(given as CreateLimiterOptions | string);
  checkOptions('createLimiter', options, CREATING_OPTIONS);
  return assembleLimiter(options);
}

/** An adapter's requirements for its limiter, in addition to the user's options. */
export interface Assembly {
  /** The limiter's name, unless the user passed one. */
  defaultName?: string;
  /** Whether the limiter itself has no policies, because policies are compiled for each request. */
  dynamic?: boolean;
  cost?: Cost;
  /** The tier of each request, or a function that chooses the tier. */
  tier?: unknown;
  /** The dimensions for which the adapter supplies keys. */
  dimensions?: readonly string[];
  /** The options that are defaults of a plugin or a module. A default that does not apply is ignored; an explicit option would be refused. */
  defaults?: ReadonlySet<string>;
}

/** `createLimiter` for options that were already checked. @throws as `createLimiter` */
export function assembleLimiter(
  options: LimiterOptions & { policies?: Policies | EitherLimitOrPolicies | undefined },
  {
    defaultName = 'default',
    dynamic = false,
    cost = 0,
    tier,
    dimensions: known = [],
    defaults,
  }: Assembly = {},
): Limiter {
  const { maxWaiting, shadow, enabled, warnings: warn, ...checked } = readOptions(LIMITER_TABLE, options);
  const inTiers = options.tiers !== undefined && !hasPolicies(options);
  const policies =
    dynamic || inTiers
      ? []
      : compilePolicies(options.policies === undefined ? 'policy' : 'policies', policiesOf(options));
  const by: ByOptions = { ...checkSlots(options), banBy: banDimension(options.ban), known };
  const { ban, timeout, idsFor, repeats } = checked;
  const onThreshold = thresholdReporter(checked.onThreshold);
  const set: PolicySet = Object.freeze({
    // One literal with all fields, because V8 gives each object that begins with a spread a hidden class of its own.
    name: checked.name ?? defaultName,
    policies,
    ban,
    timeout,
    idsFor,
    repeats,
    onThreshold,
    dimensions: dimensionsOf(policies, ban, by),
    overrides: checked.overrides ? AS_CONFIGURED : undefined,
    freshBans: options.ban?.fresh === true ? freshBansOf(() => scope) : undefined,
  });
  const tiers = new Tiers(options.tiers, set, by, inTiers || (dynamic && options.tiers !== undefined));
  checkCapacity(checkCosts(cost, ...(dynamic ? [] : [tiers.everything.policies])), tiers.decidingBy(tier));
  if (!dynamic) {
    checkUsed(by, tiers.all);
    if (!defaults?.has('ban')) checkOffences(set, by.banBy, tiers.all);
    if (checked.onThreshold && !defaults?.has('onThreshold')) checkOnThreshold(tiers.all);
  }
  const inner = checked.store ?? makeMemoryStore({}, warn);
  for (const each of tiers.all) checkDimensions(inner, each);
  const { maxWaitingPerKey = Math.max(1, Math.floor(maxWaiting / 10)) } = checked;
  checkInteger('maxWaitingPerKey', maxWaitingPerKey, 1, maxWaiting);
  const store = guarded(inner, checked, warn);
  const scope = new Scope(set, by, tiers.everything);
  let setup: CheckedOptions;
  let limiter: Limiter;
  try {
    const live = set.overrides && new LiveLimits({ store, base: set, tiers, scope, dynamic, warn });
    // Claims the name last, so that refused options claim nothing.
    const release = checked.store
      ? claimName(inner, options.name, { set, tiers: tiers.sets, dynamic })
      : () => {};
    setup = {
      ...{ set, tiers, source: inner, store, shadow, enabled, warn, release, scope, live },
      life: new Lifetime(set.name),
      waiting: [maxWaiting, maxWaitingPerKey],
      isWaitingBounded: options.maxWaiting !== undefined || options.maxWaitingPerKey !== undefined,
      onDecision: checked.onDecision,
      firstQuestion: isFirstOf(inner) && !isTest() ? new FirstQuestion(warn, fleetingLimiters) : undefined,
    };
    limiter = new Limiter(setup);
  } catch (error) {
    // Ends the health probes of the guard, because the limiter is refused.
    if (store !== inner) void store.close?.();
    throw error;
  }
  const announcement = announcementOf(setup, dynamic, limiter.ipv6Subnets);
  limiter.internals.decider.reports.announceTo(inner, announcement);
  for (const { policies } of tiers.all) checkPolicies(policies, warn);
  if (inner.embedded) checkProcess(warn);
  return limiter;
}

/**
 * The limiter as stores show it to operators.
 *
 * @param dynamic whether each request determines the policies
 * @param ipv6Subnets the prefix lengths with which adapters turn IPv6 addresses into keys
 */
function announcementOf(
  { set, tiers: { sets }, scope, source, live, shadow }: CheckedOptions,
  dynamic: boolean,
  ipv6Subnets: ReadonlySet<number>,
): Announcement {
  const { name, ban } = set;
  const { banBy, slotBy } = scope.by;
  const tiers = new Map([...sets].map(([tier, { policies }]) => [tier, visiblePolicies(policies)]));
  const policies = () => visiblePolicies(sets.size > 0 ? set.policies : scope.configured);
  return {
    ...{ source, name, ban, banBy, slotBy, shadow, dynamic, ipv6Subnets, policies, tiers },
    overrides: live !== undefined,
  };
}

/** @throws HeadgateError `HEADGATE_UNKNOWN_DIMENSION` if a dimension has no keys */
function checkUsed({ banBy, slotBy, known }: ByOptions, sets: readonly PolicySet[]): void {
  const used = [DEFAULT_DIMENSION, ...known, ...sets.flatMap(({ policies }) => policies.map(({ by }) => by))];
  if (!used.includes(banBy)) throw unknownDimension('ban.by', banBy, used);
  if (slotBy !== undefined && !used.includes(slotBy)) throw unknownDimension('slotBy', slotBy, used);
}

/**
 * The option `limiter`, if it was passed instead of the options that create a limiter.
 *
 * @param creating the names of the options that create a limiter
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function givenLimiter(options: object, creating = CREATING_OPTIONS): Limiter | undefined {
  const { limiter } = options as { limiter?: unknown };
  if (limiter === undefined) return undefined;
  if (!(limiter instanceof Limiter))
    throw invalidOption('limiter', limiter, 'Pass a limiter that createLimiter returned.');
  const others = Object.entries(options).filter(
    ([name, value]) => value !== undefined && creating.includes(name),
  );
  if (others.length === 0) return limiter;
  const names = others.map(([name]) => name).join(', ');
  throw invalidOption(
    names,
    'passed with `limiter`',
    'Pass a limiter, or the options that create one, but not both.',
  );
}

/** Refuses a limiter in place of options, and any shape that `checkShape` refuses. */
export function checkOptions(what: string, options: unknown, known: readonly string[]): void {
  if (options instanceof Limiter) {
    const fix = known.includes('limiter') ? 'Pass { limiter } instead of limiter.' : 'Pass its options.';
    throw new HeadgateError(
      'HEADGATE_INVALID_OPTION',
      `${what}: a limiter is not an object of options. ${fix}`,
    );
  }
  checkShape(what, options, known);
}
