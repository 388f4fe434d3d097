import type { Reply } from '../contract/reply.js';
import type { ChargeChange, PolicySet, Query, Subject } from '../contract/store.js';
import { factOf } from '../contract/variant.js';
import { attempts } from './attempts/attempts.js';
import { bans, freshBans } from './bans/bans.js';
import type { Feature, RequestOption, Tag } from './feature.js';
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

/** The options of single requests by which they have a feature. */
const OPTIONS = FEATURES.flatMap(({ option }) => option ?? []);

export const OPTION_NAMES: readonly string[] = OPTIONS.map(({ name }) => name);

/** The bits of the kinds of requests that the store must see. */
const SEEN_BY_STORE = OPTIONS.reduce((bits, { needsStore }, i) => (needsStore ? bits | (1 << i) : bits), 0);

/** The kind of a request: a bit for each of these options that it has. Requests of different kinds have different features. */
export function kindOf(query: Pick<Query, RequestOption['name']>): number {
  let kind = 0;
  for (let i = 0; i < OPTIONS.length; i++) if (query[OPTIONS[i]!.name] !== undefined) kind |= 1 << i;
  return kind;
}

/** The kind of the request whose charge changes. */
export function kindOfChange(change: ChargeChange): number {
  return OPTIONS.reduce((kind, option, i) => (change[option.change] ? kind | (1 << i) : kind), 0);
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
  const possible = FEATURES.filter(({ option }) => !option || (kind & (1 << OPTIONS.indexOf(option))) !== 0);
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
