import { HeadgateError, show } from '../../common/errors.js';
import { warnOfSeconds } from '../../common/duration.js';
import { checkShape } from '../../common/validate.js';
import type { Warn } from '../../common/warnings.js';
import { checkNote, givenIn, type ChangeNoteOptions } from '../../contract/change-note.js';
import {
  changedPolicy,
  limitsOf,
  type PolicyChange,
} from '../../features/overrides/contract/change-policy.js';
import { isOfOtherPolicies } from '../../features/overrides/key-limits.js';
import { compilePolicies } from '../../contract/compile-policies.js';
import { unknownDimension } from '../../contract/dimensions.js';
import { DEFAULT_DIMENSION, type Key } from '../../contract/key.js';
import {
  CLIENT_CHANGE_ID,
  entryInForce,
  entryText,
  isDamaged,
  parseRecord,
  TIER_PREFIX,
  type OverrideRecord,
} from '../../features/overrides/contract/records.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { limitDimension, tenantsOf } from '../../features/shares/contract/shares.js';
import type { OverridePlace, OverrideStore, PolicySet } from '../../contract/store.js';
import type { Scope } from '../scope.js';
import { newRevision, type ChangeChecks } from './changes.js';
import { durationOf, overrideOf, type Override, type OverrideChange, type OverrideNote } from './override.js';

export interface WriterParts {
  readonly records: OverrideStore;
  /** The set of all keys. */
  readonly base: PolicySet;
  readonly scope: Scope;
  readonly checks: ChangeChecks;
  readonly dynamic: boolean;
  readonly warn: Warn;
  /** Called after the override of all keys was changed. */
  readonly onChangeOfAll: () => Promise<void>;
}

interface CheckedChange {
  readonly place: OverridePlace;
  readonly entry: string;
  readonly duration: number;
  /** The longest time for which a charge to a changed policy counts, ms. */
  readonly life: number;
}

/** A change for the policies of a limiter. */
interface LimitsOfChange {
  readonly limits: readonly PolicyLimits[];
  /** The revision of a client change, or an empty text. */
  readonly revision: string;
  /** The longest time for which a charge to a changed policy counts, ms. */
  readonly life: number;
}

/** The limits of a policy as a change makes it. */
interface PolicyLimits {
  readonly id: string;
  readonly numbers: readonly number[];
  /** Whether stores apply the limits. Otherwise the caller does, because the policy gets another id. */
  readonly isStored: boolean;
}

/** Sets, reads and removes overrides for the operator of a limiter. */
export class OverrideWriter {
  readonly #parts: WriterParts;
  /** The writers of the same limiter with other policies. */
  #others: readonly OverrideWriter[] = [];

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  /** Lets entries have the limits for the policies of other writers, too, as far as changes fit those policies. */
  include(others: readonly OverrideWriter[]): void {
    this.#others = others;
  }

  /** Sets an override. @returns its place @throws HeadgateError as `Limiter.override` */
  async set(key: Key | undefined, change: OverrideChange, note: OverrideNote = {}): Promise<OverridePlace> {
    const checked = this.check(key, change, note);
    await this.#write(checked);
    return checked.place;
  }

