import type { BanColumn } from '../../algorithms/ban.js';
import { SlotColumn, type Column } from '../../algorithms/index.js';
import type { Histories } from './returns.js';
import type {
  Change,
  ChangeReply,
  LeaseChange,
  PolicySet,
  Query,
  Reply,
  Subject,
} from '../../contract/store.js';
import { addVerdict, admits, attemptWait, nextWait, soleVerdict } from '../../contract/verdicts.js';

/**
 * Where the state of one key is. The functions below do with it what the Lua scripts do on Redis. All decisions outside Redis are made by
 * them.
 */
export interface Place {
  /** The columns of the set's policies, in the set's order. */
  readonly columns: readonly Column[];
  readonly bans: BanColumn;
  /** The key's row in the columns and in `bans`; 0 as long as the key has no state. */
  readonly row: number;
  /** What was reset or given back, by policy and key. */
  readonly returns: Histories;
  /** Makes room for a key without state. If there is none, `row` stays 0. `byHand`: for a ban by hand, which always finds room. */
  create(now: number, byHand: boolean): void;
  /** Whether `create` would find no room. */
  isFull(now: number): boolean;
  /** What a query is told if its policies admit it but it finds no room: see `Reply.full`. */
  full(set: PolicySet, now: number): number;
  /** Remembers until when the key is denied; 0: it is not. */
  deny(until: number): void;
}

/** The store's answer to `decide`. */
export function decide(place: Place, query: Query, now: number, step: number): Reply {
  const { set, cost, peek, lease } = query;
  const { ban } = set;
  const banned = ban ? place.bans.look(place.row, ban, now, !peek) : 0;
  if (banned > 0) return { now, step, ban: banned, verdicts: [] };

  let { columns, row } = place;
  const admitted = look(columns, set, row, cost, now, !peek);
  let struck = 0;
  if (peek) {
    if (row === 0 && admitted && cost > 0 && place.isFull(now)) return full(place, set, now, step);
  } else if (admitted ? cost > 0 : ban !== undefined || (cost > 0 && countsAttempts(set))) {
    if (row === 0) {
      place.create(now, false);
      row = place.row;
      if (place.columns !== columns) {
        columns = place.columns;
        look(columns, set, row, cost, now, true);
      }
    }
    if (row === 0) {
      if (admitted) return full(place, set, now, step);
    } else {
      if (cost > 0) commit(columns, set, row, cost, now, lease, admitted);
      if (!admitted && ban) struck = place.bans.strike(row, ban, now);
    }
  }
  if (row !== 0 && !peek) place.deny(deniedUntil(columns, set, now));
  return { now, step, ban: struck === 0 ? 0 : -struck, verdicts: verdictsOf(columns) };
}

/** The answer to a query that its policies have just admitted, but that cannot be remembered. */
function full(place: Place, set: PolicySet, now: number, step: number): Reply {
  return { now, step, ban: 0, verdicts: verdictsOf(place.columns), full: place.full(set, now) };
}

/** The store's answer to `adjust`. */
export function adjust(place: Place, key: string, change: Change, now: number, step: number): ChangeReply {
  const { set, units, charged } = change;
  if (place.row === 0 && units.some((each) => each > 0)) place.create(now, false);
  const { columns, row, returns } = place;
  const done = columns.map((column, i) => {
    const { id, life, params, traits } = set.policies[i]!;
    const of = units[i]! < 0 ? charged : undefined;
    const history = of && returns.find(id, key);
    if (row === 0 || units[i] === 0 || (of && history?.isReset(of.step))) {
      column.look(row, params, 0, now, false);
      return 0;
    }
    const shift = of && history ? history.shift(of.step) : 0;
    const returned = of && { mark: of.marks[i]!, at: Math.floor(of.step / 1000), shift };
    const amount = column.adjust(row, params, units[i]!, now, returned);
    if (of && traits.drains && amount > 0)
      returns.open(id, key, now, life).note({ from: of.step, to: step, amount });
    return units[i]! > 0 ? amount : 0;
  });
  if (row !== 0) place.deny(deniedUntil(columns, set, now));
  return { now, step, ban: 0, verdicts: verdictsOf(columns), charged: done };
}

/** The store's answer to `lease`. */
export function lease(place: Place, { set, lease, action }: LeaseChange, now: number): boolean {
  const { columns, row } = place;
  if (row === 0) return false;
  let held = true;
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!;
    if (column instanceof SlotColumn && !column[action](row, set.policies[i]!.params, lease, now))
      held = false;
  }
  look(columns, set, row, 0, now, false);
  place.deny(deniedUntil(columns, set, now));
  return held;
}

/** What a store does for `reset`. */
export function reset(place: Place, key: string, { set }: Subject, now: number, step: number): void {
  const { columns, row, returns } = place;
  for (const { id, life } of set.policies) returns.open(id, key, now, life).reset(step);
  if (row !== 0) for (const column of columns) column.clear(row);
}

/** What a store does for `ban`. */
export function ban(place: Place, { set }: Subject, duration: number, now: number): void {
  if (place.row === 0 && duration > 0) place.create(now, true);
  if (place.row !== 0) place.bans.set(place.row, set.ban!, now, duration);
}

/** Whether all policies admit that are not shadows. Their verdicts are in the columns. */
export function look(
  columns: readonly Column[],
  { policies }: PolicySet,
  row: number,
  cost: number,
  now: number,
  writable: boolean,
): boolean {
  let admitted = true;
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!;
    const policy = policies[i]!;
    column.look(row, policy.params, cost, now, writable);
    if (!admits(column.wait) && !policy.shadow) admitted = false;
  }
  return admitted;
}

/** Charges the policies that must be charged. */
export function commit(
  columns: readonly Column[],
  { policies }: PolicySet,
  row: number,
  cost: number,
  now: number,
  lease: string,
  admitted: boolean,
): void {
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!;
    const { params, attempts } = policies[i]!;
    // A shadow that would deny charges nothing, just as if it had denied.
    if (!admits(column.wait) || !(admitted || attempts)) continue;
    column.commit(row, params, cost, now, lease);
    if (admitted) continue;
    // Look again after the charge, so that `retryAfter` takes it into account.
    column.look(row, params, cost, now, false);
    column.wait = attemptWait(column.wait);
  }
}

export function countsAttempts({ policies }: PolicySet): boolean {
  return policies.some(({ attempts }) => attempts);
}

/** Until when a key must not be forgotten; 0: it may be. A key with nothing left counts as denied. */
export function deniedUntil(columns: readonly Column[], { policies }: PolicySet, now: number): number {
  let until = 0;
  for (let i = 0; i < columns.length; i++) {
    const { wait, remaining, reset } = columns[i]!;
    const { attempts, shadow } = policies[i]!;
    if ((nextWait(wait, attempts) > 0 || remaining === 0) && !shadow) until = Math.max(until, now + reset);
  }
  return until;
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
