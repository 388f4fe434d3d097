import type { Limiter } from '../limiter/limiter.js';
import { ofLimiter } from '../limiter/decision.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { CompiledPolicy } from '../contract/policy.js';
import { bansAmong, type BansOfKeys } from './bans/ban-finds.js';
import { batches } from './batches.js';
import { checkChange, type Context, type KeyChangeOptions } from './context.js';
import { policyNameOf } from './finds.js';
import { decidingBy } from './overrides/override-views.js';
import { isCharge } from './owners.js';
import {
  LIMIT_FIELDS,
  limitsOf,
  ofDimension,
  ofTier,
  policiesBy,
  type GivenLimits,
  type Limits,
} from './limits.js';
import { loggedOwner, ownersOf } from './logged-keys.js';
import { differing, doubtsOf, notNoted, subjectIn, type AdminWarning, warnings } from './scope.js';
import { isOfSlots, policiesIn, type Configuration, type Published } from './published.js';
import type { FoundKey, State } from './state.js';
import { typedKey, wrongArgument, type Subject } from './typed-keys.js';

/** Options of `reset`. */
export interface ResetOptions extends KeyChangeOptions, GivenLimits {
  /** The tier of the policies to reset. @default all tiers, and the policies for requests without one */
  tier?: string | undefined;
  /** Whether to search the store for the state of policies that the limiter no longer has. Only on Redis. @default false */
  scan?: boolean | undefined;
}

/** The result of `reset`. */
export interface ResetResult extends Subject, BansOfKeys {
  /** The name of the limiter. */
  readonly name: string;
  /** The names of the policies that had charges. */
  readonly policies: readonly string[];
  /** The number of keys that had charges. */
  readonly charged: number;
  /** Doubts about the change. */
  readonly warnings: readonly AdminWarning[];
}

/** Checks the arguments of a reset, and changes nothing. @returns a function that forgets the charges of the key */
export async function prepareReset(
  { state, origin }: Context,
  key: string,
  options: ResetOptions,
): Promise<() => Promise<ResetResult>> {
  const note = checkChange('reset', options, ...LIMIT_FIELDS, 'tier', 'scan');
  const { name, tier, scan = false } = options;
  const typed = typedKey(key, options);
  if (scan && tier !== undefined)
    throw wrongArgument('scan: the search finds the state of all tiers. Omit `tier`, or `scan`.');
  const given = limitsOf(options);
  const published = await state.published();
  const [subject, doubt] = subjectIn(published, name, typed);
  const limits = given ? [given] : scan ? [] : publishedFor(published, name, tier);
  // Limiters of other processes on a file do not show whether they support overrides.
  const configurations = published.scopes.get(name);
  const isLive = configurations?.some(({ overrides }) => overrides) ?? state.kind !== 'redis';
  const resetPolicies =
    limits.length > 0
      ? resetOf(state, subject, limits, { name, tier, isLive })
      : resetOfAll(state, name, subject, configurations);
  const isOfSeveral = !given && tier !== undefined;
  return async () => {
    const { policies, charged, freesSlots } = await resetPolicies();
    const change = { action: 'reset', ...loggedOwner(state, name, subject), forMs: 0, ...note } as const;
    const unnoted =
      policies.length > 0 ? await state.log.add({ ...change, from: origin, before: policies }) : undefined;
    const several = isOfSeveral
      ? differing(published, name, 'The tier was reset in all that have it.')
      : undefined;
    const slots = freesSlots ? SLOTS_FREED : undefined;
    const doubts = [...doubtsOf(published, name), several, doubt, notNoted(unnoted), slots];
    const bans = await bansAmong(state.bans, ownersOf(state, name, subject));
    return { name, ...subject, policies, charged, ...bans, warnings: warnings(...doubts) };
  };
}

export async function reset(context: Context, key: string, options: ResetOptions): Promise<ResetResult> {
  return (await prepareReset(context, key, options))();
}

/**
 * The published limits by which to reset. Empty if the state has to be searched, because a search finds the policies of all configurations.
 *
 * @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` if the policies of the tier are not known: a search would forget those of other tiers, too
 */
function publishedFor(published: Published, name: string, tier: string | undefined): Limits[] {
  const configurations = published.scopes.get(name) ?? [];
  if (tier === undefined && configurations.length !== 1) return [];
  const limits = configurations.flatMap((each) => published.limitsIn(name, each) ?? []);
  if (tier !== undefined && limits.length === 0)
    throw wrongArgument(
      `tier: the policies of the limiter ${JSON.stringify(name)} are not known. Pass \`tiers\`, or omit \`tier\` to reset all tiers.`,
    );
  return limits;
}

