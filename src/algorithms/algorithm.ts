import type { Duration } from '../common/duration.js';

/** The integers for an algorithm's Lua file and TypeScript file, in the order in which Lua reads them. */
export type Params = Readonly<Record<string, number>>;

/** The fields of every policy, whatever its algorithm. */
export interface PolicyBase {
  /** Unique in its limiter: 1 to 64 printable ASCII characters (RFC 9651 string). Optional for a sole policy. @default 'default' */
  name?: string | undefined;
  /** Units per window or period: a whole number of at least 1. */
  limit: number;
  /** Evaluate and report, never deny. @default false */
  shadow?: boolean | undefined;
  /**
   * The dimension whose key counts. A letter, then up to 31 letters, digits, `_` and `-`. The policy does not apply to
   * a request without a key of this dimension. @default 'key', the request's key
   */
  by?: string | undefined;
  /**
   * Fractions of the limit to report, once per key and window. An event is due when charged units reach a fraction: `[0.8, 1]`. 1 to 10 fractions from
   * 0.001 to 1, in steps of 0.001. Of a bucket, fractions of the burst. See `onThreshold` and https://github.com/headgate/headgate/blob/main/docs/thresholds.md. @default none
   */
  thresholds?: readonly number[] | undefined;
}

/** The fields of all policies that count requests over time. Concurrency policies count held slots instead, without these fields. */
export interface QuotaPolicy extends PolicyBase {
  /**
   * The requests to charge. `'admitted'`: requests that every policy admits. `'attempts'`: also requests that another policy denies, in
   * this limiter or in a limiter stacked behind it. The policy's own denials are never charged here. @default 'admitted'
   */
  count?: 'admitted' | 'attempts' | undefined;
  /**
   * The counted unit, for header fields (`qu` of draft-11). `'requests'`, `'content-bytes'`, `'tokens'` or any word of 1 to 64 letters,
   * digits, `-`, `_` and `.`. The draft registers only the first two. It does not change any decision. @default 'requests'
   */
  unit?: string | undefined;
}

/** The fields of all policies that count requests in a window. */
export interface WindowPolicy extends QuotaPolicy {
  /** The length of the window, in which `limit` units are admitted: ms, or `'10s'`, `'15m'`, `'1h'`, up to 366 days. */
  window: Duration;
}

/** A policy's fields at compilation: `limit` is validated, every other field is as the user passed it. */
export interface Given {
  readonly limit: number;
  readonly [field: string]: unknown;
}

/** A charge that is given back. */
export interface Returned {
  /** The time at which the charge would have ended by itself: see `Charged`. */
  readonly mark: number;
  /** The time of the charge, ms. */
  readonly at: number;
  /** The ticks by which a bucket drains this charge earlier, because earlier charges were given back. */
  readonly shift: number;
}

export interface Adjustment {
  /** The units to charge, even beyond the remaining units, or below 0 to give back. */
  readonly units: number;
  readonly now: number;
  /** The charge to give back, or undefined for no particular charge. */
  readonly of: Returned | undefined;
}

/** The earlier rates of a bucket, for a state written under an earlier rate. */
export interface Rates {
  at(time: number): Params;
  /** All params that may have been in force within a millisecond of a time. */
  around(time: number): readonly Params[];
  /** The times after `from` and up to `to` at which the params changed. */
  boundaries(from: number, to: number): readonly number[];
  readonly base: Params;
}

/** A row's state outside a column, for a store that writes bytes: whole numbers of at least 0, and names of leases. */
export type Saved = readonly (number | string)[];

/**
 * The state of one policy for many keys: a structure of arrays, with one row per key. The methods are the functions of the Lua file next to
 * the TypeScript file, with the same names in the same order. Row 0 is never written, and represents a key without state.
 *
 * `look` leaves the verdict in `wait`, `remaining` and `reset` (see `contract/verdicts.ts`). After an admitting `look`, `commit` charges
 * the same row, or a fresh row instead of row 0, and updates `remaining` and `reset`.
 */
export abstract class MemoryColumn<P = Params> {
  wait = 0;
  remaining = 0;
  reset = 0;
  /** Whether a question that may write must `refresh` the state after `look`: the state is too far in the future, because the clock went back. */
  isStale = false;

