import type { Limiter } from '../limiter/limiter.js';
import { ofLimiter } from '../limiter/decision.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { isOfFeature } from '../features/features.js';
import { BAN_TAG, isLine, isReset } from '../stores/keys.js';
import { loggedOwner, ownersOf } from './bans.js';
import { checkChange, warnings, type Context, type KeyChangeOptions } from './context.js';
import { policyNameOf } from './finds.js';
import { decidingBy } from './override-views.js';
import {
  LIMIT_FIELDS,
  limitsOf,
  ofDimension,
  ofTier,
  policiesBy,
  type GivenLimits,
  type Limits,
} from './limits.js';
import { doubtsOf, notNoted, subjectIn, type AdminWarning } from './scope.js';
import { isOfSlots } from './published.js';
import type { FoundKey, State } from './state.js';
import { typedKey, wrongArgument, type Subject } from './typed-keys.js';

/** The number of keys that are reset at a time. */
const BATCH_SIZE = 500;

/** Options of `reset`. */
export interface ResetOptions extends KeyChangeOptions, GivenLimits {
  /** The tier of the policies to reset. @default all tiers, and the policies for requests without one */
  tier?: string | undefined;
  /** Whether to search the store for the state of policies that the limiter no longer has. Only on Redis. @default false */
  scan?: boolean | undefined;
}

/** The result of `reset`. */
export interface ResetResult extends Subject {
  /** The name of the limiter. */
  readonly name: string;
  /** The names of the policies that had charges. */
  readonly policies: readonly string[];
  /** The number of keys that are still banned. A reset does not end bans. */
  readonly banned: number;
  /** The rest of the longest of these bans, ms, or 0. */
  readonly bannedForMs: number;
  /** Doubts about the change. */
  readonly warnings: readonly AdminWarning[];
}

/** Forgets the charges of a key after the arguments were checked. */
type Reset = () => Promise<ResetResult>;

export function resetFunctions({ state, origin }: Context) {
  /** Checks the arguments of a reset, and changes nothing. @returns the function that resets */
  async function prepareReset(key: string, options: ResetOptions): Promise<Reset> {
    const note = checkChange('reset', options, ...LIMIT_FIELDS, 'tier', 'scan');
    const { name, tier, scan = false } = options;
    const typed = typedKey(key, options);
    const given = limitsOf(options);
    const published = await state.published();
    const [subject, doubt] = subjectIn(published, name, typed);
    const configurations = published.scopes.get(name);
    const limits = given ?? (!scan && configurations?.length === 1 ? published.limitsOf(name) : undefined);
    // Limiters of other processes on a file do not show whether they support overrides.
    const isLive = configurations
      ? configurations.some(({ overrides }) => overrides)
      : state.kind !== 'redis';
    const resetPolicies = limits
      ? resetOf(state, subject, limits, { name, tier, isLive })
      : resetOfAll(state, name, subject);
    return async () => {
      const policies = await resetPolicies();
      const change = {
        action: 'reset',
        ...loggedOwner(state, name, subject),
        forMs: 0,
        ...note,
        from: origin,
      } as const;
      const unnoted = policies.length > 0 ? await state.log.add({ ...change, before: policies }) : undefined;
      const lefts = (await state.bans.lefts(ownersOf(state, name, subject))).map((left) =>
        left instanceof Error ? 0 : left,
      );
      return {
        ...{ name, ...subject, policies },
        ...{ banned: lefts.filter((ms) => ms > 0).length, bannedForMs: Math.max(...lefts) },
        warnings: warnings(...doubtsOf(published, name), doubt, notNoted(unnoted), freed(policies, limits)),
      };
    };
  }

  async function reset(key: string, options: ResetOptions): Promise<ResetResult> {
    return (await prepareReset(key, options))();
  }

  return { reset, prepareReset };
}

/** A warning about freed slots of work that still runs. */
function freed(names: readonly string[], limits: Limits | undefined): AdminWarning | undefined {
  const all = [...(limits?.policies ?? []), ...[...(limits?.tiers.values() ?? [])].flat()];
  const slots = all.filter((policy) => isOfSlots(policy) && names.includes(policy.name ?? 'default'));
  if (slots.length === 0) return undefined;
  const message =
    'the slots of running work are free, too, so more work than the limit may run until that work ends.';
  return { code: 'SLOTS_FREED', message };
}

/**
 * Prepares the reset of one tier, or of all tiers and the policies for requests without a tier.
 *
 * @returns the function that resets, and resolves with the names of the policies that had charges
 */
function resetOf(
  state: State,
  subject: Subject,
  limits: Limits,
  {
    name,
    tier,
    isLive,
  }: { readonly name: string; readonly tier: string | undefined; readonly isLive: boolean },
): () => Promise<string[]> {
  const { policies, tiers } = tier === undefined ? limits : ofTier(limits, name, tier);
  const sets = tier === undefined ? [policies, ...tiers.values()] : [policies];
  const own = policiesBy(subject.dimension, sets.flat());
  const ownSets = sets.map((each) => each.filter((policy) => own.includes(policy)));
  return async () => {
    const names = new Set<string>();
    for (const set of ownSets) {
      if (set.length === 0) continue;
      const part = ofDimension({ ...limits, policies: set, overrides: isLive }, subject.dimension);
      await decidingBy(state, name, part, async (limiter) => {
        for (let at = 0; at < subject.keys.length; at += BATCH_SIZE) {
          const some = subject.keys.slice(at, at + BATCH_SIZE);
          const charged = await Promise.all(
            some.map((key) => resetKey(state, limiter, { key, dimension: subject.dimension }, isLive)),
          );
          for (const policy of charged.flat()) names.add(policy);
        }
      });
    }
    return [...names];
  };
}

/** @returns the names of the policies that had charges */
async function resetKey(
  state: State,
  limiter: Limiter,
  { key, dimension }: { readonly key: string; readonly dimension: string },
  isLive: boolean,
): Promise<string[]> {
  const whole = { [dimension]: key };
  // An override of another kind, such as another window, has its own policies.
  const inForce = isLive ? ofLimiter(await limiter.peek(whole)).set.policies : [];
  const policies = [...limiter.policies, ...inForce];
  const owner = state.ownerOf(limiter.name, key, dimension);
  const lives = await state.lives(policies.map(({ id }) => ({ owner, id })));
  await limiter.reset(whole);
  return policies.filter((_, i) => lives[i] !== undefined).map((policy) => policy.name);
}

/**
 * Prepares the reset of all policies with state, including policies that the limiter no longer has.
 *
 * @returns the function that resets, and resolves with their names
 * @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` if the store cannot find state without knowing the policies
 */
function resetOfAll(state: State, name: string, subject: Subject): () => Promise<string[]> {
  if (!state.forget)
    throw wrongArgument(
      "policies: missing, and this store does not know the limiter. Pass `policies: '100/1m'`.",
    );
  const { keys, dimension } = subject;
  const owners = new Set(ownersOf(state, name, subject).map(({ text }) => text));
  const isSole = keys.length === 1 && dimension === DEFAULT_DIMENSION;
  return async () => {
    const names = new Set<string>();
    for await (const page of state.search({ name, ...(isSole && { key: keys[0]! }) })) {
      const isCharge = ({ owner, id }: FoundKey): boolean =>
        id !== BAN_TAG && !isOfFeature(id) && !isReset({ id }) && !isLine(id) && owners.has(owner.text);
      for (const found of page.filter(isCharge)) {
        await state.forget!(found);
        names.add(policyNameOf(found.id));
      }
    }
    return [...names];
  };
}
