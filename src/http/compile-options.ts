import { DEFAULT_DIMENSION } from '../contract/key.js';
import { HeadgateError, invalidOption, show } from '../common/errors.js';
import { memo } from '../common/memo.js';
import { readOptions } from '../common/options.js';
import { assembleLimiter, givenLimiter, type Assembly } from '../limiter/create-limiter.js';
import { hasPolicies, type CreateLimiterOptions, type LimiterOptions } from '../limiter/options.js';
import type { Limiter } from '../limiter/limiter.js';
import { checkCapacity, type Cost } from '../contract/costs.js';
import type { Policies, Policy } from '../contract/policy.js';
import { isPromise, type MaybePromise, type PolicySet } from '../contract/store.js';
import { clientKeys } from './client-key.js';
import { plainDimensions } from '../features/shares/contract/shares.js';
import { checkIds } from '../features/ids/id-rules.js';
import { refusal } from '../contract/together.js';
import { checkKeysOf, type KeysOption } from './dimension-keys.js';
import { compileHeaders } from './quota-fields.js';
import { compilePartitionKey } from './partition-key.js';
import { OF_LIMITER, REQUEST_TABLE, hasQuota, type HttpOptions, type PoliciesOf } from './options.js';

export interface CompiledOptions<Req, Res> extends ReturnType<typeof compileAlone<Req, Res>> {
  readonly limiter: Limiter;
  /** Whether the limiter was created for the options and must be closed with the adapter. */
  readonly ownsLimiter: boolean;
  readonly cost: Cost;
  /** The policies of every request, or `undefined` if they depend on the request. */
  readonly set: PolicySet | undefined;
  readonly setOf: ((request: Req) => MaybePromise<PolicySet>) | undefined;
  /** Whether any policy may use the request's key. */
  readonly needsKey: boolean;
}

/** An adapter's additions to the user's options. */
export interface HttpAssembly extends Assembly {
  /** The names of the limiter's policies that are skipped. */
  omitted?: ReadonlySet<string>;
}

/**
 * Validates options and creates a limiter. The names of the options were checked before (`checkShape` with `HTTP_OPTIONS`).
 *
 * @param shared an existing limiter to use instead of a new limiter
 * @throws HeadgateError as `createLimiter`
 */
export function compileOptions<Req, Res>(
  options: HttpOptions<Req, Res>,
  assembly: HttpAssembly = {},
  shared?: Limiter,
): CompiledOptions<Req, Res> {
  const policiesOf = policiesOfRequest(options);
  const isDefault = (name: string): boolean => assembly.defaults?.has(name) ?? false;
  const compiled = compileAlone(options, isDefault('partitionKey'), shared);
  const cost = compiled.costOf ? 1 : ((options.cost as Cost | undefined) ?? 1);
  const isDefaultCost = isDefault('cost') && !policiesOf;
  // The limiter is created last, because its creation claims a name.
  const given = shared ?? givenLimiter(options, OF_LIMITER);
  if (given) {
    checkCapacity(cost, given.tiers.decidingBy(options.tier));
    if (!policiesOf && !isDefaultCost) given.internals.scope.checkCost(cost);
  }
  if (compiled.requestId && compiled.wait !== undefined)
    throw refusal('waitingIds', 'requestId', 'passed with `wait`');
  checkTier(options, given);
  const limiter = given ?? ownLimiter(options, { ...assembly, cost: isDefaultCost ? 0 : cost });
  const { tier } = options;
  const byTier = typeof tier === 'function' ? mapped(tier, (name) => limiter.tiers.of(name)) : undefined;
  const { omitted } = assembly;
  const part = omitted && limiter.internals.scope.without(omitted);
  const partOf = (whole: PolicySet): PolicySet => (part ? part(whole) : whole);
  const wholeOf = policiesOf ? compiling(limiter, policiesOf, options.keys) : byTier;
  const setOf = part && wholeOf ? mapped(wholeOf, part) : wholeOf;
  const set = setOf ? undefined : partOf(limiter.tiers.of(tier as string | undefined));
  // The sets that may decide. The sets of a function `policies` are still unknown.
  const sets = policiesOf ? [] : set ? [set] : limiter.tiers.all.map(partOf);
  try {
    if (isDefaultCost) checkCapacity(cost, limiter.tiers.decidingBy(tier));
    if (!policiesOf) checkKeysOf(sets, options.keys, isDefault('keys'));
    const remembersIds =
      compiled.requestId === undefined || canHaveIds(sets, limiter, isDefault('requestId'));
    if (!remembersIds) compiled.requestId = undefined;
    if (!given && !policiesOf && compiled.wait === undefined) checkNobodyWaits(options, sets, isDefault);
  } catch (error) {
    if (!given) void limiter.close();
    throw error;
  }
  if (!compiled.keyGenerator) limiter.ipv6Subnets.add(compiled.ipv6Subnet);
  return {
    ...compiled,
    cost: isDefaultCost ? costOfLimiter(cost, limiter) : cost,
    limiter,
    ownsLimiter: given === undefined,
    set,
    setOf,
    needsKey: policiesOf !== undefined || sets.some(isByKey),
  };
}

