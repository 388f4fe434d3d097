// The limits of other tiers that an override changes, and that an operator should know.
import { changedPolicy, type PolicyChange } from '../../features/overrides/contract/change-policy.js';
import { compilePolicies, isUnlimited, orUnlimited } from '../../contract/compile-policies.js';
import { canonicalText } from '../../contract/policy-text.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { OverrideChange } from '../../limiter/overrides/override.js';
import { mayBan } from './override-bans.js';
import type { Published } from '../published.js';
import type { AdminWarning } from '../scope.js';

interface Change {
  readonly name: string;
  readonly change: OverrideChange;
  /** The dimension of the key, or `undefined` for all keys. */
  readonly dimension: string | undefined;
}

/** A limit as configured, and as the change makes it. */
interface Difference {
  readonly tier: string;
  readonly policy: CompiledPolicy;
  readonly text: string;
  readonly direction: 'lower' | 'HIGHER' | 'other';
}

export function doubtsOfChange(published: Published, change: Change): AdminWarning[] {
  const limits = published.limitsOf(change.name);
  if (!limits) return [];
  const sets = new Map(
    [['', limits.policies] as const, ...limits.tiers].map(
      ([tier, policies]) => [tier, compilePolicies('policies', orUnlimited(policies))] as const,
    ),
  );
  const differences = differencesOf(sets, change);
  const isLower = (by: string): boolean =>
    differences.some(({ policy, direction }) => direction === 'lower' && policy.by === by && !policy.shadow);
  return [...ofTiers(differences, change, limits.tiers.size > 0), ...mayBan(published, change.name, isLower)];
}

function differencesOf(
  sets: ReadonlyMap<string, readonly CompiledPolicy[]>,
  { change, dimension }: Change,
): Difference[] {
  const isTier = typeof change !== 'string' && 'tier' in change && typeof change.tier === 'string';
  const target = isTier ? sets.get(change.tier) : undefined;
  const all = [...sets].flatMap(([tier, policies]) => policies.map((policy) => ({ tier, policy })));
  const names = new Set(all.map(({ policy }) => policy.name));
  return all.flatMap(({ tier, policy }): Difference[] => {
    if (dimension !== undefined && policy.by !== dimension) return [];
    const to = target ? target.find(({ name }) => name === policy.name) : afterChange(policy, change, names);
    const [old, next] = [limitText(policy), to ? limitText(to) : 'no limit'];
    if (old === next) return [];
    const direction = directionOf(policy, to);
    const mark = direction === 'other' ? '' : ` (${direction})`;
    return [{ tier, policy, text: `${policy.name} ${old} -> ${next}${mark}`, direction }];
  });
}

/** A policy after the change, or `undefined` if it is left out. */
function afterChange(
  policy: CompiledPolicy,
  change: OverrideChange,
  names: ReadonlySet<string>,
): CompiledPolicy | undefined {
  const isNamed = typeof change !== 'string' && Object.keys(change).every((field) => names.has(field));
  const own = isNamed ? (change as Record<string, string | PolicyChange | false>)[policy.name] : change;
  if (own === undefined) return policy;
  return own === false || isUnlimited(own) ? undefined : changedPolicy(policy, own as string | PolicyChange);
}

const limitText = (policy: CompiledPolicy): string => canonicalText({ ...policy, name: 'default' });

function directionOf(from: CompiledPolicy, to: CompiledPolicy | undefined): Difference['direction'] {
  if (!to) return 'HIGHER';
  const rate = ({ limit, window, traits }: CompiledPolicy): number =>
    traits.holdsSlots ? limit : limit / window;
  return rate(to) === rate(from) ? 'other' : rate(to) < rate(from) ? 'lower' : 'HIGHER';
}

/** The limits by tier, if a change of all keys concerns tiers, or if it is lower for one tier of a key and higher for another. */
function ofTiers(
  differences: readonly Difference[],
  { name, dimension }: Change,
  hasTiers: boolean,
): AdminWarning[] {
  const directions = new Set(differences.map(({ direction }) => direction));
  const isMixed = directions.has('lower') && directions.has('HIGHER');
  if (!hasTiers || differences.length === 0 || (dimension !== undefined && !isMixed)) return [];
  const tiers = [...new Set(differences.map(({ tier }) => tier))].map((tier) => {
    const texts = differences.filter((each) => each.tier === tier).map(({ text }) => text);
    return `${tier === '' ? 'without a tier' : `tier ${tier}`}: ${texts.join(', ')}`;
  });
  const whose = dimension === undefined ? 'all keys' : 'the key, whatever its tier';
  const message = `the change is for ${whose}, in every tier of ${JSON.stringify(name)}: ${tiers.join('; ')}.`;
  return [{ code: 'ALL_TIERS', message }];
}
