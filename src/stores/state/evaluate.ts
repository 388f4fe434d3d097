import type { BanColumn } from '../../algorithms/ban.js';
import { SlotColumn, type Column } from '../../algorithms/index.js';
import { costAt, costsOfPart, type Costs } from '../../contract/costs.js';
import {
  parseRecord,
  clientChangeOf,
  type OverrideEntry,
  type AppliedOverrides,
} from '../../contract/overrides.js';
import type { Part } from '../../contract/parts.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Histories, History } from './returns.js';
import {
  holdsSlots,
  type Change,
  type ChangeReply,
  type LeaseChange,
  type PolicySet,
  type Query,
  type Reply,
  type Subject,
} from '../../contract/store.js';
import {
  addVerdict,
  admits,
  attemptWait,
  NEVER,
  nextWait,
  remainingOf,
  resetOf,
  soleVerdict,
  waitOf,
} from '../../contract/verdicts.js';

/**
 * The state of one key, for a part of a set. A decision has one place for each part, and usually there is one part. The functions below do
 * the work of the Lua scripts on Redis, and make all decisions outside Redis.
 */
export interface Place {
  readonly part: Part;
  /** The part's policies for this key, because an override may change their limits. */
  readonly policies: readonly CompiledPolicy[];
  /** The entry in force by the key's own record. Undefined if there is none. */
  readonly entry: OverrideEntry | undefined;
  /** The limits that follow when overrides end. Undefined if no override ends by itself. */
  readonly next?: Next | undefined;
  /** The columns of the part's policies, in the part's order. */
  readonly columns: readonly Column[];
  readonly bans: BanColumn;
  /** The key's row in the columns and in `bans`; 0 as long as the key has no state. */
  readonly row: number;
  /** The resets and returns, by policy and key. */
  readonly returns: Histories;
  /** Creates the state of a key. If the store is full, `row` stays 0. `byHand`: for a ban by hand, for which there is always room. */
  create(now: number, byHand: boolean): void;
  /** Whether `create` would fail because the store is full. */
  isFull(now: number): boolean;
  /** The value of `Reply.full` for a query that the policies admit but for which there is no room. */
  full(now: number): number;
  /** Stores the end of the key's denial. */
  deny(until: number): void;
}

/** The overrides that follow those in force. */
interface Next {
  /** The end of the override that is in force at a time, for each policy, ms since the epoch; Infinity if it does not end. */
  ends(at: number): readonly number[];
  /** The policies at a time. */
  policies(at: number): readonly CompiledPolicy[];
}

/** The store's answer to `decide`. Either all policies of all places are charged, or none is. */
export function decide(places: readonly Place[], query: Query, now: number, step: number): Reply {
  const { overrides } = query.set;
  const changes = overrides && clientChanges(places, overrides);
  if (changes) return { now, step, ban: 0, verdicts: [], clientChanges: changes };
  // Nearly all decisions are by one key, and the loops would cost 5 % of their time.
  const reply =
    places.length === 1
      ? decideByOne(places[0]!, query, now, step)
      : decideBySeveral(places, query, now, step);
  if (!overrides || reply.verdicts.length === 0) return reply;
  const ends = places.some(({ next }) => next);
  return limited(places, ends ? waitingForNext(places, query, reply) : reply);
}

/** A reply with the limits that overrides give its key. */
function limited(places: readonly Place[], reply: Reply): Reply {
  return places.some(({ policies, part }) => policies !== part.set.policies)
    ? { ...reply, limits: inOrder(places, ({ policies }) => policies.map(({ limit }) => limit)) }
    : reply;
}