  /** Evaluates `cost`, and writes nothing. */
  abstract look(row: number, p: P, cost: number, now: number): void;
  /** Repairs a state that `look` has just found to be stale. */
  refresh(_row: number, _p: P, _now: number): void {}
  /** Charges the cost that `look` has just admitted. */
  abstract commit(row: number, p: P, cost: number, now: number): void;
  /** @returns the charged units, which a bound on debt may reduce; for a bucket that gave back, ticks */
  abstract adjust(row: number, p: P, change: Adjustment): number;
  /** The time at which the row's state expires and behaves as if empty. 0 if the row is empty. */
  abstract until(row: number): number;
  /** Keeps a row's state until a later time than its own, because by a lower rate a debt lasts longer. */
  keep(_row: number, _until: number): void {}
  abstract clear(row: number): void;
  /** An empty column of the same kind, with room for rows 1 to `rows`. */
  abstract sibling(rows: number): MemoryColumn<P>;
  /** Copies a row's state from a sibling column, or from another row of this column. */
  abstract take(from: MemoryColumn<P>, theirs: number, ours: number): void;

  /** A row's state. For an empty row the result does not matter. */
  abstract save(row: number): Saved;
  /** Loads a saved state into an empty row. An impossible value leaves the row empty. */
  abstract load(row: number, saved: Saved): void;

  /** Reads part of a row's state into the processor's cache ahead of `look`. */
  fetch(_slot: number): number {
    return 0;
  }
}

/** A column with two numbers per row, side by side: the row's expiry, and a number that the algorithm interprets. */
export abstract class PairColumn<P = Params> extends MemoryColumn<P> {
  protected readonly state: Float64Array;

  constructor(rows: number) {
    super();
    this.state = new Float64Array(2 * (rows + 1));
  }

  until(row: number): number {
    return this.state[2 * row]!;
  }

  clear(row: number): void {
    this.state[2 * row] = 0;
  }

  take(from: PairColumn<P>, theirs: number, ours: number): void {
    this.state[2 * ours] = from.state[2 * theirs]!;
    this.state[2 * ours + 1] = from.state[2 * theirs + 1]!;
  }

  save(row: number): Saved {
    return [this.state[2 * row]!, this.state[2 * row + 1]!];
  }

  load(row: number, saved: Saved): void {
    if (saved.length === 2 && areNumbers(saved)) this.state.set(saved, 2 * row);
  }

  override fetch(row: number): number {
    return this.state[2 * row]!;
  }
}

/** The slots of a request. */
export interface LeasedSlots {
  readonly lease: string;
  readonly units: number;
}

/** The state of an algorithm whose units are slots. */
export abstract class SlotColumn<P = Params> extends MemoryColumn<P> {
  /** The name of the lease by which the next `commit` takes slots. */
  lease = '';
  /** Gives back the slots of a lease. @returns false if the lease has ended */
  abstract release(row: number, p: P, slots: LeasedSlots, now: number): boolean;
  /** Holds the slots of a lease for another full lease from now. @returns false if the lease has ended */
  abstract renew(row: number, p: P, slots: LeasedSlots, now: number): boolean;
  /** Renews the slots of a lease. If the lease has ended, takes the slots again, even beyond the limit. @returns false if no slots were taken */
  abstract hold(row: number, p: P, slots: LeasedSlots, now: number): boolean;
}

/**
 * The time for spending units that are charged ahead. The time is so short that no window ever admits more than if each unit had been
 * charged when spent.
 */
export interface Ahead {
  /** Time after the charge, ms. @param resetMs the reset of the charge's verdict */
  endsIn(resetMs: number): number;
  /** Units of a charge that are lost for spending per ms, because units drain as soon as they are charged. */
  readonly lostPerMs: number;
}

