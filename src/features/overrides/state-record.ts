import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { changeRecord, OVERRIDE_TAG, type OverrideRecord, type RecordChange } from './contract/records.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { MaybePromise, OverridePlace, OverrideStore, PolicySet, Subject } from '../../contract/store.js';
import { ownerTextOfAll } from './record-keys.js';

/** An entry of a key's state, with its end. */
type Entry = readonly [until: number, ...(string | number | object)[]];

/** The record among the entries of a key's state, empty if there is none. */
export function recordAmong(entries: { get(id: string): Entry | undefined }): OverrideRecord {
  const record = entries.get(OVERRIDE_TAG)?.[1];
  return typeof record === 'string' ? record : record === undefined ? '' : JSON.stringify(record);
}

/** Changes the record. @param policies the policies that the change concerns @returns the record before the change */
export function changeAmong(
  entries: Map<string, Entry>,
  change: RecordChange,
  policies: readonly CompiledPolicy[],
  now: number,
): OverrideRecord {
  const before = recordAmong(entries);
  const { record, until } = changeRecord(before, change, now);
  for (const { id, traits } of policies) {
    const [stop, ...saved] = entries.get(id) ?? [0];
    const paidAt = now + (change.debtLife ?? 0);
    if (traits.drains && stop > now) entries.set(id, [Math.max(stop, paidAt), ...saved]);
  }
  entries.set(OVERRIDE_TAG, [record === '' ? 0 : until, record]);
  return before;
}

/** The states of a subject's keys. Each method is like that of `OverrideStore`, for the key of a dimension. */
export interface OverrideStates {
  readonly now: number;
  overridesOf(subject: Subject, by: string): OverrideRecord;
  override(subject: Subject, by: string, change: RecordChange): void;
}

/** The overrides of a store that keeps the states of keys. @param ask runs a function with the states of a subject, whose time only they know */
export function overridesAmong(
  ask: <T>(subject: Subject, run: (states: OverrideStates) => T) => MaybePromise<T>,
): OverrideStore {
  const onRecord = (
    place: OverridePlace,
    change: (states: OverrideStates, subject: Subject, by: string) => void,
  ): MaybePromise<readonly [OverrideRecord, number]> => {
    const { subject, by } = 'subject' in place ? place : allKeysOf(place.set);
    return ask(subject, (states) => {
      const record = states.overridesOf(subject, by);
      change(states, subject, by);
      return [record, states.now] as const;
    });
  };
  return {
    read: (place) => onRecord(place, () => {}),
    change: (place, change) => onRecord(place, (states, subject, by) => states.override(subject, by, change)),
  };
}

/** A subject for all keys of a limiter. No limiter has its name, because names have at least one character. */
function allKeysOf({ name, timeout }: PolicySet): { subject: Subject; by: string } {
  const set: PolicySet = { name: '', policies: [], timeout };
  return { subject: { set, key: name }, by: DEFAULT_DIMENSION };
}

/** The owner text of a subject's record in the log. @param owner that of the subject */
export function ownerOfRecord({ set, key }: Subject, owner: string): string {
  return set.name === '' ? ownerTextOfAll(key as string) : owner;
}