/**
 * Compiles the options that do not need a limiter.
 *
 * @param isDefaultKey whether `partitionKey` is a default, which is ignored if unsuitable for the remaining options
 */
function compileAlone<Req, Res>(options: HttpOptions<Req, Res>, isDefaultKey: boolean, shared?: Limiter) {
  const { cost, jitter, warnings, keys, headers, ...read } = readOptions(REQUEST_TABLE, options);
  // Other programs may have the same limiter or store.
  const isCommon = [shared, options.limiter, options.store].some((given) => given !== undefined);
  const partitionKey = isDefaultKey && !canShowKey(options, isCommon) ? undefined : read.partitionKey;
  return {
    ...read,
    warn: warnings,
    /** Returns the keys of a request by dimension, or `undefined` if every policy uses the request's key. */
    keysOf: keys,
    clientKey: clientKeys(read.ipv6Subnet),
    /** For each dimension, the name of the option that returns its keys. */
    keyOptions: {
      ...(read.keyGenerator && { [DEFAULT_DIMENSION]: 'keyGenerator' }),
      ...Object.fromEntries(Object.keys(options.keys ?? {}).map((name) => [name, `keys.${name}`])),
    } as Readonly<Record<string, string>>,
    costOf: typeof cost === 'function' ? cost : undefined,
    writeHeaders: compileHeaders(headers, compilePartitionKey(partitionKey, isCommon)),
    /** The maximum delay of `Retry-After`, whole seconds. */
    jitter: jitter === undefined ? undefined : Math.floor(jitter / 1000),
  };
}

/**
 * Whether requests decided by some sets can have ids. An explicit option is refused otherwise, a default is ignored.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_DIMENSIONS`
 */
function canHaveIds(sets: readonly PolicySet[], { source }: Limiter, isDefault: boolean): boolean {
  try {
    for (const set of sets) checkIds('requestId', 'passed', set, source);
    return true;
  } catch (error) {
    if (!isDefault) throw error;
    return false;
  }
}

type PartitionOptions = Pick<HttpOptions<never, never>, 'partitionKey' | 'headers'>;

/** Rejects the options of a queue if no request can ever wait. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function checkNobodyWaits(
  options: object,
  sets: readonly PolicySet[],
  isDefault: (name: string) => boolean,
): void {
  const name = (['maxWaitingPerKey', 'maxWaiting'] as const).find(
    (each) => (options as LimiterOptions)[each] !== undefined && !isDefault(each),
  );
  if (
    name === undefined ||
    sets.some(({ policies }) => policies.some(({ traits }) => traits.paceMs !== undefined))
  )
    return;
  throw invalidOption(
    name,
    (options as LimiterOptions)[name],
    "No request waits here. Set the time that a request may wait (wait: '10s'), or omit this option.",
  );
}

/** A default cost by policy name, without the policies of other routes. */
function costOfLimiter(cost: Cost, limiter: Limiter): Cost {
  if (typeof cost === 'number') return cost;
  const { policies } = limiter.tiers.everything;
  const entries = Object.entries(cost).filter(([name]) => policies.some((policy) => policy.name === name));
  return entries.length === 0 ? 1 : Object.fromEntries(entries);
}

