import type { CompiledBan } from '../../algorithms/ban.js';
import type { Column } from '../../algorithms/index.js';
import { costAt, costsOfPart, type Costs } from '../../contract/costs.js';
import type { Reply, UsageReply } from '../../contract/reply.js';
import type { PolicySet, Query, Subject } from '../../contract/store.js';
import { addVerdict, admits, attemptWait, nextWait, soleVerdict } from '../../contract/verdicts.js';
import { sharedOf } from '../../contract/shares.js';
import { clientChanges, waitAcross } from './overrides.js';
import type { Place } from './place.js';
import { Shares } from './shares.js';
import { cross } from './thresholds.js';

export const NO_COSTS: Costs = { cost: 0, costs: undefined };

/**
 * The store's answer to `decide`. Either all policies of all places are charged, or none is. The steps are those of `steps.lua`: look,
 * charge, and the report of the verdicts.
 */
export function decide(places: readonly Place[], query: Query, now: number, step: number): Reply {
  const { overrides } = query.set;
  const changes = overrides && clientChanges(places, overrides);
  if (changes) return { now, step, ban: 0, verdicts: [], clientChanges: changes };
  // Nearly all decisions are by one key, and the loops would cost 5 % of their time.
  const reply =
    places.length === 1
      ? decideByOne(places[0]!, query, now, step)
      : decideBySeveral(places, query, now, step);
  return overrides && reply.verdicts.length > 0 ? withLimits(places, reply) : reply;
}

/** The store's answer to `usage`. */
export function usage(
  places: readonly Place[],
  { set, key }: Subject,
  now: number,
  step: number,
): UsageReply {
  const changes = set.overrides && clientChanges(places, set.overrides);
  if (changes) return { now, step, ban: 0, verdicts: [], clientChanges: changes, records: {} };
  const banned = set.ban && bannedOf(places);
  const ban = banned ? banned.bans.look(banned.row, set.ban, now, false) : 0;
  for (const place of places) look(place, NO_COSTS, now, false);
  if (sharedOf(set).length > 0)
    new Shares(places, { set, key, ...NO_COSTS, peek: true }, now, step).report(false);
  const records = Object.fromEntries(places.map(({ part, record }) => [part.name, record]));
  return { now, step, ban, verdicts: verdictsOf(columnsOf(places)), records };
}

function decideByOne(place: Place, query: Query, now: number, step: number): Reply {
  const { peek, lease } = query;
  const { ban } = query.set;
  const left = ban ? place.bans.look(place.row, ban, now, !peek) : 0;
  if (left > 0) return { now, step, ban: left, verdicts: [] };
  const admitted = look(place, query, now, !peek);
  const full = place.row === 0 ? makeRoom(place, query, peek, admitted, now) : undefined;
  const started = peek ? 0 : charge(place, query, ban, now, lease, admitted);
  if (place.next) waitAcross(place, place.next, query, now);
  const reply = { now, step, ban: started, verdicts: verdictsOf(place.columns) };
  return full === undefined ? reply : { ...reply, full };
}

function decideBySeveral(places: readonly Place[], query: Query, now: number, step: number): Reply {
  const { set, peek, lease } = query;
  const banned = set.ban && bannedOf(places);
  const left = banned ? banned.bans.look(banned.row, set.ban, now, !peek) : 0;
  if (left > 0) return { now, step, ban: left, verdicts: [] };
  const costsOf = ({ part }: Place): Costs => (query.costs ? costsOfPart(query, part.at) : query);
  let admitted = true;
  for (const place of places) if (!look(place, costsOf(place), now, !peek)) admitted = false;
  const shares = sharedOf(set).length > 0 ? new Shares(places, query, now, step) : undefined;
  if (shares && !shares.admitted) admitted = false;
  let full: number | undefined;
  for (const place of places) {
    const wait = place.row === 0 ? makeRoom(place, costsOf(place), peek, admitted, now) : undefined;
    if (wait !== undefined) full = Math.max(full ?? 0, wait);
  }
  shares?.deny();
  let started = 0;
  for (const place of places) {
    // If there is room for only some of the keys, only these keys limit the request.
    const costs = full ? NO_COSTS : costsOf(place);
    if (!peek) started += charge(place, costs, place.part.set.ban, now, lease, admitted);
    if (place.next) waitAcross(place, place.next, costsOf(place), now);
  }
  shares?.report(admitted);
  const reply = { now, step, ban: started, verdicts: verdictsOf(columnsOf(places)) };
  return full === undefined ? reply : { ...reply, full };
}

