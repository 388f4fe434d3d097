import { limitDimension, visiblePolicies, withHidden } from '../../features/shares/contract/shares.js';
import { lazy } from '../../common/lazy.js';
import { memo } from '../../common/memo.js';
import type { Warn } from '../../common/warnings.js';
import {
  changedPolicy,
  limitsOf,
  type PolicyChange,
} from '../../features/overrides/contract/change-policy.js';
import { withPolicies } from '../../contract/dimensions.js';
import { show } from '../../common/errors.js';
import { DEFAULT_DIMENSION, type Key } from '../../contract/key.js';
import { lacksLimits, parseClientChange, type ClientChange } from '../../features/overrides/key-limits.js';
import {
  AS_CONFIGURED,
  LIMITS_PREFIX,
  recordDimensions,
  textOfDimension,
  TIER_PREFIX,
  UNREADABLE,
  type AppliedOverrides,
  type OverrideEntry,
  type OverrideRecord,
} from '../../features/overrides/contract/records.js';
import { policyWith } from '../../contract/compile-policies.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { perSet, type PolicySet, type Store } from '../../contract/store.js';
import { changedSet } from '../../contract/variant.js';
import type { Scope } from '../scope.js';
import type { Tiers } from '../tiers.js';
import { asPatient } from '../waiting/waiting-set.js';
import { asInLine, outOfLine } from '../waiting/process-line.js';
import { isOf, tierOf, type ChangeChecks, type ChangesByPolicy } from './changes.js';
import type { OverrideChange } from './override.js';

/** The client changes of a key by dimension, as in `Reply.clientChanges`. */
export type ClientChanges = Readonly<Record<string, string>>;

/** The most sets that are kept for the client changes of keys. */
const MAX_SETS = 1000;

/** The interval at which the override of all keys is read, ms. */
export const POLL_MS = 1000;

interface KeyChange extends ClientChange {
  readonly by: string;
  readonly isTier: boolean;
}

/** A change as `#apply` applies it. */
interface Applied extends Pick<ClientChange, 'json' | 'ids'> {
  /** The dimension of the key; undefined for all keys. */
  readonly by: string | undefined;
  /** Whether a policy may change. @default every policy of the dimension */
  readonly applies?: (policy: CompiledPolicy) => boolean;
}