/** The traits of a policy. Code outside of algorithms asks for these, and never for an algorithm's name. */
export interface Traits {
  /** Whether units are slots, held until a release or the end of a lease. */
  readonly holdsSlots: boolean;
  /** The most units that can be admitted in one moment. */
  readonly capacity: number;
  /** Whether charges drain in turn, so that a refund moves the later charges forward. */
  readonly drains: boolean;
  /** Time between the turns of two units, ms, if the policy holds requests until their turn. Otherwise undefined. */
  readonly paceMs: number | undefined;
  /** The furthest turn that such a policy gives a request, ms from now. */
  readonly aheadMs?: number | undefined;
  /** Rules for spending units later than the charge (`redisStore({ slices })`), or undefined if that is not possible. */
  readonly slices: Ahead | undefined;
  /** The name of its units in header fields (`qu` of draft-11), or undefined for requests. */
  readonly unit: string | undefined;
  /**
   * Milliseconds until one more unit is available, or a later time if the state does not contain the exact time. Undefined if unpredictable.
   *
   * @param remaining from an admitting verdict, like `resetMs`
   */
  readonly nextUnitMs: ((remaining: number, resetMs: number) => number) | undefined;
  /** Whether all units come back at one moment, the end of the window. */
  readonly endsAtOnce?: boolean;
  /** The end of the period that contains a moment, ms since the epoch, if the policy counts by periods of the calendar. */
  readonly periodEnd?: (now: number) => number;
  /** The same policy with turns up to `ms` (whole ms) ahead. Absent if the policy cannot hold requests until their turn. */
  readonly reserving?: (ms: number) => {
    readonly params: Params;
    readonly traits: Pick<Traits, 'paceMs' | 'aheadMs' | 'slices'>;
  };
}

export interface Compiled<P = Params> {
  readonly params: P;
  /**
   * The integers for the Lua file in place of `params` at a moment (ms since the epoch), if the integers depend on the time. If the server's
   * time is too far from the moment, the file's `check` raises `HEADGATE_PERIOD`, and the caller sends the integers for the server's time.
   */
  readonly sent?: (now: number) => readonly number[];
  /** The time span that the limit refers to, ms: a window or a lease. */
  readonly window: number;
  /**
   * The fields on which the state depends, as text: a window's length, a bucket's rate and burst. The shape is part of the key, so that
   * policies with different readings of a state do not share the state. A counter's limit is not part of the shape, so policies that differ
   * only in the limit share the count.
   */
  readonly shape: string;
  /** The longest time for which a charge counts, ms. */
  readonly life: number;
  readonly traits: Omit<Traits, 'holdsSlots' | 'drains'>;
}

type Named = QuotaPolicy & { algorithm?: string | undefined };

type OwnFields<Policy> = Policy extends Named ? Exclude<keyof Policy, keyof Named> & string : never;

interface Definition<P, Policy extends Named> {
  /** Names the state's layout in keys. A new layout gets a new tag, so that no version reads another version's state. */
  readonly tag: string;
  /** The algorithm's names in policies, each with the additional fields. */
  readonly names: Readonly<Record<NonNullable<Policy['algorithm']>, readonly OwnFields<Policy>[]>>;
  /** See `Traits`. The state of each other algorithm counts units, so that a key has used as many by the limit of each tier. @default false */
  readonly drains?: boolean;
  /**
   * The integers that the Lua file reads, in the order of `params`: their names in Lua, and the bytes that each needs. An integer of one byte is
   * at most 101, and six are enough for 2^52. See `stores/redis/packed-params.ts`.
   */
  readonly luaParams: Readonly<Record<string, number>>;
  /** Checks a policy's own fields and converts them to integers. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
  compile(what: string, given: Given): Compiled<P>;
}

/** An entry of `algorithms/index.ts`. A column has room for rows 1 to `rows`, for policies of one shape. */
export type AlgorithmDefinition<
  P = Params,
  Policy extends Named = Named & Readonly<Record<string, unknown>>,
> = Definition<P, Policy> &
  (
    | { readonly holdsSlots?: false; createColumn(rows: number, p: P): MemoryColumn<P> }
    | { readonly holdsSlots: true; createColumn(rows: number, p: P): SlotColumn<P> }
  );

export function areNumbers(saved: Saved): saved is readonly number[] {
  return saved.every((value) => typeof value === 'number');
}

/** The most units that a state counts. Up to this number, the sum of a state and a charge is an exact integer. */
export const MAX_COUNTED_UNITS = 2 ** 52;

/** The most ticks in a bucket's state, so that sums stay exact integers. */
export const MAX_TICKS = 2 ** 51;

/** The longest time in which a bucket may fill, ms: some 8,000 years. On Redis a state's end has 48 bits, in ms since 1970. */
export const MAX_FILL_MS = 2 ** 48 - 2 ** 44;
