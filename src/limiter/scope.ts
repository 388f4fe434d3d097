import { DOCS, HeadgateError, show } from '../common/errors.js';
import { checkCosts, costsOf, type Cost, type Costs } from '../contract/costs.js';
import { distinct, subjectOf, withPolicies } from '../contract/dimensions.js';
import { DEFAULT_DIMENSION, type Key } from '../contract/key.js';
import { withinSlot } from '../contract/dimension-sets.js';
import type { CompiledPolicy } from '../contract/policy.js';
import type { Dimensions, PolicySet, Store, Subject } from '../contract/store.js';
import { variant } from '../contract/variant.js';

/** The most states of a key that a reset covers, because policies of requests could create any number. */
const MAX_REMEMBERED_POLICIES = 100;

/** The options that determine a limiter's dimensions, in addition to the policies. */
export interface ByOptions extends Omit<Dimensions, 'names'> {
  /** Dimensions for which an adapter supplies keys. */
  readonly known: readonly string[];
}

/** The policies in a limiter's scope: the limiter's own, the policies of tiers, and compiled ones. */
export class Scope {
  readonly #base: PolicySet;
  readonly by: ByOptions;
  #everything: PolicySet;
  /** The policies of `everything` that only some keys have for some time. */
  readonly #temporary = new Set<CompiledPolicy>();
  /** Further dimensions of keys, in addition to a set's: the adapter's, and the dimensions of other tiers. */
  #known: readonly string[];

  /** @param everything the known policies at the start */
  constructor(base: PolicySet, by: ByOptions, everything: PolicySet) {
    this.#base = base;
    this.by = by;
    this.#everything = everything;
    this.#known = this.#allKnown();
  }

  /** The known policies, whose charges a reset forgets. */
  get everything(): PolicySet {
    return this.#everything;
  }

  /** The policies to show to operators: without the temporary ones. */
  get configured(): readonly CompiledPolicy[] {
    return this.#everything.policies.filter((policy) => !this.#temporary.has(policy));
  }

  /**
   * @param of the whole set of which `set` is a part, because a cost may name every policy of the whole set
   * @throws HeadgateError `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY`
   */
  costs(cost: Cost, set: PolicySet, of = set): Costs {
    return costsOf(this.checkCost(cost, of), set.policies);
  }

  /** @throws HeadgateError `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY` */
  checkCost(cost: unknown, set = this.#base): Cost {
    return checkCosts(cost, set.policies, this.#everything.policies);
  }

  with(policies: readonly CompiledPolicy[]): PolicySet {
    return withPolicies(this.#base, policies, this.by);
  }

  /** Returns sets without the policies of some names. The rest of the policies keep the charges. */
  without(names: ReadonlySet<string>): (set: PolicySet) => PolicySet {
    const id = JSON.stringify([...names].sort());
    const change = (set: PolicySet): Partial<PolicySet> => {
      const { policies, dimensions } = this.with(set.policies.filter(({ name }) => !names.has(name)));
      return { policies, dimensions, tier: undefined };
    };
    return (set) => variant(set, 'omitting', change, id);
  }

  /** Adds policies to the scope of a reset. @param isTemporary whether only some keys have them for some time */
  remember(policies: readonly CompiledPolicy[], isTemporary = false): void {
    const before = this.#everything.policies;
    const known = distinct([...before, ...policies]).slice(
      0,
      Math.max(MAX_REMEMBERED_POLICIES, before.length),
    );
    if (known.length === before.length) return;
    if (isTemporary) for (const policy of known.slice(before.length)) this.#temporary.add(policy);
    this.#everything = this.with(known);
    this.#known = this.#allKnown();
  }

  /** A set with the temporary policies that have the names of its policies, for a reset. */
  withTemporary(set: PolicySet): PolicySet {
    const names = new Set(set.policies.map(({ name }) => name));
    const made = [...this.#temporary].filter(({ name }) => names.has(name));
    return made.length === 0 ? set : this.with(distinct([...set.policies, ...made]));
  }

  /** @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION` */
  subject(set: PolicySet, key: Key): Subject {
    return subjectOf(set, key, this.#known);
  }

  /**
   * Requires the key of `slotBy`, for a change by hand. Otherwise the change would apply to requests without such a key.
   *
   * @throws HeadgateError `HEADGATE_INVALID_KEY`
   */
  checkSlot(subject: Subject, key: Key): Subject {
    const { slotBy } = this.by;
    const has = typeof key === 'string' ? slotBy === DEFAULT_DIMENSION : Object.hasOwn(key, slotBy ?? '');
    if (slotBy === undefined || has) return subject;
    throw new HeadgateError(
      'HEADGATE_INVALID_KEY',
      `key: ${show(key)} has no ${slotBy}. This limiter counts every other key within its ${slotBy} (slotBy: ${show(slotBy)}). Add the key: ` +
        `{ ..., ${slotBy}: 'which' }. For requests without one, pass ${slotBy}: undefined.`,
    );
  }

  /**
   * The owner of charges, for a change by hand. Beside other keys, the key of `slotBy` only selects the slot.
   *
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`
   */
  chargedTo(set: PolicySet, key: Key): Subject {
    const subject = this.checkSlot(this.subject(set, key), key);
    const others = withinSlot(subject.set);
    return others.policies.length === 0 ? subject : { ...subject, set: others };
  }

  #allKnown(): string[] {
    return [...this.by.known, ...(this.#everything.dimensions?.names ?? [])];
  }
}

/** @throws HeadgateError `HEADGATE_DIMENSIONS` if a store cannot decide by the dimensions of a set */
export function checkDimensions(store: Store, set: PolicySet): void {
  if (!set.dimensions) return;
  if (store.checkDimensions) return store.checkDimensions(set);
  throw new HeadgateError(
    'HEADGATE_DIMENSIONS',
    'store: this store does not support dimensions, so policies with `by` would count wrong keys. Use memoryStore, redisStore or stateStore; ' +
      `or support dimensions, and add the method \`checkDimensions\`: see ${DOCS}/extending.md.`,
  );
}
