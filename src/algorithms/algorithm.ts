/** Integers that an algorithm's Lua file and TypeScript file both receive, in the order in which Lua reads them. */
export type Params = Readonly<Record<string, number>>;

/** The fields that policies of all algorithms have. */
export interface PolicyBase {
  /** Unique in its limiter: 1 to 64 printable ASCII characters (RFC 9651 string). Default: `'default'` for a sole policy. */
  name?: string;
  /** Units per window: a whole number of at least 1. */
  limit: number;
  /** Evaluate and report, never deny. Default `false`. */
  shadow?: boolean;
  /**
   * The dimension whose key counts, such as `'account'`: a letter, then up to 31 letters, digits, `_` and `-`. Default `'key'`: the
   * request's key. The policy does not apply to a request that has no key of this dimension.
   */
  by?: string;
}

/** Fields of all policies that count requests over time. Concurrency policies count slots that are held, and do not have these fields. */
export interface QuotaPolicy extends PolicyBase {
  /**
   * Which requests are charged. `'admitted'` (default): requests that all policies admit. `'attempts'`: also requests that another policy
   * denies, of this limiter or of one stacked behind it. A request that this policy itself denies is never charged to it.
   */
  count?: 'admitted' | 'attempts';
  /**
   * What is counted, for header fields (`qu` of draft-11): `'requests'` (default), `'content-bytes'`, `'tokens'` or any word of 1 to 64
   * letters, digits, `-`, `_` and `.`. Only the first two are registered by the draft. It changes no decision.
   */
  unit?: string;
}

/** A policy's fields when an algorithm compiles them: `limit` is validated, the rest is as the user wrote it. */
export interface Given {
  readonly limit: number;
  readonly [field: string]: unknown;
}

/** A charge that is given back. */
export interface Returned {
  /** When the charge would have ended by itself: see `Charged`. */
  readonly mark: number;
  /** When it was charged. */
  readonly at: number;
  /** How many ticks earlier a bucket drains this charge, because charges before it were given back. */
  readonly shift: number;
}

/** What a bucket needs to know of the rates that it has had. */
export interface Rates {
  /** The params at a time. */
  at(time: number): Params;
  /** All params that may have been in force within a millisecond. */
  near(time: number): readonly Params[];
  /** When the params changed after one time and up to another. */
  turns(from: number, to: number): readonly number[];
  /** The configured params. */
  readonly base: Params;
}

/** A row's state in a form that can be stored outside a column: whole numbers of at least 0, and names of leases. */
export type Saved = readonly (number | string)[];

/**
 * The state of one policy for many keys: a structure of arrays, with one row for each key. Its methods are the functions of the Lua file
 * beside it, with the same names in the same order. Row 0 is never written, so that it stands for a key without state.
 *
 * `look` leaves the verdict in `wait`, `remaining` and `reset` (see `contract/verdicts.ts`). After a `look` that admitted, `commit` charges
 * the same row; if that was row 0, a fresh one. It updates `remaining` and `reset`.
 */
export abstract class Column<P = Params> {
  wait = 0;
  remaining = 0;
  reset = 0;

  /** Evaluates `cost`. If `writable`, it repairs a state that lies too far ahead because the clock went back. It writes nothing else. */
  abstract look(row: number, p: P, cost: number, now: number, writable: boolean): void;
  /** Charges the cost that `look` has just admitted. */
  abstract commit(row: number, p: P, cost: number, now: number, lease: string): void;
  /**
   * Charges (`units` > 0, even beyond what is left) or gives back (`units` < 0). Returns the units that were charged, which a bound on debt
   * may reduce; for a bucket that gave back, the ticks.
   *
   * @param of the charge that is given back; undefined: no particular one
   */
  abstract adjust(row: number, p: P, units: number, now: number, of: Returned | undefined): number;
  /** When the row's state expires: from then on it behaves as if empty. 0: it is empty. */
  abstract until(row: number): number;
  /** Forgets a row. */
  abstract clear(row: number): void;
  /** An empty column like this one, with room for rows 1 to `rows`. */
  abstract sibling(rows: number): Column<P>;
  /** Copies a row's state from a sibling column, or from another row of this column. */
  abstract take(from: Column<P>, theirs: number, ours: number): void;

  /** A row's state. For an empty row the result does not matter. */
  abstract save(row: number): Saved;
  /** Puts a saved state into an empty row. A value that cannot be a state leaves the row empty. */
  abstract load(row: number, saved: Saved): void;

  /** Reads any part of a row's state ahead, so that the processor has it in its cache when `look` needs it. */
  fetch(_slot: number): number {
    return 0;
  }
}

