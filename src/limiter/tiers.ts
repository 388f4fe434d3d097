import { distinct, withPolicies } from '../contract/dimensions.js';
import { HeadgateError, invalidOption, show } from '../common/errors.js';
import { compilePolicies } from '../contract/compile-policies.js';
import type { CompiledPolicy, Policies, StrictPolicies } from '../contract/policy.js';
import type { Dimensions, PolicySet } from '../contract/store.js';

/** Named policies: `{ free: '100/1m', pro: ['1000/1m', '50/1s'] }`. Names are strings of 1 to 64 characters. */
export type TierOptions = Readonly<Record<string, StrictPolicies>>;

/** Tiers that include those which requests choose, as far as types know their names. */
export type TiersWith<Tier extends string> = TierOptions & Readonly<Record<Tier, StrictPolicies>>;

const MAX_TIERS = 100;

/** The policies of each tier of a limiter, and the policies for requests without a tier. */
export class Tiers {
  readonly sets: ReadonlyMap<string, PolicySet>;
  /** The policies of every set as a single set, whose charges a reset forgets. */
  readonly everything: PolicySet;
  readonly areNeeded: boolean;
  readonly #base: PolicySet;

  /**
   * @param given the option `tiers`
   * @param base the limiter's own policies, possibly empty
   * @param by the options that determine the dimensions of tiers, in addition to the tiers' policies
   * @param areNeeded whether a request must have a tier
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
   */
  constructor(given: unknown, base: PolicySet, by: Omit<Dimensions, 'names'>, areNeeded: boolean) {
    this.#base = base;
    const policies = given === undefined ? [] : namedPolicies(given);
    this.sets = new Map(policies.map(([tier, own]) => [tier, withPolicies(base, own, by, { tier })]));
    this.areNeeded = areNeeded;
    const all = distinct(this.all.flatMap((set) => set.policies));
    this.everything = this.sets.size > 0 ? withPolicies(base, all, by) : base;
  }

  /** The sets that may decide: the tiers', and the limiter's own policies unless each request needs a tier. */
  get all(): readonly PolicySet[] {
    return this.areNeeded ? [...this.sets.values()] : [this.#base, ...this.sets.values()];
  }

  /** The sets that may decide for a value of the option `tier`: a tier's name, or a function. */
  decidingBy(tier: unknown): readonly PolicySet[] {
    if (typeof tier === 'function') return this.all;
    const set = tier === undefined ? this.#base : this.sets.get(tier as string);
    return set ? [set] : [];
  }

  /**
   * The policies of a tier, or the limiter's own without a tier.
   *
   * @throws HeadgateError `HEADGATE_UNKNOWN_TIER`
   */
  of(tier: string | undefined): PolicySet {
    const set = tier === undefined && !this.areNeeded ? this.#base : this.sets.get(tier!);
    if (!set) throw this.#unknown(tier);
    return set;
  }

  #unknown(tier: unknown): HeadgateError {
    const names = [...this.sets.keys()].map((name) => show(name)).join(', ');
    const known = names === '' ? 'The limiter has no `tiers`.' : `Its tiers are: ${names}.`;
    const message =
      tier === undefined
        ? `tier: missing, and the limiter has no policies outside its tiers. Use one of: ${names}.`
        : `tier: the limiter has no tier named ${show(tier)}. ${known}`;
    return new HeadgateError('HEADGATE_UNKNOWN_TIER', message);
  }
}

function namedPolicies(given: unknown): [tier: string, policies: readonly CompiledPolicy[]][] {
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
  const tiers = isObject ? Object.entries(given) : [];
  if (tiers.length === 0 || tiers.length > MAX_TIERS) {
    const fix = `Pass an object of 1 to ${MAX_TIERS} tiers: { free: '100/1m', pro: ['1000/1m', '50/1s'] }.`;
    throw invalidOption('tiers', given, fix);
  }
  return tiers.map(([tier, policies]) => {
    if (tier.length < 1 || tier.length > 64) {
      throw invalidOption('tiers', tier, 'Use names of 1 to 64 characters.');
    }
    return [tier, compilePolicies(`tiers.${tier}`, policies as Policies)];
  });
}
