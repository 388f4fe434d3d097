import type { MemoryColumn } from '../../algorithms/index.js';
import { costAt, type Costs } from '../../contract/costs.js';
import {
  LIMITS_PREFIX,
  parseEntryNote,
  parseRecord,
  recordIdOf,
  textOfDimension,
  UNFOUND_ID,
  type OverrideEntry,
  type OverrideRecord,
} from './contract/records.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Reply, UsageReply } from '../../contract/reply.js';
import type { PolicySet } from '../../contract/store.js';
import { factOf } from '../../contract/variant.js';
import { admits, attemptWait, NEVER, nextWait } from '../../contract/verdicts.js';
import type { Place } from '../feature.js';
import type { KeyLimits } from './limits.js';

/** The most records whose limits are remembered for a set. */
const MAX_RECORDS = 1000;

/** The limits of a record during a time in which no override begins or ends, ms since the epoch. */
interface Span {
  readonly from: number;
  readonly until: number;
  readonly limits: KeyLimits;
}

/** The last span of each record that keys of a set have of their own. */
const spansOf = factOf((_: PolicySet) => new Map<OverrideRecord, Span>());

/** The limits of keys without a record, if there is none of all keys either. */
const configuredOf = factOf((set): KeyLimits => {
  const { policies } = set;
  return { record: '', entry: undefined, policies, isKnown: isKnown(set, undefined) };
});

/** The limits of a key. @param record the key's own record */
export function limitsOf(set: PolicySet, record: OverrideRecord, now: number): KeyLimits {
  if (record === '' && set.overrides!.all === '') return configuredOf(set);
  const spans = spansOf(set);
  let span = spans.get(record);
  if (!span || now < span.from || now >= span.until) {
    if (spans.size >= MAX_RECORDS) spans.clear();
    spans.set(record, (span = spanAt(set, record, now)));
  }
  return span.limits;
}

function spanAt(set: PolicySet, record: OverrideRecord, now: number): Span {
  const { all } = set.overrides!;
  const entry = parseRecord(record).readable(now);
  const overrides = parseRecord(all === '' ? record : `${record}\n${all}`);
  const entriesAt = (time: number) => overrides.entries(set.policies, time);
  const ends = (time: number) => entriesAt(time).map((entry) => entry?.until ?? Infinity);
  const policiesAt = (time: number) => overrides.policies(set.policies, entriesAt(time));
  const policies = policiesAt(now);
  const next = ends(now).some(Number.isFinite) ? { ends, policies: policiesAt } : undefined;
  const changed = policies.map(({ limit }) => limit);
  const limits = { record, entry, policies, changed, next, isKnown: isKnown(set, entry) };
  return { ...overrides.span(now), limits };
}

/** Whether the caller has applied the change of an entry that a store cannot apply. @param set the policies of one dimension */
function isKnown({ policies, overrides }: PolicySet, entry: OverrideEntry | undefined): boolean {
  if (policies.length === 0) return true;
  const revision = textOfDimension(overrides!.revisions, policies[0]!.by);
  return revisionIn(entry, policies, revision) === revision;
}

/** The changes that the caller must apply before a decision is possible: see `Reply.clientChanges`. */
export function clientChanges(
  places: readonly Place[],
  set: PolicySet,
): Pick<Reply, 'clientChanges'> | undefined {
  if (places.every(({ limits }) => limits!.isKnown)) return undefined;
  const changes: Record<string, string> = {};
  for (const { part, limits } of places) {
    const { policies } = part.set;
    if (policies.length === 0) continue;
    const entry = limits?.entry;
    const revision = textOfDimension(set.overrides!.revisions, part.name);
    changes[part.name] = clientChangeOf(entry, policies, revision);
  }
  return { clientChanges: changes };
}

/** Adds the limits that overrides give the keys to a reply. */
export function replyWithLimits(places: readonly Place[], reply: Reply): Reply {
  if (places.length === 1) {
    const { changed } = places[0]!.limits!;
    return changed ? Object.assign(reply, { limits: changed }) : reply;
  }
  if (places.every(({ policies, part }) => policies === part.set.policies)) return reply;
  const limits: number[] = [];
  for (const { policies, part } of places) part.at.forEach((n, i) => (limits[n] = policies[i]!.limit));
  return { ...reply, limits };
}

export function recordsOf(places: readonly Place[]): Pick<UsageReply, 'records'> {
  return { records: Object.fromEntries(places.map(({ part, limits }) => [part.name, limits!.record])) };
}

/**
 * Moves the waits in the columns across the ends of overrides. Each denial ends when the limits of that time admit, and the longest lasts
 * until all policies admit, also those that admit now only until their override ends. A look behind the end of an override counts from
 * that end.
 *
 * @param costsOf the costs of a place
 */