/** A reply that limits the wait of a denial to the end of the override that denies, unless the next limits deny, too. */
function waitingForNext(places: readonly Place[], query: Query, reply: Reply): Reply {
  const waits = inOrder(places, (place) =>
    place.columns.map((_, i) => {
      const n = place.part.at[i]!;
      const wait = waitOf(reply.verdicts, n);
      return place.next ? waitAcross(place, place.next, i, costAt(query, n), wait, reply.now) : wait;
    }),
  );
  const verdicts: number[] = [];
  for (const [i, wait] of waits.entries())
    addVerdict(verdicts, wait, remainingOf(reply.verdicts, i), resetOf(reply.verdicts, i));
  return { ...reply, verdicts };
}

/** The time for which a policy denies a cost, although overrides end in the meantime. @param wait the wait by the override in force */
function waitAcross(
  { columns, row }: Place,
  next: Next,
  i: number,
  cost: number,
  wait: number,
  now: number,
): number {
  if (admits(wait)) return wait;
  const column = columns[i]!;
  let [time, left] = [now, wait];
  for (;;) {
    const end = next.ends(time)[i]!;
    if (end === Infinity && left === NEVER) return NEVER;
    if (left !== NEVER && time + left < end) return time + left - now;
    time = end;
    column.look(row, next.policies(end)[i]!.params, cost, end, false);
    if (admits(column.wait)) return end - now;
    left = column.wait;
  }
}

/** The changes that the caller must apply before a decision is possible: see `Reply.clientChanges`. */
function clientChanges(places: readonly Place[], applied: AppliedOverrides): Reply['clientChanges'] {
  let differ = false;
  const changes: Record<string, string> = {};
  for (const { part, entry } of places) {
    if (part.set.policies.length === 0) continue;
    const revision = entry?.revision ?? '';
    if (revision !== (applied.revisions[part.name] ?? '')) differ = true;
    changes[part.name] = clientChangeOf(entry);
  }
  return differ ? changes : undefined;
}

/** The policies of a key with a record. @param record the key's own record @param all the record of all keys */
export function overriddenBy(
  record: string,
  all: string,
  set: PolicySet,
  now: number,
): Pick<Place, 'entry' | 'policies' | 'next'> {
  if (record === '' && all === '') return { entry: undefined, policies: set.policies };
  const entry = parseRecord(record).now(now);
  const overrides = parseRecord(all === '' ? record : `${record}\n${all}`);
  const entriesAt = (time: number) => overrides.entries(set.policies, time);
  const ends = (time: number) => entriesAt(time).map((its) => its?.until ?? Infinity);
  const policies = (time: number) => overrides.policies(set.policies, entriesAt(time));
  const next = ends(now).some(Number.isFinite) ? { ends, policies } : undefined;
  return { entry, policies: policies(now), next };
}

function decideByOne(place: Place, query: Query, now: number, step: number): Reply {
  const { set, cost, peek, lease } = query;
  const { policies } = place;
  const { ban } = set;
  const left = ban ? place.bans.look(place.row, ban, now, !peek) : 0;
  if (left > 0) return { now, step, ban: left, verdicts: [] };
  const admitted = look(place.columns, policies, place.row, query, now, !peek);
  const full = place.row === 0 ? makeRoom(place, query, peek, admitted, now) : undefined;
  const { columns, row } = place;
  let struck = 0;
  if (row !== 0 && !peek) {
    if (cost > 0) commit(columns, policies, row, query, now, lease, admitted);
    if (!admitted && ban) struck = place.bans.strike(row, ban, now);
    noteDenial(place, now);
  }
  const verdicts = verdictsOf(columns);
  if (full !== undefined) return { now, step, ban: 0, verdicts, full };
  return { now, step, ban: struck === 0 ? 0 : -struck, verdicts };
}