/** The place of the banned key. */
export function bannedOf(places: readonly Place[]): Place {
  return places.find(({ part }) => part.set.ban)!;
}

/** Whether all policies of a place admit, except for shadows. The verdicts are in the columns. */
export function look(place: Place, costs: Costs, now: number, writable: boolean): boolean {
  const { columns, policies, row } = place;
  let admitted = true;
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!;
    const policy = policies[i]!;
    column.look(row, policy.params, costAt(costs, i), now, writable);
    if (!admits(column.wait) && !policy.shadow) admitted = false;
  }
  return admitted;
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
    if (place.columns !== columns) look(place, costs, now, true);
  }
  const isFull = admitted && costs.cost > 0 && (peek ? place.isFull(now) : place.row === 0);
  return isFull ? place.full(now) : undefined;
}

/** Whether a decision may write state of a key. */
function writes({ policies, ban }: PolicySet, costs: Costs, admitted: boolean): boolean {
  if (admitted) return costs.cost > 0;
  return ban !== undefined || policies.some(({ attempts }, i) => attempts && costAt(costs, i) > 0);
}

/** Charges the policies of a place that must be charged. @returns `Reply.ban`: below 0 if this denial starts a ban */
function charge(
  place: Place,
  costs: Costs,
  ban: CompiledBan | undefined,
  now: number,
  lease: string,
  admitted: boolean,
): number {
  const { columns, policies, row } = place;
  if (row === 0) return 0;
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!;
    const { params, attempts, thresholds } = policies[i]!;
    const cost = costAt(costs, i);
    // A shadow that would deny charges nothing, like a policy that denies.
    if (cost === 0 || !admits(column.wait) || !(admitted || attempts)) continue;
    column.commit(row, params, cost, now, lease);
    if (!admitted) {
      // A second look includes the attempt in `retryAfter`.
      column.look(row, params, cost, now, false);
      column.wait = attemptWait(column.wait);
    }
    if (thresholds) cross(place, i, column.remaining + cost, now);
  }
  const struck = !admitted && ban ? place.bans.strike(row, ban, now) : 0;
  noteDenial(place, now);
  return struck === 0 ? 0 : -struck;
}

/** Stores the time until which a key must be kept, after its policies were looked at. A key without remaining units counts as denied. */
export function noteDenial(place: Place, now: number): void {
  const { columns, policies } = place;
  let until = 0;
  for (let i = 0; i < columns.length; i++) {
    const { wait, remaining, reset } = columns[i]!;
    const { attempts, shadow } = policies[i]!;
    if ((nextWait(wait, attempts) > 0 || remaining === 0) && !shadow) until = Math.max(until, now + reset);
  }
  if (until > 0) place.deny(until);
}

/** Adds the limits that overrides give the keys. */
function withLimits(places: readonly Place[], reply: Reply): Reply {
  return places.some(({ policies, part }) => policies !== part.set.policies)
    ? { ...reply, limits: inOrder(places, ({ policies }) => policies.map(({ limit }) => limit)) }
    : reply;
}

export function verdictsOf(columns: readonly Column[]): number[] {
  if (columns.length === 1) {
    const { wait, remaining, reset } = columns[0]!;
    return soleVerdict(wait, remaining, reset);
  }
  const verdicts: number[] = [];
  for (const { wait, remaining, reset } of columns) addVerdict(verdicts, wait, remaining, reset);
  return verdicts;
}

/** The columns of all places in the order of the whole set's policies. */
export function columnsOf(places: readonly Place[]): Column[] {
  return inOrder(places, ({ columns }) => columns);
}

function inOrder<T>(places: readonly Place[], itemsOf: (place: Place) => readonly T[]): T[] {
  const all: T[] = [];
  for (const place of places) {
    const items = itemsOf(place);
    place.part.at.forEach((n, i) => (all[n] = items[i]!));
  }
  return all;
}