  /** The entry that `set` would write. @throws HeadgateError as `Limiter.override` */
  check(key: Key | undefined, change: OverrideChange, note: OverrideNote): CheckedChange {
    checkShape('override', note, ['for', 'until', 'by', 'reason']);
    const duration = durationOf(note);
    const operator = checkNote('override', { by: note.by, reason: note.reason });
    const place = this.#placeOf(key);
    const { limits, life } = this.#limitsOfAll(change, 'subject' in place ? place.by : undefined);
    warnOfSpans(change, note, this.#parts.warn);
    const json = JSON.stringify({ change, ...givenIn(operator) });
    return { place, entry: entryText(limits, json), duration, life };
  }

  /**
   * The names of another writer's policies that a change concerns, although it does not fit them all.
   *
   * @throws HeadgateError as `Limiter.override`
   */
  reaches(other: OverrideWriter, key: Key | undefined, change: OverrideChange): readonly string[] {
    const { place, entry: text } = this.check(key, change, {});
    const by = 'subject' in place ? place.by : undefined;
    const entry = parseRecord(`0 0${text}`).at(0)!;
    const { checks } = other.#parts;
    const sets = checks.policiesBy(by);
    const fits = (policy: CompiledPolicy): boolean => {
      try {
        const own = checks.fitting(change, by, sets).changes?.get(policy.name);
        if (own !== undefined && own !== false) changedPolicy(policy, own);
        return own !== undefined;
      } catch {
        return false;
      }
    };
    const names = sets.flatMap((policies) => {
      const isApplied = by === undefined || entry.revision !== '' || isOfOtherPolicies(entry, policies);
      const concerned = policies.filter(
        (policy) => entry.limits.has(policy.id) || (isApplied && fits(policy)),
      );
      return concerned.map(({ name }) => name);
    });
    return [...new Set(names)];
  }

  /** Ends an override. @returns its place, and whether there was an override */
  async remove(key: Key | undefined, given: ChangeNoteOptions): Promise<readonly [OverridePlace, boolean]> {
    const note = givenIn(checkNote('removeOverride', given));
    const place = this.#placeOf(key);
    const [before, now] = await this.#write({ place, entry: '', duration: 0, life: 0 }, note);
    return [place, entryInForce(before, now) !== undefined];
  }

  /** Reads an override. @throws HeadgateError as `Limiter.overrideOf` */
  async of(key: Key | undefined): Promise<Override | undefined> {
    const [record, now] = await this.#parts.records.read(this.#placeOf(key));
    const entry = entryInForce(record, now);
    if (!entry && !isDamaged(record)) return undefined;
    const override = entry && overrideOf(entry);
    if (override) return override;
    throw new HeadgateError(
      'HEADGATE_OVERRIDES',
      `The override cannot be read, so it has no effect: ${show(entry?.json ?? record)}. Replace or remove it.`,
    );
  }

  async #write(
    { place, entry, duration, life: newLife }: CheckedChange,
    note?: ChangeNoteOptions,
  ): Promise<readonly [OverrideRecord, number]> {
    const { records, onChangeOfAll } = this.#parts;
    const policies = [this, ...this.#others].flatMap((each) => each.#parts.scope.everything.policies);
    const life = Math.max(0, ...policies.map((policy) => policy.life));
    // At the end of an override, the configured rate may be the lower one.
    const debtLife = (duration > 0 ? Math.min(duration, newLife) : newLife) + life;
    const before = await records.change(place, { entry, duration, life, debtLife, ...(note && { note }) });
    if (!('subject' in place)) await onChangeOfAll();
    return before;
  }

  /** @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION` */
  #placeOf(key: Key | undefined): OverridePlace {
    const { base, scope, dynamic } = this.#parts;
    if (key === undefined) return { set: base };
    const set = scope.everything;
    const subject = scope.checkSlot(scope.subject(set, key), key);
    const by = dimensionOfKey(key, scope.by.slotBy, set);
    if (set.policies.some((policy) => policy.by === by)) return { subject, by };
    if (!dynamic)
      throw unknownDimension(
        'key',
        by,
        set.policies.map((policy) => policy.by),
      );
    // Later requests may bring policies by this dimension. The place of the key's record does not depend on such policies.
    const later = scope.with(compilePolicies('override', [{ limit: 1, window: 1, by }]));
    return { subject: scope.subject(later, key), by };
  }

