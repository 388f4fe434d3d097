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
   * The dimension whose key counts, as `'account'`: a letter, then up to 31 letters, digits, `_` and `-`. Default `'key'`: the request's
   * key. The policy does not apply to requests without a key of the dimension.
   */
  by?: string;
}

/** The fields of all policies that count what passes. Those of concurrency policies, which count what is held, have fewer. */
export interface QuotaPolicy extends PolicyBase {
  /**
   * What is charged. `'admitted'` (default): requests that all policies admit. `'attempts'`: also requests that another policy denies, of
   * this limiter or of one that is stacked behind it. What this policy itself denies is never charged to it.
   */
  count?: 'admitted' | 'attempts';
  /**
   * What is counted, for header fields (`qu` of draft-11): `'requests'` (default), `'content-bytes'`, `'tokens'` or any word of 1 to 64
   * letters, digits, `-`, `_` and `.`. It changes no decision.
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
  /** When it would have left by itself: see `Charged`. */
  readonly mark: number;
  /** When it was charged. */
  readonly at: number;
  /** For how many ticks earlier a bucket drains it, as charges before it were given back. */
  readonly shift: number;
}

/** A slot's state as it is kept outside of a column: whole numbers from 0 on, and names of leases. */
export type Saved = readonly (number | string)[];

/**
 * The state of one policy for many keys: a structure of arrays, with one slot for each key. Its methods are the functions of the Lua file
 * beside it, with the same names in the same order. Slot 0 is never written, so that it stands for a key without state.
 *
 * `look` leaves the verdict in `wait`, `remaining` and `reset` (see `contract/verdicts.ts`). After a `look` that admitted, `commit` charges
 * the same slot; if that was slot 0, a fresh one. It updates `remaining` and `reset`.
 */
export abstract class Column<P = Params> {
  wait = 0;
  remaining = 0;
  reset = 0;

  /** Evaluates `cost`. It writes only if `writable`, and only to repair state that a clock that went back made impossible. */
  abstract look(slot: number, p: P, cost: number, now: number, writable: boolean): void;
  /** Charges the cost that `look` has just admitted. */
  abstract commit(slot: number, p: P, cost: number, now: number, lease: string): void;
  /**
   * Charges (`units` > 0, even beyond what is left) or gives back (`units` < 0). Returns the units that it charged: all, unless the
   * policy bounds a debt; or the ticks that a bucket gave back.
   *
   * @param of what is given back; undefined if it is of no charge in particular
   */
  abstract adjust(slot: number, p: P, units: number, now: number, of: Returned | undefined): number;
  /** The moment from which a slot decides as no state does; 0 if it has none. */
  abstract until(slot: number): number;
  /** Forgets a slot. */
  abstract clear(slot: number): void;
  /** An empty column like this one, with room for slots 1 to `slots`. */
  abstract sibling(slots: number): Column<P>;
  /** Copies a slot's state from a column that this one is a sibling of, or from another of its own slots. */
  abstract take(from: Column<P>, theirs: number, ours: number): void;

  /** A slot's state. What it says of a slot without state does not matter. */
  abstract save(slot: number): Saved;
  /** Puts a saved state into an empty slot. What cannot be a state leaves the slot empty. */
  abstract load(slot: number, saved: Saved): void;

  /** Reads any part of a slot's state ahead, so that the processor has it in its cache when `look` needs it. */
  fetch(_slot: number): number {
    return 0;
  }
}

/**
 * A column whose state is two numbers a slot, side by side: the moment from which the slot decides as no state does, and what the
 * algorithm makes of the other.
 */
export abstract class PairColumn<P = Params> extends Column<P> {
  protected readonly state: Float64Array;

  constructor(slots: number) {
    super();
    this.state = new Float64Array(2 * (slots + 1));
  }

  until(slot: number): number {
    return this.state[2 * slot]!;
  }

  clear(slot: number): void {
    this.state[2 * slot] = 0;
  }

  take(from: PairColumn<P>, theirs: number, ours: number): void {
    this.state[2 * ours] = from.state[2 * theirs]!;
    this.state[2 * ours + 1] = from.state[2 * theirs + 1]!;
  }

  save(slot: number): Saved {
    return [this.state[2 * slot]!, this.state[2 * slot + 1]!];
  }