/** A column whose state is two numbers per row, side by side: its expiry, and a number that the algorithm interprets. */
export abstract class PairColumn<P = Params> extends Column<P> {
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

/** The state of an algorithm whose units are slots: `commit` takes them by the name of a lease. */
export abstract class SlotColumn<P = Params> extends Column<P> {
  /** Gives back the slots of a lease; false if it has ended. */
  abstract release(row: number, p: P, lease: string, now: number): boolean;
  /** Holds the slots of a lease for another full lease from now; false if it has ended. */
  abstract renew(row: number, p: P, lease: string, now: number): boolean;
}

/**
 * For how long units that are charged ahead may be spent, so that no window ever admits more than
 * if each unit had been charged when it was spent.
 */
export interface Ahead {
  /** How long after the charge, ms. @param resetMs what the verdict of the charge says */
  endsIn(resetMs: number): number;
  /**
   * How many units of a charge can no longer be spent for each ms that passes, because units drain
   * from their charge on.
   */
  readonly lostPerMs: number;
}

/** What the rest of Headgate knows of a policy. Other code asks for these traits, never for the algorithm's name. */
export interface Traits {
  /** Whether its units are slots, which are held until they are released or their lease ends. */
  readonly holdsSlots: boolean;
  /** The most units that can be admitted at once. */
  readonly capacity: number;
  /** Whether charges drain one after the other, so that giving one back moves those behind it forward. */
  readonly drains: boolean;
  /** For policies that hold requests until their turn: the time between the turns of two units, ms. Otherwise undefined. */
  readonly paceMs: number | undefined;
  /** How far ahead such a policy gives a request its turn, ms. */
  readonly aheadMs?: number | undefined;
  /**
   * How units may be spent later than they are charged (`redisStore({ slices })`). Undefined: they
   * cannot.
   */
  readonly slices: Ahead | undefined;
  /** What its units are called in header fields (`qu` of draft-11). Undefined: requests. */
  readonly unit: string | undefined;
  /**
   * Milliseconds until one more unit is available; a later time where the state cannot tell. Undefined: it cannot be predicted.
   *
   * @param remaining like `resetMs`, from a verdict that admits
   */
  readonly nextUnitMs: ((remaining: number, resetMs: number) => number) | undefined;
  /**
   * What a policy has instead that may hold requests until their turn, up to this many whole ms
   * ahead. Absent: it cannot.
   */
  readonly reserving?: (ms: number) => {
    readonly params: Params;
    readonly traits: Pick<Traits, 'paceMs' | 'aheadMs' | 'slices'>;
  };
}

/** What an algorithm makes of a policy. */
export interface Compiled<P = Params> {
  readonly params: P;
  /**
   * Only for algorithms whose integers depend on the time: what the Lua file reads in place of `params` at a moment (ms since the epoch).
   * If the server's time is too far from that moment, the file's `check` raises `HEADGATE_PERIOD`. The caller then sends the integers for
   * the server's time.
   */
  readonly sent?: (now: number) => readonly number[];
  /** The time span that the limit refers to, ms: a window or a lease. */
  readonly window: number;
  /**
   * The part of the policy that its state depends on: a window's length, a bucket's rate and burst. It is part of the key, so that policies
   * that read a state differently do not share it. The limit of a counter is left out: policies that differ only in it share the count.
   */
  readonly shape: string;
  /** The longest time that a charge counts, ms. */
  readonly life: number;
  readonly traits: Omit<Traits, 'holdsSlots'>;
}

type Named = QuotaPolicy & { algorithm?: string };

type OwnFields<Policy> = Policy extends Named ? Exclude<keyof Policy, keyof Named> & string : never;

interface Definition<P, Policy extends Named> {
  /** Names the state's layout in keys. It changes with the layout, so that no version reads another version's state. */
  readonly tag: string;
  /** The algorithm's names in policies. For each name: the fields that it takes in addition to those of all policies. */
  readonly names: Readonly<Record<NonNullable<Policy['algorithm']>, readonly OwnFields<Policy>[]>>;
  /**
   * Checks a policy's own fields, and turns them into integers by division and rounding. @throws HeadgateError `HEADGATE_INVALID_OPTION`
   */
  compile(what: string, given: Given): Compiled<P>;
}

/** The entries of `algorithms/index.ts`. A column has room for rows 1 to `rows`, for policies of one shape. */
export type AlgorithmDefinition<
  P = Params,
  Policy extends Named = Named & Readonly<Record<string, unknown>>,
> = Definition<P, Policy> &
  (
    | { readonly holdsSlots: false; createColumn(rows: number, p: P): Column<P> }
    | { readonly holdsSlots: true; createColumn(rows: number, p: P): SlotColumn<P> }
  );

/** Whether a saved state consists of numbers only. */
export function areNumbers(saved: Saved): saved is readonly number[] {
  return saved.every((value) => typeof value === 'number');
}

/** The most units that a state counts. Below it, adding a charge gives an exact integer. */
export const MOST_COUNTED = 2 ** 52;

/** A bucket's state in ticks stays below this, so that sums stay exact integers. */
export const MOST_TICKS = 2 ** 51;

/** The longest time that a bucket takes to fill, ms: some 8,000 years. On Redis a state has 48 bits for its end, in ms since 1970. */
export const LONGEST_FILL = 2 ** 48 - 2 ** 44;