function canShowKey({ partitionKey, headers }: PartitionOptions, isCommon: boolean): boolean {
  const isWritten = headers === undefined || [headers].flat().includes('draft-11');
  return isWritten && !(partitionKey === true && isCommon);
}

function policiesOfRequest<Req, Res>(options: HttpOptions<Req, Res>): PoliciesOf<Req> | undefined {
  const { policies } = options;
  return typeof policies === 'function' ? policies : undefined;
}

function isByKey({ dimensions }: PolicySet): boolean {
  return dimensions ? plainDimensions(dimensions.names).includes(DEFAULT_DIMENSION) : true;
}

const DEFAULT_QUOTA: Policy = { limit: 1000, window: '1m' };

function ownLimiter<Req, Res>(options: HttpOptions<Req, Res>, assembly: Assembly): Limiter {
  const wanted = [...OF_LIMITER, 'warnings'];
  const given = Object.fromEntries(Object.entries(options).filter(([option]) => wanted.includes(option)));
  const own = { ...(hasQuota(options) ? {} : DEFAULT_QUOTA), ...given } as CreateLimiterOptions;
  const dimensions = Object.keys(options.keys ?? {});
  const dynamic = policiesOfRequest(options) !== undefined;
  return assembleLimiter(own, { ...assembly, tier: options.tier, dimensions, dynamic });
}

/** Checks the option `tier`, as far as possible without a request. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function checkTier<Req, Res>(options: HttpOptions<Req, Res>, limiter: Limiter | undefined): void {
  const { tier, tiers, policies } = options;
  if (typeof policies === 'function' && (tier ?? tiers) !== undefined)
    throw invalidOption(
      'policies, tiers',
      'both',
      'Pass a function as `policies`, or pass `tiers`, but not both.',
    );
  const names = limiter ? [...limiter.tiers.sets.keys()] : Object.keys(tiers ?? {});
  const isNeeded = limiter ? limiter.tiers.areNeeded : names.length > 0 && !hasPolicies(options);
  if (tier === undefined && !isNeeded) return;
  const known = names.map((name) => show(name)).join(', ');
  if (typeof tier === 'string' ? !names.includes(tier) : typeof tier !== 'function' || names.length === 0) {
    const fix =
      names.length === 0 ? 'The limiter has no `tiers`: pass them, too.' : `Its tiers are: ${known}.`;
    throw invalidOption(
      'tier',
      tier,
      `Pass a tier's name, or a function of the request that returns one. ${fix}`,
    );
  }
}

/** Maps the result of a function, sync or async. */
function mapped<Arg, From, To>(
  of: (arg: Arg) => MaybePromise<From>,
  map: (from: From) => To,
): (arg: Arg) => MaybePromise<To> {
  return (arg) => {
    const from = of(arg);
    return isPromise(from) ? from.then(map) : map(from);
  };
}

/** The number of different results of a `policies` function that are cached. */
const MAX_CACHED_SETS = 1000;

/** Compiles the policies that a function of the request returns. */
function compiling<Req>(
  limiter: Limiter,
  policiesOf: PoliciesOf<Req>,
  keys: KeysOption<Req> | undefined,
): (request: Req) => MaybePromise<PolicySet> {
  const compiled = memo(MAX_CACHED_SETS, (_: string, policies: Policies): PolicySet => {
    const set = limiter.compile(policies);
    checkKeysOf([set], keys, true);
    return set;
  });
  // Policies are compared by content, because an array that was changed in place means a changed limit.
  const compile = (policies: Policies): PolicySet => compiled(JSON.stringify(policies), policies);
  return mapped((request: Req) => policiesOf(request), compile);
}

/** @throws HeadgateError `HEADGATE_INVALID_KEY` */
export function checkGeneratedKey(key: unknown): void {
  if (key === undefined || typeof key === 'string') return;
  throw new HeadgateError(
    'HEADGATE_INVALID_KEY',
    `keyGenerator: ${show(key)} is not a key. Return a string, or undefined if policies without \`by\` do not apply to the request.`,
  );
}