  load(slot: number, saved: Saved): void {
    if (saved.length === 2 && areNumbers(saved)) this.state.set(saved, 2 * slot);
  }

  override fetch(slot: number): number {
    return this.state[2 * slot]!;
  }
}

/** The state of an algorithm whose units are slots: `commit` takes them by the name of a lease. */
export abstract class SlotColumn<P = Params> extends Column<P> {
  /** Gives back the slots of a lease; false if it has ended. */
  abstract release(slot: number, p: P, lease: string, now: number): boolean;
  /** Holds the slots of a lease for another full lease from now; false if it has ended. */
  abstract renew(slot: number, p: P, lease: string, now: number): boolean;
}

/** What the rest of Headgate knows of a policy. Nothing else asks which algorithm a policy has. */
export interface Traits {
  /** Whether its units are slots, which are held until they are released or their lease ends. */
  readonly holdsSlots: boolean;
  /** The most units that can be admitted at once. */
  readonly capacity: number;
  /** Whether its charges leave one after the other, so that giving one back moves those behind it. */
  readonly drains: boolean;
  /** If it admits requests that must wait for their turn: the time between the turns of two units, ms. Otherwise undefined. */
  readonly paceMs: number | undefined;
  /**
   * Whether units can be charged ahead and spent later (`redisStore({ lease })`): `'never'`; `'until-reset'`, as its window ends all at
   * once, after `resetAfter`; or at `'any-time'`.
   */
  readonly slices: 'never' | 'until-reset' | 'any-time';
  /** What its units are called in header fields (`qu` of draft-11). Undefined: requests. */
  readonly unit: string | undefined;
  /**
   * The time until there is one more unit, or a later moment if the state does not tell, ms. Undefined: nobody can know it.
   *
   * @param remaining and `resetMs`: of a verdict that admits
   */
  readonly nextUnitMs: ((remaining: number, resetMs: number) => number) | undefined;
}

/** What an algorithm makes of a policy. */
export interface Compiled<P = Params> {
  readonly params: P;
  /**
   * For an algorithm whose integers depend on the time: what the Lua file reads in place of `params`, for a moment in ms since the epoch.
   * If the server's time is too far from that moment, the file's `check` raises `HEADGATE_PERIOD`, and the caller sends those of that time.
   */
  readonly sent?: (now: number) => readonly number[];
  /** The time that the limit is for, ms: a window, or a lease. */
  readonly window: number;
  /**
   * The part of the policy without which its state means nothing: a window's length, a bucket's rate and burst. It is part of the key, so
   * that policies which read a state differently have each their own. A count's limit is not in it: policies that differ in that alone
   * share the count.
   */
  readonly shape: string;
  /** How long a charge counts at most, ms. */
  readonly life: number;
  readonly traits: Omit<Traits, 'holdsSlots'>;
}

type Named = QuotaPolicy & { algorithm?: string };

type OwnFields<Policy> = Policy extends Named ? Exclude<keyof Policy, keyof Named> & string : never;

interface Definition<P, Policy extends Named> {
  /** Names the state's layout in keys and changes with it, so that versions never read each other's state. */
  readonly tag: string;
  /** What policies call the algorithm; for each name the fields that it takes, besides those of all policies. */
  readonly names: Readonly<Record<NonNullable<Policy['algorithm']>, readonly OwnFields<Policy>[]>>;
  /** Checks a policy's own fields, and divides and rounds them to integers. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
  compile(what: string, given: Given): Compiled<P>;
}

/** What `algorithms/index.ts` lists. A column has room for slots 1 to `slots`, for the policies of one shape. */
export type AlgorithmDefinition<
  P = Params,
  Policy extends Named = Named & Readonly<Record<string, unknown>>,
> = Definition<P, Policy> &
  (
    | { readonly holdsSlots: false; createColumn(slots: number, p: P): Column<P> }
    | { readonly holdsSlots: true; createColumn(slots: number, p: P): SlotColumn<P> }
  );

/** Whether a saved state has no names. */
export function areNumbers(saved: Saved): saved is readonly number[] {
  return saved.every((value) => typeof value === 'number');
}

/** Units that a state counts at most: charges that are added to it stay exact integers. */
export const MOST_COUNTED = 2 ** 52;