export interface SetParts {
  readonly store: Store;
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
  /** The revision with which to ask about a key without a client change: the store returns changes of limits alone if they matter. */
  readonly unknown: string;
  readonly #sets = perSet((set) => ({
    of: lazy(() => this.#setsOf(set)),
    ofChange: this.#withRecord(set),
    unreadBy: lazy(() => this.#unreadBy(set)),
  }));

  constructor(parts: SetParts, record: OverrideRecord, entry: OverrideEntry | undefined) {
    this.#parts = parts;
    this.record = record;
    this.entry = entry;
    this.unknown = entry && isOfPolicies(entry, parts.checks) ? LIMITS_PREFIX : '';
  }

  /** The set that decides about a key. @param changes the client changes of the key; undefined for a key without client changes */
  of(set: PolicySet, changes: ClientChanges | undefined): PolicySet {
    return this.#sets(set).of()(changes);
  }

  /** The set by which a charge is changed later. */
  ofChange(set: PolicySet): PolicySet {
    return this.#sets(set).ofChange;
  }

  /** The dimensions with a record that questions by a set do not read, although the record may change the set's policies. */
  unreadBy(set: PolicySet): readonly string[] {
    return this.#sets(set).unreadBy();
  }

  #unreadBy({ policies, overrides }: PolicySet): readonly string[] {
    const { tierDimensions } = this.#parts.checks;
    const dimensions = new Set([...tierDimensions, ...Object.keys(overrides?.revisions ?? {})]);
    return [...dimensions].filter((by) => !policies.some(isOf(by)));
  }

  #setsOf(set: PolicySet): (changes: ClientChanges | undefined) => PolicySet {
    const create = (_: string, changes: ClientChanges): PolicySet => {
      const visible = outOfLine(set);
      const own = this.#ending(visible, this.#keyChanges(changes), this.entry);
      if (own !== visible) this.#parts.scope.remember(own.policies, true);
      return asInLine(own, set);
    };
    const withoutChanges = create('', {});
    const withChanges = memo(MAX_SETS, create);
    return (changes) => (changes ? withChanges(JSON.stringify(changes), changes) : withoutChanges);
  }

  /**
   * A set as overrides change it, with the set that follows at the next end of a client change.
   *
   * @param behind set for a set that follows: its start, and the revisions that are in force now
   */
  #ending(
    set: PolicySet,
    keyChanges: readonly KeyChange[],
    entry: OverrideEntry | undefined,
    behind?: Pick<AppliedOverrides, 'revisions' | 'from'>,
  ): PolicySet {
    const { store, scope } = this.#parts;
    const overridden = asPatient(this.#overridden(set, keyChanges, entry), set);
    const own = behind ? applying(overridden, behind) : overridden;
    // Another process reads later that the change of all keys has ended.
    const isClientChange = entry !== undefined && (entry.revision !== '' || this.unknown !== '');
    const endOfAll = isClientChange ? entry.until + (store.embedded ? 0 : 2 * POLL_MS) : Infinity;
    const at = Math.min(endOfAll, ...keyChanges.map(({ until }) => until));
    if (at === Infinity) return own;
    const names = scope.everything.dimensions?.names ?? [DEFAULT_DIMENSION];
    const revisions = behind?.revisions ?? {
      ...Object.fromEntries(names.map((by) => [by, this.unknown])),
      ...Object.fromEntries(keyChanges.map((change) => [change.by, change.revision])),
    };
    const left = keyChanges.filter(({ until }) => until > at);
    const next = endOfAll > at ? entry : undefined;
    const later = lazy(() => this.#ending(set, left, next, { revisions, from: at }));
    return applying(own, { later: { at, set: later } });
  }

  /**
   * A set with the record of all keys, if the store needs the record. The store decides by the limits of the entry in force, until the
   * entry ends. The debts of buckets depend on earlier rates, too.
   */
  #withRecord(set: PolicySet): PolicySet {
    const { overrides = AS_CONFIGURED, policies } = set;
    const isNeeded = this.entry?.revision === '' || policies.some(({ traits }) => traits.drains);
    const all = isNeeded ? this.record : '';
    return all === overrides.all ? set : applying(set, { all });
  }

  /**
   * A set as overrides change it, in the only place that knows the order of changes. The tier comes first: the tier of a key, or else of all
   * keys; of two keys with a tier, the key of the dimension that the limiter names last. The changes of the tier's policies follow: the change
   * of all keys, except for policies that a key's own change names, or where a key has a separate tier, and the changes of each key. The store
   * itself applies changes of limits alone.
   */
  #overridden(set: PolicySet, keyChanges: readonly KeyChange[], entry: OverrideEntry | undefined): PolicySet {
    const isTier = entry?.revision.startsWith(TIER_PREFIX);
    const ofAll = entry && { json: entry.json, ids: new Set(entry.limits.keys()), by: undefined };
    const applied = new Set<string>();
    let own = ofAll && isTier ? this.#apply(set, ofAll) : set;
    const apply = (change: KeyChange): void => {
      if (change.revision === UNREADABLE) return;
      const changed = this.#apply(own, { ...change, ...withoutLimits(change, isOf(change.by)) });
      if (changed !== own) applied.add(change.by);
      own = changed;
    };
    for (const change of keyChanges) if (change.isTier) apply(change);
    const isOfAll = ofAll !== undefined && !isTier && this.unknown !== '';
    const dimensions = isOfAll ? recordDimensions({ policies: visiblePolicies(own.policies) }) : [];
    if (ofAll && dimensions.length > 0) {
      const named = this.#named(own, keyChanges);
      const { applies } = withoutLimits({ ...entry, ...ofAll }, (policy) => !named(policy));
      own = this.#apply(own, { ...ofAll, applies });
    }
    for (const change of keyChanges) if (!change.isTier && own.policies.some(isOf(change.by))) apply(change);
    // The store compares the revisions of every record it reads, including changes without effect here.
    const read = keyChanges.filter(({ by }) => applied.has(by) || own.policies.some(isOf(by)));
    if (read.length === 0 && dimensions.length === 0) return this.#withRecord(own);
    const revisions = Object.fromEntries([
      ...dimensions.map((by) => [by, LIMITS_PREFIX] as const),
      ...read.map((change) => [change.by, change.revision] as const),
    ]);
    return this.#withRecord(applying(own, { revisions }));
  }

  /** Finds the policies that the change of all keys leaves alone, because a key's own change names the policy or gives another tier. */
  #named(set: PolicySet, keyChanges: readonly KeyChange[]): (policy: CompiledPolicy) => boolean {
    const names = keyChanges.map(({ by, json, isTier }) => {
      if (isTier) return undefined;
      try {
        return new Set(this.#changesOf(set, json, by)?.keys());
      } catch (error) {
        reportMisfit(this.#parts, json, error);
        return new Set<string>();
      }
    });
    return ({ by, name }) =>
      keyChanges.some((change, i) => change.by === by && (names[i]?.has(name) ?? true));
  }

  #keyChanges(changes: ClientChanges): KeyChange[] {
    const names = this.#parts.scope.everything.dimensions?.names ?? [DEFAULT_DIMENSION];
    return names.flatMap((by) => {
      const change = parseClientChange(textOfDimension(changes, by));
      return change ? [{ ...change, by, isTier: change.revision.startsWith(TIER_PREFIX) }] : [];
    });
  }

  /** Applies a change to a set. Policies that the change does not fit are reported, and keep their limits. */
  #apply(set: PolicySet, { json, ids, by, applies = isOf(by) }: Applied): PolicySet {
    const { tiers, scope, store } = this.#parts;
    try {
      const changes = this.#changesOf(set, json, by);
      if (!changes) {
        const tier = tierOf(changeIn(json));
        return withPolicies(set, tiers.of(tier).policies, scope.by, { tier });
      }
      const isFixed = by === undefined || limitDimension(by) === undefined;
      const policies = visiblePolicies(set.policies).flatMap((policy) => {
        const own = applies(policy) ? changes.get(policy.name) : undefined;
        if (own === undefined) return [policy];
        try {
          return own === false ? [] : [changed(policy, own, ids, isFixed)];
        } catch (error) {
          reportMisfit(this.#parts, json, error);
          return [policy];
        }
      });
      const made = withPolicies(set, withHidden(policies), scope.by);
      store.checkDimensions?.(made);
      return made;
    } catch (error) {
      reportMisfit(this.#parts, json, error);
      return set;
    }
  }

  /** The part of a change that fits, by the names of policies. Undefined for another tier. @throws if nothing fits */
  #changesOf(set: PolicySet, json: string, by: string | undefined): ChangesByPolicy | undefined {
    const { checks } = this.#parts;
    // A change may name policies that only other tiers, or other requests, have.
    const sets = [visiblePolicies(set.policies).filter(isOf(by)), ...checks.policiesBy(by)];
    const { changes, misfit } = checks.fitting(changeIn(json), by, sets);
    if (misfit) reportMisfit(this.#parts, json, misfit);
    return changes;
  }
}

