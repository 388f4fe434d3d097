import { HeadgateError, show } from '../../common/errors.js';
import { checkShape } from '../../common/validate.js';
import { checkNote, type BanNoteOptions } from '../../contract/ban-options.js';
import { changedPolicy, limitsOf, type PolicyChange } from '../../contract/change-policy.js';
import { compilePolicies } from '../../contract/compile-policies.js';
import { unknownDimension } from '../../contract/dimensions.js';
import { DEFAULT_DIMENSION, type Key } from '../../contract/key.js';
import {
  CLIENT_CHANGE_ID,
  entryInForce,
  entryText,
  isDamaged,
  TIER_PREFIX,
  type OverrideRecord,
} from '../../contract/overrides.js';
import { limitDimension, tenantsOf } from '../../contract/shares.js';
import type { OverridePlace, OverrideStore, PolicySet } from '../../contract/store.js';
import type { Scope } from '../scope.js';
import { revisionOf, type ChangeChecks } from './changes.js';
import { durationOf, overrideOf, type Override, type OverrideChange, type OverrideNote } from './override.js';

/** The parts of a limiter that a writer needs. */
export interface WriterParts {
  readonly records: OverrideStore;
  /** The set of all keys. */
  readonly base: PolicySet;
  readonly scope: Scope;
  readonly checks: ChangeChecks;
  readonly dynamic: boolean;
  /** Called after the override of all keys was changed. */
  readonly onChangeOfAll: () => Promise<void>;
}

/** Sets, reads and removes overrides for the operator of a limiter. */
export class OverrideWriter {
  readonly #parts: WriterParts;

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  /** Sets an override. @returns its place @throws HeadgateError as `Limiter.override` */
  async set(key: Key | undefined, change: OverrideChange, note: OverrideNote = {}): Promise<OverridePlace> {
    const { place, entry, duration } = this.check(key, change, note);
    await this.#write(place, entry, duration);
    return place;
  }

  /** The entry that `set` would write. @throws HeadgateError as `Limiter.override` */
  check(
    key: Key | undefined,
    change: OverrideChange,
    note: OverrideNote,
  ): { readonly place: OverridePlace; readonly entry: string; readonly duration: number } {
    checkShape('override', note, ['for', 'until', 'by', 'reason']);
    const duration = durationOf(note);
    const { by, reason } = checkNote('override', {
      ...(note.by !== undefined && { by: note.by }),
      ...(note.reason !== undefined && { reason: note.reason }),
    });
    const place = this.#placeOf(key);
    const limits = this.#limitsOf(change, dimensionOf(place));
    const json = JSON.stringify({ change, ...(by !== null && { by }), ...(reason !== null && { reason }) });
    return { place, entry: entryText(limits, json), duration };
  }

  /** Ends an override. @returns its place, and whether there was an override */
  async remove(key: Key | undefined, given: BanNoteOptions): Promise<readonly [OverridePlace, boolean]> {
    const { by, reason } = checkNote('removeOverride', given);
    const place = this.#placeOf(key);
    const note = { ...(by !== null && { by }), ...(reason !== null && { reason }) };
    const [before, now] = await this.#write(place, '', 0, note);
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
    place: OverridePlace,
    entry: string,
    duration: number,
    note?: BanNoteOptions,
  ): Promise<readonly [OverrideRecord, number]> {
    const { records, scope, onChangeOfAll } = this.#parts;
    const life = Math.max(0, ...scope.everything.policies.map((policy) => policy.life));
    const before = await records.change(place, { entry, duration, life, ...(note && { note }) });
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

  /** The limits in the entry of a change, or the revision of a client change. @throws HeadgateError */
  #limitsOf(change: OverrideChange, by: string | undefined): Map<string, readonly number[] | string> {
    const { checks, dynamic } = this.#parts;
    const sets = checks.policiesBy(by);
    const changes = checks.byPolicy(change, by, sets);
    if (!changes) return new Map([[CLIENT_CHANGE_ID, TIER_PREFIX + revisionOf(change)]]);
    const limits = new Map<string, readonly number[]>();
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
      const changed = own === false ? undefined : limitsOf(policy, changedPolicy(policy, own));
      if (changed) limits.set(policy.id, changed);
      else isClientChange = true;
    }
    return isClientChange
      ? new Map<string, readonly number[] | string>([[CLIENT_CHANGE_ID, revisionOf(change)], ...limits])
      : limits;
  }
}

function dimensionOf(place: OverridePlace): string | undefined {
  return 'subject' in place ? place.by : undefined;
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