/** The warning about freed slots of work that still runs. */
const SLOTS_FREED: AdminWarning = {
  code: 'SLOTS_FREED',
  message:
    'the slots of running work are free, too, so more work than the limit may run until that work ends.',
};

/** The charges that were forgotten: the names of their policies, and the number of their keys. */
interface Forgotten extends Pick<ResetResult, 'policies' | 'charged'> {
  /** Whether a policy that had charges counts slots. */
  readonly freesSlots: boolean;
}

interface Resetting {
  readonly name: string;
  readonly tier: string | undefined;
  readonly isLive: boolean;
}

/**
 * Prepares the reset of one tier, or of all tiers and the policies for requests without a tier, in each of some configurations.
 *
 * @returns the function that resets, and resolves with the charges that there were
 * @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` if none has the tier, or a policy by the dimension
 */
function resetOf(
  state: State,
  subject: Subject,
  limits: readonly Limits[],
  { name, tier, isLive }: Resetting,
): () => Promise<Forgotten> {
  const ownSets = setsOfEach(limits, name, tier, subject.dimension);
  return async () => {
    const [names, keys] = [new Set<string>(), new Set<string>()];
    // Policies of two tiers may have the same name, so the name does not show whether slots were freed.
    let freesSlots = false;
    for (const part of ownSets) {
      const live = { ...part, overrides: isLive };
      await decidingBy(state, name, live, async (limiter) => {
        for (const some of batches(subject.keys)) {
          const resets = some.map(async (key) => {
            const own = await resetKey(state, limiter, { key, dimension: subject.dimension }, isLive);
            if (own.length > 0) keys.add(key);
            for (const { name: policy } of own) names.add(policy);
            freesSlots ||= own.some(({ traits }) => traits.holdsSlots);
          });
          await Promise.all(resets);
        }
      });
    }
    return { policies: [...names], charged: keys.size, freesSlots };
  };
}

/** The sets of policies that count keys of a dimension: of one tier, or of all. @throws the error of the first limits if none has such a set */
function setsOfEach(
  limits: readonly Limits[],
  name: string,
  tier: string | undefined,
  dimension: string,
): Limits[] {
  const found: Limits[] = [];
  const errors: unknown[] = [];
  for (const each of limits) {
    try {
      const { policies, tiers } = tier === undefined ? each : ofTier(each, name, tier);
      const sets = tier === undefined ? [policies, ...tiers.values()] : [policies];
      const own = policiesBy(dimension, sets.flat());
      const ownSets = sets.map((set) => set.filter((policy) => own.includes(policy)));
      for (const set of ownSets)
        if (set.length > 0) found.push(ofDimension({ ...each, policies: set }, dimension));
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length === limits.length) throw errors[0];
  return found;
}

/** @returns the policies that had charges */
async function resetKey(
  state: State,
  limiter: Limiter,
  { key, dimension }: { readonly key: string; readonly dimension: string },
  isLive: boolean,
): Promise<CompiledPolicy[]> {
  const whole = { [dimension]: key };
  // An override of another kind, such as another window, has its own policies.
  const inForce = isLive ? ofLimiter(await limiter.peek(whole)).set.policies : [];
  const policies = [...limiter.policies, ...inForce];
  const owner = state.ownerOf(limiter.name, key, dimension);
  const lives = await state.lives(policies.map(({ id }) => ({ owner, id })));
  await limiter.reset(whole);
  return policies.filter((_, i) => lives[i] !== undefined);
}

/**
 * Prepares the reset of all policies with state, including policies that the limiter no longer has.
 *
 * @returns the function that resets, and resolves with the charges that there were
 * @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` if the store cannot find state without knowing the policies
 */
function resetOfAll(
  state: State,
  name: string,
  subject: Subject,
  configurations: readonly Configuration[] = [],
): () => Promise<Forgotten> {
  if (!state.forget)
    throw wrongArgument(
      "policies: missing, and this store does not know the limiter. Pass `policies: '100/1m'`.",
    );
  const { keys, dimension } = subject;
  const owners = new Set(ownersOf(state, name, subject).map(({ text }) => text));
  const isSole = keys.length === 1 && dimension === DEFAULT_DIMENSION;
  return async () => {
    const [names, charged] = [new Set<string>(), new Set<string>()];
    for await (const page of state.search({ name, ...(isSole && { key: keys[0]! }) })) {
      const isOwn = ({ owner, id }: FoundKey): boolean => isCharge(id) && owners.has(owner.text);
      for (const found of page.filter(isOwn)) {
        await state.forget!(found);
        names.add(policyNameOf(found.id));
        charged.add(found.owner.text);
      }
    }
    const slots = policiesIn(configurations).filter(isOfSlots);
    const freesSlots = slots.some((policy) => names.has(policy.name ?? 'default'));
    return { policies: [...names], charged: charged.size, freesSlots };
  };
}