/** A changed policy; or the policy itself if the store applies its limits, which keeps the charges of a bucket. @param isFixed see `CompiledPolicy` */
function changed(
  policy: CompiledPolicy,
  change: string | PolicyChange,
  ids: ReadonlySet<string>,
  isFixed: boolean,
): CompiledPolicy {
  const to = changedPolicy(policy, change);
  if (policy.traits.drains && ids.has(policy.id) && limitsOf(policy, to)) return policy;
  return isFixed || policy.isFixed ? policyWith(to, { isFixed: true }) : to;
}

/** If an entry has limits alone, the caller changes only policies whose limits the entry lacks. */
function withoutLimits(
  { revision, ids }: Pick<ClientChange, 'revision' | 'ids'>,
  applies: (policy: CompiledPolicy) => boolean,
): Required<Pick<Applied, 'applies'>> {
  const isOfLimits = revision === '' || revision.startsWith(LIMITS_PREFIX);
  return { applies: isOfLimits ? (policy) => applies(policy) && !ids.has(policy.id) : applies };
}

function applying(set: PolicySet, change: Partial<PolicySet['overrides']>): PolicySet {
  return changedSet(set, { overrides: { ...(set.overrides ?? AS_CONFIGURED), ...change } });
}

/** Whether the caller changes policies by an entry of all keys. Another tier concerns each key in the same way. */
function isOfPolicies(entry: OverrideEntry, checks: ChangeChecks): boolean {
  if (entry.revision !== '') return !entry.revision.startsWith(TIER_PREFIX);
  return !entry.isDamaged && (checks.isDynamic || lacksLimits(entry, checks.policiesBy(undefined).flat()));
}

function changeIn(json: string): OverrideChange {
  return (JSON.parse(json) as { change: OverrideChange }).change;
}

/** Warns of an override that does not fit all policies, once for each change. */
function reportMisfit({ warn, name }: SetParts, json: string, error: unknown): void {
  warn(
    'HEADGATE_OVERRIDE_UNREADABLE',
    `The limiter ${JSON.stringify(name)} cannot apply all of an override, so policies that it does not fit keep their limits: ${json} ` +
      `(${error instanceof Error ? error.message : String(error)}) ${REPLACE}`,
    `${name} ${json}`,
  );
}

/** Warns of an override that cannot be read, once for each text or key. @param text the record @param key its key */
export function reportUnreadable({ warn, name }: SetParts, text: string, reason: string, key?: Key): void {
  const of = key === undefined ? '' : ` of ${show(key)}`;
  warn(
    'HEADGATE_OVERRIDE_UNREADABLE',
    `The limiter ${JSON.stringify(name)} cannot apply an override${of}, so the configured limits stay in force: ${text} (${reason}) ${REPLACE}`,
    `${name} ${key === undefined ? text : JSON.stringify(key)}`,
  );
}

const REPLACE = "Remove the override, or replace it by one that fits the limiter's policies.";
