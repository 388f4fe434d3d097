import type { Reply } from '../contract/reply.js';
import type { RequestFields } from '../contract/features.js';
import type { ChargeChange, PolicySet, Store, Subject } from '../contract/store.js';
import { factOf } from '../contract/variant.js';
import { attempts } from './attempts/attempts.js';
import { bans, freshBans } from './bans/bans.js';
import type { Feature, Tag } from './feature.js';
import { argsBy, type FeatureOptions } from './layout.js';
import { ids } from './ids/ids.js';
import { overrides } from './overrides/overrides.js';
import { shares } from './shares/shares.js';
import { slots } from './slots/slots.js';
import { thresholds } from './thresholds/thresholds.js';

/** All features, in the order in which their hooks run. */
export const FEATURES: readonly Feature[] = [
  ...[overrides, ids, bans, attempts, slots],
  ...[...shares, thresholds, freshBans],
];

/** The options of requests. */
const OPTIONS = FEATURES.flatMap(({ option }) => option ?? []);

/** The options without which a request does not have the feature. */
const KINDS = OPTIONS.filter(({ isForAll }) => !isForAll);

/** The bits of the kinds of requests that the store must see. */
const SEEN_BY_STORE = KINDS.reduce((bits, { needsStore }, i) => (needsStore ? bits | (1 << i) : bits), 0);

/** The kind of a request: a bit for each of these options that it has. Requests of different kinds have different features. */
export function kindOf(query: RequestFields): number {
  let kind = 0;
  for (let i = 0; i < KINDS.length; i++) if (query[KINDS[i]!.name] !== undefined) kind |= 1 << i;
  return kind;
}

/** The kind of the request whose charge changes. */
export function kindOfChange(charge: ChargeChange): number {
  return KINDS.reduce((kind, { change }, i) => (change && charge[change] ? kind | (1 << i) : kind), 0);
}

/** Whether the store must see each request of a kind. */
export function needsStore(kind: number): boolean {
  return (kind & SEEN_BY_STORE) !== 0;
}

const byKind: ((set: PolicySet) => readonly Feature[])[] = [];

/** The features of the decisions by a set. @param kind the kind of the requests */
export function featuresOf(set: PolicySet, kind = 0): readonly Feature[] {
  return (byKind[kind] ??= ofKind(kind))(set);
}

/** A function of its own, because V8 allocates a closure's context at each entry of a function with one. */
function ofKind(kind: number): (set: PolicySet) => readonly Feature[] {
  const possible = FEATURES.filter(({ option }) => {
    const bit = option ? KINDS.indexOf(option) : -1;
    return bit < 0 || (kind & (1 << bit)) !== 0;
  });
  return factOf((set) => possible.filter((feature) => feature.appliesTo(set)));
}

/** The features on which looks, such as usage, depend. */
export function looksOf(set: PolicySet): readonly Feature[] {
  return featuresOf(set).filter(({ isInLooks }) => isInLooks);
}

/** The tags of the Redis keys of a request that only decisions read. */
export function tagsOf(set: PolicySet): readonly Tag[] {
  return featuresOf(set).flatMap(({ tags }) => tags?.(set) ?? []);
}

/** The further set on which the keys and arguments of a set depend, if there is one: see `Feature.beside`. */
export function besideOf(set: PolicySet): PolicySet | undefined {
  for (const { beside } of featuresOf(set)) if (beside) return beside(set);
  return undefined;
}

/** The tags of entries in the state of a key that do not begin with a capital letter. */
const ENTRY_TAGS = FEATURES.flatMap(({ entryTag }) => entryTag ?? []);

/** Whether an entry in the state of a key is that of a feature. */
export function isOfFeature(id: string): boolean {
  return /^[A-Z]/.test(id) || ENTRY_TAGS.includes(id);
}

/** The arguments of features, by the scripts that read them: `evaluate.lua`, `evaluate-single.lua` and `adjust.lua`. */
export type OwnArgs = Readonly<Record<keyof NonNullable<Feature['lastArgs']>, readonly string[]>>;

export function ownArgs(features: readonly Feature[], set: PolicySet, options: FeatureOptions): OwnArgs {
  const change = features.flatMap(({ args }) => argsBy(args, set, options));
  const decision = features.flatMap(({ decisionArgs }) => argsBy(decisionArgs, set, options)).concat(change);
  const last = (of: keyof OwnArgs) => features.flatMap(({ lastArgs }) => lastArgs?.[of](set) ?? []);
  return {
    decision: [...decision, ...last('decision')],
    single: [...decision, ...last('single')],
    change: [...change, ...last('change')],
  };
}

/** Passes each answer of a store to the features. A store calls this even if the caller no longer waits. */
export function answered(subject: Subject, reply: Partial<Reply>): void {
  for (const feature of FEATURES) feature.answered?.(subject, reply);
}

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
