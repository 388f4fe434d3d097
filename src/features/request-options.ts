import type { RequestFields } from '../contract/features.js';
import type { PolicySet, Store } from '../contract/store.js';
import { OPTIONS } from './features.js';

const namesOf = (isForAll: boolean): readonly string[] =>
  OPTIONS.filter((option) => isForAll === (option.isForAll ?? false)).map(({ name }) => name);

/** The names of the features' options that all methods take, and of those that only `consume` takes. */
export const ASKING_OPTIONS = namesOf(true);
export const CHARGING_OPTIONS = namesOf(false);

/** The features' options among those of a method, checked, or undefined if there are none. */
export function fieldsOf(given: RequestFields): RequestFields | undefined {
  let fields: RequestFields | undefined;
  for (const { name, check } of OPTIONS) {
    const value = given[name];
    if (value === undefined) continue;
    check?.(value);
    fields = { ...fields, [name]: value };
  }
  return fields;
}

/** The fields of a request that charges nothing. */
export function fieldsOfLook(fields: RequestFields | undefined): RequestFields | undefined {
  let kept: RequestFields | undefined;
  for (const { name, isForAll } of OPTIONS)
    if (isForAll && fields?.[name] !== undefined) kept = { ...kept, [name]: fields[name] };
  return kept;
}

/** Checks fields that depend on the policies. @throws as `Limiter.consume` */
export function checkFields(fields: RequestFields, set: PolicySet, store: Store): void {
  for (const { name, checkFor } of OPTIONS)
    if (fields[name] !== undefined) checkFor?.(fields[name], set, store);
}
