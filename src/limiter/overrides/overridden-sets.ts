import { visiblePolicies } from '../../contract/shares.js';
import { withHidden } from '../../contract/compile-policies.js';
import { memo } from '../../common/memo.js';
import type { Warn } from '../../common/warnings.js';
import { changedPolicy } from '../../contract/change-policy.js';
import { withPolicies } from '../../contract/dimensions.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import {
  AS_CONFIGURED,
  TIER_PREFIX,
  type OverrideEntry,
  type OverrideRecord,
} from '../../contract/overrides.js';
import { perSet, type PolicySet, type Store } from '../../contract/store.js';
import type { Scope } from '../scope.js';
import type { Tiers } from '../tiers.js';
import { asPatient } from '../waiting/patient.js';
import { asInLine, outOfLine } from '../waiting/process-line.js';
import { isOf, tierOf, type ChangeChecks } from './changes.js';
import type { OverrideChange } from './override.js';

/** The client changes of a key by dimension, as in `Reply.clientChanges`. */
export type ClientChanges = Readonly<Record<string, string>>;

/** The most sets that are kept for the client changes of keys. */
const MAX_SETS = 1000;

/** A client change of a key. */
interface KeyChange {
  readonly by: string;
  readonly revision: string;
  readonly json: string;
  readonly isTier: boolean;
}

/** The parts of a limiter from which sets are created. */
export interface SetParts {
  readonly store: Store;
  /** The limiter's name. */
  readonly name: string;
  readonly tiers: Tiers;
  readonly scope: Scope;
  readonly checks: ChangeChecks;
  readonly warn: Warn;
}

/** The sets by which overridden keys are decided. The sets are replaced when the override of all keys changes. */
export class OverriddenSets {
  readonly #parts: SetParts;
  /** The record of all keys, and the record's entry in force. */
  readonly record: OverrideRecord;
  readonly entry: OverrideEntry | undefined;
  readonly #sets = perSet((set) => this.#setsOf(set));
  readonly #changeSets = perSet((set) => this.#withRecord(set));

  constructor(parts: SetParts, record: OverrideRecord, entry: OverrideEntry | undefined) {
    this.#parts = parts;
    this.record = record;
    this.entry = entry;
  }

  /** The set that decides about a key. @param changes the client changes of the key; undefined for a key without client changes */
  of(set: PolicySet, changes: ClientChanges | undefined): PolicySet {
    return this.#sets(set)(changes);
  }

  /** The set by which a charge is changed later. */
  ofChange(set: PolicySet): PolicySet {
    return this.#changeSets(set);
  }

  #setsOf(set: PolicySet): (changes: ClientChanges | undefined) => PolicySet {
    const create = (_: string, changes: ClientChanges): PolicySet => {
      const visible = outOfLine(set);
      const own = asPatient(this.#overridden(visible, changes), visible);
      if (own !== visible) this.#parts.scope.remember(own.policies, true);
      return asInLine(own, set);
    };
    const withoutChanges = create('', {});
    const withChanges = memo(MAX_SETS, create);
    return (changes) => (changes ? withChanges(JSON.stringify(changes), changes) : withoutChanges);
  }

  /**
   * A set with the record of all keys, if the store needs the record. The store decides by the limits of the entry in force, until the
   * entry ends. The debts of buckets depend on earlier rates, too.
   */
  #withRecord(set: PolicySet): PolicySet {
    const { overrides = AS_CONFIGURED, policies } = set;
    const isNeeded = this.entry?.revision === '' || policies.some(({ traits }) => traits.drains);
    const all = isNeeded ? this.record : '';
    return all === overrides.all ? set : { ...set, overrides: { ...overrides, all } };
  }

  /**
   * A set as overrides change it, in the only place that knows the order of changes. The tier comes first: the tier of a key, or else of all
   * keys; of two keys with a tier, the key of the dimension that the limiter names last. The changes of the tier's policies follow: the change
   * of all keys, except where a key has a separate tier, and the changes of each key. The store itself applies changes of limits alone.
   */
  #overridden(set: PolicySet, changes: ClientChanges): PolicySet {
    const keyChanges = this.#keyChanges(changes);
    const { revision = '', json = '' } = this.entry ?? {};
    const isTier = revision.startsWith(TIER_PREFIX);
    const applied = new Set<string>();
    let own = isTier ? this.#apply(set, json, undefined) : set;
    const apply = (change: KeyChange): void => {
      const changed = this.#apply(own, change.json, change.by);
      if (changed !== own) applied.add(change.by);
      own = changed;
    };
    for (const change of keyChanges) if (change.isTier) apply(change);
    if (revision !== '' && !isTier)
      own = this.#apply(
        own,
        json,
        undefined,
        ({ by }) => !keyChanges.some((change) => change.isTier && change.by === by),
      );
    for (const change of keyChanges) if (!change.isTier && own.policies.some(isOf(change.by))) apply(change);
    // The store compares the revisions of every record it reads, including changes without effect here.
    const read = keyChanges.filter(({ by }) => applied.has(by) || own.policies.some(isOf(by)));
    if (read.length === 0) return this.#withRecord(own);
    const revisions = Object.fromEntries(read.map((change) => [change.by, change.revision]));
    return this.#withRecord({ ...own, overrides: { ...AS_CONFIGURED, revisions } });
  }

  /** The client changes in the order of the limiter's dimensions. */
  #keyChanges(changes: ClientChanges): KeyChange[] {
    const names = this.#parts.scope.everything.dimensions?.names ?? [DEFAULT_DIMENSION];
    return names.flatMap((by) => {
      const [revision = '', json = ''] = (changes[by] ?? '').split('\t');
      return revision === '' ? [] : [{ by, revision, json, isTier: revision.startsWith(TIER_PREFIX) }];
    });
  }

  /**
   * Applies a change to a set. A change that does not fit is reported, and leaves the set unchanged.
   *
   * @param by the dimension of the key; undefined for all dimensions
   * @param applies whether a policy may change
   */
  #apply(set: PolicySet, json: string, by: string | undefined, applies = isOf(by)): PolicySet {
    const { checks, tiers, scope, store } = this.#parts;
    try {
      const { change } = JSON.parse(json) as { change: OverrideChange };
      // A change may name policies that only other tiers, or other requests, have.
      const visible = visiblePolicies(set.policies);
      const sets = [visible.filter(isOf(by)), ...checks.policiesBy(by)];
      const isSole = sets.every((policies) => policies.length <= 1);
      const changes = checks.byPolicy(change, by, sets, isSole);
      if (!changes) {
        const tier = tierOf(change);
        return withPolicies({ ...set, tier }, tiers.of(tier).policies, scope.by);
      }
      const policies = visible.flatMap((policy) => {
        const own = applies(policy) ? changes.get(policy.name) : undefined;
        return own === undefined ? [policy] : own === false ? [] : [changedPolicy(policy, own)];
      });
      const changed = withPolicies(set, withHidden(policies), scope.by);
      store.checkDimensions?.(changed);
      return changed;
    } catch (error) {
      reportUnreadable(this.#parts, json, String(error instanceof Error ? error.message : error));
      return set;
    }
  }
}

/** Warns of an override that the limiter cannot apply. @param text the record or the change */
export function reportUnreadable({ warn, name }: SetParts, text: string, reason: string): void {
  warn(
    'HEADGATE_OVERRIDE_UNREADABLE',
    `The limiter ${JSON.stringify(name)} cannot apply an override, so the configured limits stay in force: ${text} (${reason}) ` +
      "Remove the override, or replace it by one that fits the limiter's policies.",
  );
}