function decideBySeveral(places: readonly Place[], query: Query, now: number, step: number): Reply {
  const { set, peek, lease } = query;
  const banned = set.ban && bannedOf(places);
  const left = banned ? banned.bans.look(banned.row, set.ban, now, !peek) : 0;
  if (left > 0) return { now, step, ban: left, verdicts: [] };
  const costsOf = ({ part }: Place): Costs => (query.costs ? costsOfPart(query, part.at) : query);
  let admitted = true;
  for (const place of places)
    if (!look(place.columns, place.policies, place.row, costsOf(place), now, !peek)) admitted = false;
  let full: number | undefined;
  for (const place of places) {
    const wait = place.row === 0 ? makeRoom(place, costsOf(place), peek, admitted, now) : undefined;
    if (wait !== undefined) full = Math.max(full ?? 0, wait);
  }
  let struck = 0;
  for (const place of places) {
    const { columns, policies, row } = place;
    const { ban } = place.part.set;
    if (row === 0 || peek) continue;
    // If there is room for only some of the keys, only these keys limit the request.
    if (query.cost > 0 && !full) commit(columns, policies, row, costsOf(place), now, lease, admitted);
    if (!admitted && ban) struck = place.bans.strike(row, ban, now);
    noteDenial(place, now);
  }
  const verdicts = verdictsOf(columnsOf(places));
  if (full !== undefined) return { now, step, ban: 0, verdicts, full };
  return { now, step, ban: struck === 0 ? 0 : -struck, verdicts };
}

/** Makes room for a key without state. @returns the value of `Reply.full` for an admitted query without room */
function makeRoom(
  place: Place,
  costs: Costs,
  peek: boolean,
  admitted: boolean,
  now: number,
): number | undefined {
  const { columns, part } = place;
  if (!peek && writes(part.set, costs, admitted)) {
    place.create(now, false);
    if (place.columns !== columns) look(place.columns, place.policies, place.row, costs, now, true);
  }
  const isFull = admitted && costs.cost > 0 && (peek ? place.isFull(now) : place.row === 0);
  return isFull ? place.full(now) : undefined;
}

/** Whether a decision may write state of a key. */
function writes({ policies, ban }: PolicySet, costs: Costs, admitted: boolean): boolean {
  if (admitted) return costs.cost > 0;
  return ban !== undefined || policies.some(({ attempts }, i) => attempts && costAt(costs, i) > 0);
}

/** The place of the banned key. */
function bannedOf(places: readonly Place[]): Place {
  return places.find(({ part }) => part.set.ban)!;
}

/** The store's answer to `adjust`. */
export function adjust(
  places: readonly Place[],
  { key: keys, units, charged }: Change,
  now: number,
  step: number,
): ChangeReply {
  const done: number[] = [];
  for (const place of places) {
    const { part, policies, returns } = place;
    const { at } = part;
    const key = part.keyOf(keys);
    if (place.row === 0 && at.some((n) => units[n]! > 0)) place.create(now, false);
    const { columns, row } = place;
    columns.forEach((column, i) => {
      const { id, life, params, traits } = policies[i]!;
      const n = at[i]!;
      const of = units[n]! < 0 ? charged : undefined;
      const from = of?.steps?.[n] ?? of?.step ?? 0;
      const history = of && returns.find(id, key);
      done[n] = 0;
      if (row === 0 || units[n] === 0 || history?.isReset(from)) {
        column.look(row, params, 0, now, false);
        return;
      }
      const shift = history ? history.shift(from) : 0;
      const returned = of && { mark: of.marks[n]!, at: Math.floor(from / 1000), shift };
      const longest = lifeOf(column, row, history, now, life);
      const amount = column.adjust(row, params, units[n]!, now, returned);
      if (of && traits.drains && amount > 0)
        returns.open(id, key, now, longest).note({ from, to: step, amount });
      if (units[n]! > 0) done[n] = amount;
    });
    if (row !== 0) noteDenial(place, now);
  }
  return { now, step, ban: 0, verdicts: verdictsOf(columnsOf(places)), charged: done };
}

/** The store's answer to `lease`. */
export function lease(places: readonly Place[], { lease, action }: LeaseChange, now: number): boolean {
  let held = true;
  for (const place of places) {
    const { policies, columns, row } = place;
    if (!holdsSlots(place.part.set)) continue;
    if (row === 0) held = false;
    else {
      for (const [i, column] of columns.entries())
        if (column instanceof SlotColumn && !column[action](row, policies[i]!.params, lease, now))
          held = false;
      look(columns, policies, row, NO_COSTS, now, false);
      noteDenial(place, now);
    }
  }
  return held;
}

