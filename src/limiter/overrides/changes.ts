import { randomBytes } from 'node:crypto';
import { HeadgateError, invalidOption, show } from '../../common/errors.js';
import { checkShape } from '../../common/validate.js';
import { CHANGEABLE, type PolicyChange } from '../../features/overrides/contract/change-policy.js';
import { isUnlimited, POLICY_FIELDS } from '../../contract/compile-policies.js';
import { recordDimensions } from '../../features/overrides/contract/records.js';
import { canonicalText } from '../../contract/policy-text.js';
import { limitDimension, tenantsOf, visiblePolicies } from '../../features/shares/contract/shares.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { PolicySet } from '../../contract/store.js';
import type { Tiers } from '../tiers.js';
import type { OverrideChange } from './override.js';

/** The change of each policy by its name; `false` leaves the policy out. */
export type ChangesByPolicy = ReadonlyMap<string, string | PolicyChange | false>;

const EXAMPLE =
  "Pass a policy ('1000/1m' or 'unlimited'), some of its fields ({ limit: 1000 }), or { tier: 'pro' }.";

/** Checks changes against the policies and tiers of a limiter. */
export class ChangeChecks {
  readonly #tiers: Tiers;
  readonly isDynamic: boolean;
  /** The dimensions by which every tier has a policy. A key of these dimensions may have another tier. */
  readonly tierDimensions: readonly string[];

  /** @param isDynamic whether the policies come with each request, so that no name can be checked */
  constructor(tiers: Tiers, isDynamic: boolean) {
    this.#tiers = tiers;
    this.isDynamic = isDynamic;
    this.tierDimensions = tiers.sets.size === 0 ? [] : sharedDimensions(tiers.all.filter(isLimited));
  }

  /** The policies of each tier by a dimension. @param by undefined for all dimensions */
  policiesBy(by: string | undefined): CompiledPolicy[][] {
    return this.isDynamic
      ? []
      : this.#tiers.all.map(({ policies }) => visiblePolicies(policies).filter(isOf(by)));
  }

  /**
   * An operator's change as a change for each policy.
   *
   * @param by the dimension of the key; undefined for all keys
   * @param sets the policies of each tier that the change concerns
   * @param isSole whether a change without names concerns the only policy
   * @returns undefined if the change is another tier
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_UNKNOWN_TIER`
   */
  byPolicy(
    change: OverrideChange,
    by: string | undefined,
    sets: readonly (readonly CompiledPolicy[])[],
    isSole = this.isDynamic || sets.every((policies) => policies.length <= 1),
  ): ChangesByPolicy | undefined {
    const names = [...new Set(sets.flat().map(({ name }) => name))];
    if (typeof change !== 'string' && isEmpty(change)) throw invalidOption('override', change, EXAMPLE);
    const fields = typeof change === 'string' ? [] : Object.keys(change);
    if (fields.includes('tier') && !names.includes('tier')) {
      if (fields.length > 1) throw invalidOption('override', change, 'Pass { tier } alone.');
      if (!this.isDynamic) this.#tiers.of(tierOf(change));
      this.#checkTierDimension(change, by);
      return undefined;
    }
    const isPolicy = fields.every((field) => POLICY_FIELDS.includes(field) && !names.includes(field));
    if (isUnlimited(change) && !isTenantOf(by)) return new Map(names.map((name) => [name, false]));
    if (isSole && isPolicy) {
      const policy = change as string | PolicyChange;
      checkPolicyChange('override', policy, by);
      return new Map(names.map((name) => [name, policy]));
    }
    if (typeof change === 'string') throw severalPolicies(change, sets.flat());
    const unknown = fields.find((field) => !names.includes(field));
    if (unknown !== undefined && POLICY_FIELDS.includes(unknown) && !isSole)
      throw severalPolicies(change, sets.flat());
    if (unknown !== undefined && !this.isDynamic) {
      const other = this.#policyNamed(unknown);
      throw other ? ofOtherDimension(other, by!) : unknownPolicy(unknown, names, isSole);
    }
    const byName = Object.entries(change) as [string, string | PolicyChange | false][];
    for (const [name, own] of byName) if (own !== false) checkPolicyChange(`override.${name}`, own, by);
    return new Map(byName.map(([name, own]) => [name, isUnlimited(own) ? false : own]));
  }