export function waitAcross(places: readonly Place[], costsOf: (place: Place) => Costs, now: number): void {
  if (!places.some(({ limits }) => limits?.next)) return;
  const { from: start = now } = places[0]!.part.set.overrides!;
  let longest: MemoryColumn | undefined;
  let end = Math.max(now, start);
  let isNever = false;
  const ending: ((from: number) => number)[] = [];
  for (const place of places) {
    const next = place.limits?.next;
    for (const [i, column] of place.columns.entries()) {
      const { shadow, share, isHidden, attempts } = place.policies[i]!;
      const from = (time: number): number => admittedAt(place, i, costAt(costsOf(place), i), time);
      const isDenial = !admits(column.wait);
      if (next && (isDenial || nextWait(column.wait, attempts) > 0)) {
        const at = from(now);
        const wait = at === NEVER ? NEVER : at - now;
        column.wait = isDenial ? wait : attemptWait(wait);
      }
      if (shadow || share !== undefined || isHidden) continue;
      if (start > now) longest ??= column;
      if (next) ending.push(from);
      const wait = nextWait(column.wait, attempts);
      isNever ||= wait === NEVER;
      end = Math.max(end, now + wait);
      if (!admits(column.wait) && column.wait >= (longest?.wait ?? 0)) longest = column;
    }
  }
  if (!longest || isNever) return;
  for (let isLater = true; isLater;) {
    isLater = false;
    for (const from of ending) {
      const at = from(end);
      if (at === NEVER) {
        longest.wait = NEVER;
        return;
      }
      if (at <= end) continue;
      [end, isLater] = [at, true];
      longest.wait = at - now;
    }
  }
}

/** The time from which a policy admits a cost, at the earliest `from`, or {@link NEVER}. */
function admittedAt({ columns, row, limits }: Place, i: number, cost: number, from: number): number {
  const next = limits!.next!;
  const column = columns[i]!;
  const { wait, remaining, reset } = column;
  const restore = (): void => void Object.assign(column, { wait, remaining, reset });
  for (let time = from; ;) {
    column.look(row, next.policies(time)[i]!.params, cost, time);
    const later = column.wait;
    const end = next.ends(time)[i]!;
    restore();
    if (admits(later)) return time;
    if (end === Infinity && later === NEVER) return NEVER;
    if (later !== NEVER && time + later < end) return time + later;
    time = end;
  }
}

/**
 * Whether an entry of limits was written by a process with other policies, as during a deployment: it has limits of none of these policies, or
 * only those of another policy with the same name. The caller applies such a change. The script `apply-overrides.lua` does the same.
 *
 * @param policies the caller's policies of the key's dimension
 */
export function isOfOtherPolicies({ limits }: OverrideEntry, policies: readonly CompiledPolicy[]): boolean {
  const ids = policies.map(recordIdOf).filter((id) => id !== UNFOUND_ID);
  const missing = ids.filter((id) => !limits.has(id));
  if (missing.length === 0 || missing.length === ids.length) return missing.length > 0;
  const names = new Set([...limits.keys()].map(nameIn));
  return missing.some((id) => names.has(nameIn(id)));
}

/**
 * Whether an entry of all keys lacks the limits of a policy that its change concerns, because a process with other policies wrote the entry.
 *
 * @param policies those of all tiers
 */
export function lacksLimits({ limits, json }: OverrideEntry, policies: readonly CompiledPolicy[]): boolean {
  const fields = Object.keys(Object(parseEntryNote(json)?.change) as object);
  const named = policies.filter(({ name }) => fields.includes(name));
  return (named.length > 0 ? named : policies).some(({ id }) => !limits.has(id));
}

/** The name behind the layout in the id of a policy. Empty for the default name. */
function nameIn(id: string): string {
  const [, ...name] = id.split(':');
  return name.join(':');
}

/**
 * The revision of an entry.
 *
 * @param policies the caller's policies of the key's dimension
 * @param applied the revision with which the caller asks
 */
function revisionIn(
  entry: OverrideEntry | undefined,
  policies: readonly CompiledPolicy[],
  applied = '',
): string {
  if (entry === undefined) return applied.startsWith(LIMITS_PREFIX) ? LIMITS_PREFIX : '';
  const { revision, limits, json } = entry;
  const isKnown =
    revision !== '' || !(applied.startsWith(LIMITS_PREFIX) || isOfOtherPolicies(entry, policies));
  return isKnown ? revision : LIMITS_PREFIX + [...limits.keys(), json].join(' ');
}

/**
 * The client change of an entry: the revision, the change as JSON, the end (ms; 0: not yet known), and the ids of the policies whose limits
 * the entry has, separated by tabs; or an empty text.
 *
 * @param policies as in `revisionIn`
 * @param applied as in `revisionIn`
 */
export function clientChangeOf(
  entry: OverrideEntry | undefined,
  policies: readonly CompiledPolicy[],
  applied?: string,
): string {
  const revision = revisionIn(entry, policies, applied);
  if (entry === undefined || revision === '') return '';
  const until = entry.until === Infinity ? 0 : entry.until;
  return [revision, entry.json, until, ...entry.limits.keys()].join('\t');
}

/** A client change as a store returns it. */
export interface ClientChange {
  readonly revision: string;
  readonly json: string;
  /** The end, ms since the epoch; Infinity if it is not known. */
  readonly until: number;
  /** The ids of the policies to which the store applies the entry's limits. */
  readonly ids: ReadonlySet<string>;
}

/** Parses a text of `clientChangeOf`. @returns undefined for an empty text */
export function parseClientChange(text: string): ClientChange | undefined {
  const [revision = '', json = '', until = '', ...ids] = text.split('\t');
  if (revision === '') return undefined;
  return { revision, json, until: Number(until) || Infinity, ids: new Set(ids) };
}