  /** The limits in the entry of a change, also for the policies of other writers. @throws HeadgateError if a change does not fit the own ones */
  #limitsOfAll(
    change: OverrideChange,
    by: string | undefined,
  ): { readonly limits: ReadonlyMap<string, readonly number[] | string>; readonly life: number } {
    const own = this.#limitsOf(change, by);
    const others = this.#others.flatMap((other) => {
      try {
        return [other.#limitsOf(change, by)];
      } catch {
        // The processes with these policies keep their limits.
        return [];
      }
    });
    const all = [own, ...others];
    const [limits, areSame] = sameLimits(all.flatMap((each) => each.limits));
    const { revision } = all.find((each) => each.revision !== '') ?? own;
    const written = revision === '' && !areSame ? newRevision() : revision;
    // The revision comes first.
    const first = written === '' ? undefined : ([CLIENT_CHANGE_ID, written] as const);
    const fields = new Map<string, readonly number[] | string>(first ? [first, ...limits] : limits);
    return { limits: fields, life: Math.max(...all.map(({ life }) => life)) };
  }

  /** @throws HeadgateError */
  #limitsOf(change: OverrideChange, by: string | undefined): LimitsOfChange {
    const { checks, dynamic } = this.#parts;
    const sets = checks.policiesBy(by);
    const changes = checks.byPolicy(change, by, sets);
    if (!changes) return { limits: [], revision: TIER_PREFIX + newRevision(), life: 0 };
    let life = 0;
    const limits: PolicyLimits[] = [];
    // The weight of a tenant is not a number of the shared policy itself.
    const isWeight = by !== undefined && limitDimension(by) !== undefined;
    let isClientChange = dynamic || isWeight;
    for (const policy of sets.flat()) {
      const own = changes.get(policy.name);
      if (own === undefined) continue;
      if (isWeight) {
        changedPolicy(policy, own as PolicyChange);
        continue;
      }
      const changed = own === false ? undefined : changedPolicy(policy, own);
      const numbers = changed && limitsOf(policy, changed);
      if (numbers) limits.push({ id: policy.id, numbers, isStored: true });
      else isClientChange = true;
      if (changed && !numbers)
        limits.push({ id: changed.id, numbers: limitsOf(changed, changed)!, isStored: false });
      life = Math.max(life, changed?.life ?? 0);
    }
    return { limits, revision: isClientChange ? newRevision() : '', life };
  }
}

/**
 * The limits that stores apply. Policies with different limits may have the same id, such as the policies of two tiers, or those of two
 * processes, of which the caller has changed one. For these, the caller applies the change.
 *
 * @returns the limits by id, and whether they are those of all policies
 */
function sameLimits(
  all: readonly PolicyLimits[],
): readonly [limits: ReadonlyMap<string, readonly number[]>, areAll: boolean] {
  const limits = new Map<string, readonly number[]>();
  const byId = new Map(all.map(({ id, numbers }) => [id, numbers.join(' ')]));
  const different = new Set(
    all.flatMap(({ id, numbers }) => (byId.get(id) === numbers.join(' ') ? [] : [id])),
  );
  for (const { id, numbers, isStored } of all) if (isStored && !different.has(id)) limits.set(id, numbers);
  return [limits, different.size === 0];
}

/** Warns of times in an override that were probably meant in seconds. @param warn emits the warning */
export function warnOfSpans(change: OverrideChange, note: OverrideNote, warn?: Warn): void {
  warnOfSeconds('for', note.for, 'long', warn);
  if (typeof change === 'string') return;
  for (const fields of [change, ...(Object.values(change) as unknown[])] as (Readonly<
    Record<string, unknown>
  > | null)[])
    for (const span of ['window', 'lease']) warnOfSeconds(`override.${span}`, fields?.[span], 'long', warn);
}

/**
 * The only dimension of a key apart from the slot's. A tenant of a shared limit is named together with the limit's key.
 *
 * @throws HeadgateError `HEADGATE_INVALID_KEY`
 */
function dimensionOfKey(key: Key, slotBy: string | undefined, { policies }: PolicySet): string {
  if (typeof key === 'string') return DEFAULT_DIMENSION;
  const present = Object.keys(key).filter((name) => (key as Record<string, unknown>)[name] !== undefined);
  const isOfTenant = ({ by, share }: (typeof policies)[number], names: readonly string[]): boolean =>
    share !== undefined && names.length === 2 && names.includes(by) && names.includes(share);
  const shared = policies.find((policy) => isOfTenant(policy, present));
  if (shared) return tenantsOf(shared)!;
  const named = present.length > 1 ? present.filter((name) => name !== slotBy) : present;
  const [by, ...more] = named as [string];
  const limit = policies.find(({ share }) => share === by)?.by;
  const isAlone = more.length === 0 && limit !== undefined && !policies.some((policy) => policy.by === by);
  if (more.length === 0 && !isAlone) return by;
  throw new HeadgateError(
    'HEADGATE_INVALID_KEY',
    isAlone
      ? `key: ${show(key)} names a tenant, but not its limit. Pass both: { ${limit}: ..., ${by}: ... }.`
      : `key: ${show(key)} names several keys. Override one at a time: { ${by}: ... }.`,
  );
}