/** The operation `reset` of a store. */
export function reset(places: readonly Place[], { key }: Subject, now: number, step: number): void {
  for (const { part, columns, row, returns } of places) {
    const its = part.keyOf(key);
    part.set.policies.forEach(({ id, life }, i) => {
      const longest = lifeOf(columns[i]!, row, returns.find(id, its), now, life);
      returns.open(id, its, now, longest).reset(step);
      if (row !== 0) columns[i]!.clear(row);
    });
  }
}

/** The time for which charges of a key count, ms. A charge made under an override may count for longer than `life`. */
function lifeOf(
  column: Column,
  row: number,
  history: History | undefined,
  now: number,
  life: number,
): number {
  return Math.max(life, column.until(row) - now, (history?.until ?? 0) - now);
}

/** The operation `ban` of a store. */
export function ban(places: readonly Place[], duration: number, now: number): void {
  const place = bannedOf(places);
  if (place.row === 0 && duration > 0) place.create(now, true);
  if (place.row !== 0) place.bans.set(place.row, place.part.set.ban!, now, duration);
}

const NO_COSTS: Costs = { cost: 0, costs: undefined };

/** Whether all policies admit, except for shadows. The verdicts are in the columns. */
function look(
  columns: readonly Column[],
  policies: readonly CompiledPolicy[],
  row: number,
  costs: Costs,
  now: number,
  writable: boolean,
): boolean {
  let admitted = true;
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!;
    const policy = policies[i]!;
    column.look(row, policy.params, costAt(costs, i), now, writable);
    if (!admits(column.wait) && !policy.shadow) admitted = false;
  }
  return admitted;
}

/** Charges the policies that must be charged. */
function commit(
  columns: readonly Column[],
  policies: readonly CompiledPolicy[],
  row: number,
  costs: Costs,
  now: number,
  lease: string,
  admitted: boolean,
): void {
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!;
    const { params, attempts } = policies[i]!;
    const cost = costAt(costs, i);
    // A shadow that would deny charges nothing, like a policy that denies.
    if (cost === 0 || !admits(column.wait) || !(admitted || attempts)) continue;
    column.commit(row, params, cost, now, lease);
    if (admitted) continue;
    // The second look includes the charge in `retryAfter`.
    column.look(row, params, cost, now, false);
    column.wait = attemptWait(column.wait);
  }
}

/** Stores the time until which a key must be kept, after its policies were looked at. A key without remaining units counts as denied. */
function noteDenial(place: Place, now: number): void {
  const { columns, policies } = place;
  let until = 0;
  for (let i = 0; i < columns.length; i++) {
    const { wait, remaining, reset } = columns[i]!;
    const { attempts, shadow } = policies[i]!;
    if ((nextWait(wait, attempts) > 0 || remaining === 0) && !shadow) until = Math.max(until, now + reset);
  }
  if (until > 0) place.deny(until);
}

function verdictsOf(columns: readonly Column[]): number[] {
  if (columns.length === 1) {
    const { wait, remaining, reset } = columns[0]!;
    return soleVerdict(wait, remaining, reset);
  }
  const verdicts: number[] = [];
  for (const { wait, remaining, reset } of columns) addVerdict(verdicts, wait, remaining, reset);
  return verdicts;
}

/** The columns of all places in the order of the whole set's policies. */
function columnsOf(places: readonly Place[]): Column[] {
  return inOrder(places, ({ columns }) => columns);
}

function inOrder<T>(places: readonly Place[], each: (place: Place) => readonly T[]): T[] {
  const all: T[] = [];
  for (const place of places) {
    const own = each(place);
    place.part.at.forEach((n, i) => (all[n] = own[i]!));
  }
  return all;
}