  #policyNamed(name: string): CompiledPolicy | undefined {
    return this.policiesBy(undefined)
      .flat()
      .find((policy) => policy.name === name);
  }

  /**
   * The part of a stored change that fits. A process with other policies may have written the change.
   *
   * @param sets as in `byPolicy`
   * @returns the changes as `byPolicy` does, and the reason why policies that do not exist here are left out
   * @throws HeadgateError as `byPolicy` if nothing fits
   */
  fitting(
    change: OverrideChange,
    by: string | undefined,
    sets: readonly (readonly CompiledPolicy[])[],
  ): { readonly changes: ChangesByPolicy | undefined; readonly misfit?: unknown } {
    const isSole = sets.every((policies) => policies.length <= 1);
    try {
      return { changes: this.byPolicy(change, by, sets, isSole) };
    } catch (misfit) {
      const names = new Set(sets.flat().map(({ name }) => name));
      const fields = typeof change === 'string' ? [] : Object.entries(change);
      const known = fields.filter(([name]) => names.has(name));
      if (known.length === 0 || known.length === fields.length) throw misfit;
      return { changes: this.byPolicy(Object.fromEntries(known), by, sets, isSole), misfit };
    }
  }

  /**
   * Refuses another tier for a key that some requests of the limiter do not have, because requests without the key would ignore the tier.
   *
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`
   */
  #checkTierDimension(change: OverrideChange, by: string | undefined): void {
    if (by === undefined || this.isDynamic || this.tierDimensions.includes(by)) return;
    const [tier] =
      [...this.#tiers.sets].find(([, set]) => isLimited(set) && !set.policies.some(isOf(by))) ?? [];
    const without = tier === undefined ? 'without a tier' : `of the tier ${show(tier)}`;
    throw invalidOption(
      'override',
      change,
      `Requests ${without} have no policy by ${show(by)}, so they would ignore the override. Give each tier a policy by ${show(by)}, or ` +
        `override the key of another dimension${this.tierDimensions.map((name) => ` (${show(name)})`).join('')}.`,
    );
  }
}

/** Whether a tier has policies. A plan without a limit has none. */
function isLimited({ policies }: PolicySet): boolean {
  return policies.length > 0;
}

export function tierOf(change: OverrideChange): string {
  return (change as { tier: string }).tier;
}

/** Identifies an override, so that a store and a process can compare theirs. The same change may return with another end. */
export function newRevision(): string {
  return randomBytes(12).toString('base64url');
}

/** Whether a policy is by a dimension, or shared by tenants of that dimension. @param by undefined for all dimensions */
export function isOf(by: string | undefined): (policy: CompiledPolicy) => boolean {
  return (policy) => by === undefined || policy.by === by || tenantsOf(policy) === by;
}

function sharedDimensions(sets: readonly PolicySet[]): string[] {
  const [first, ...others] = sets;
  const dimensions = first ? recordDimensions(first) : [];
  return dimensions.filter((by) => others.every(({ policies }) => policies.some(isOf(by))));
}

function severalPolicies(change: OverrideChange, policies: readonly CompiledPolicy[]): HeadgateError {
  const byName = new Map(policies.map((policy) => [policy.name, policy]));
  // The example keeps the windows, because a change of a window has a state of its own.
  const sample = [...byName]
    .map(([name, policy]) => {
      const [limit = '1000/1m'] = /\d+\/\S+/.exec(canonicalText({ ...policy, name: 'default' })) ?? [];
      return `${/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name)}: '${limit}'`;
    })
    .join(', ');
  return invalidOption(
    'override',
    change,
    `The limiter has several policies. Pass the change of each by its name: { ${sample} }.`,
  );
}

function unknownPolicy(name: string, names: readonly string[], isSole: boolean): HeadgateError {
  const policies = names.map((each) => show(each)).join(', ');
  const fields = isSole ? ', and a policy has no such field that can change' : '';
  return new HeadgateError(
    'HEADGATE_UNKNOWN_OPTION',
    `override: the limiter has no policy named ${show(name)}${fields}. Its policies are: ${policies}. ${EXAMPLE}`,
  );
}

/** The error about a policy of the limiter that does not count by the dimension of the key. */
function ofOtherDimension({ name, by }: CompiledPolicy, dimension: string): HeadgateError {
  return new HeadgateError(
    'HEADGATE_UNKNOWN_OPTION',
    `override: the policy ${show(name)} counts by ${by}, and not by ${dimension}. Pass a key of ${by}: { ${by}: 'ada' }.`,
  );
}

/** Whether a change is not an object with at least one value. */
function isEmpty(change: unknown): boolean {
  return (
    typeof change !== 'object' ||
    change === null ||
    Array.isArray(change) ||
    Object.values(change).every((value) => value === undefined)
  );
}

function isTenantOf(by: string | undefined): boolean {
  return by !== undefined && limitDimension(by) !== undefined;
}

/**
 * @param by the dimension of the key. Of a tenant, only the weight can change
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` unless the change is a policy as text, or some fields of one
 */
function checkPolicyChange(name: string, change: unknown, by: string | undefined): void {
  const isTenant = isTenantOf(by);
  if (typeof change === 'string' && !isTenant) return;
  const isWeight = typeof change === 'object' && change !== null && Object.keys(change).join() === 'weight';
  if (isTenant && !isWeight)
    throw invalidOption(name, change, 'A tenant of a shared limit has only a weight: { weight: 5 }.');
  if (isEmpty(change)) throw invalidOption(name, change, EXAMPLE);
  checkShape(name, change, isTenant ? ['weight'] : CHANGEABLE);
}
