// The words of the model. All durations are in ms.
export const NEVER = Infinity;
/** An answer that the docs leave open. */
export const ANY = Symbol('any');

export type Algorithm =
  | 'fixed-window'
  | 'sliding-window'
  | 'sliding-log'
  | 'token-bucket'
  | 'leaky-bucket'
  | 'gcra'
  | 'calendar'
  | 'concurrency';

/** A policy as the site has it. `window` is also the lease of slots. */
export interface Policy {
  readonly name: string;
  readonly algorithm: Algorithm;
  readonly limit: number;
  readonly window: number;
  readonly burst?: number;
  readonly segments?: number;
  readonly maxDelay?: number;
  readonly period?: 'hour' | 'day' | 'week' | 'month';
  readonly by: string;
  readonly share?: string;
  readonly weight?: number;
  readonly attempts?: boolean;
  readonly shadow?: boolean;
  readonly thresholds?: readonly number[];
  readonly unit?: string;
}

export interface Ban {
  readonly after?: number;
  readonly within: number;
  readonly for: number;
  readonly factor: number;
  readonly max: number;
  readonly fresh: boolean;
  readonly by: string;
}

export interface LimiterDef {
  readonly name: string;
  readonly policies: readonly Policy[];
  readonly tiers: Readonly<Record<string, readonly Policy[]>>;
  readonly ban?: Ban;
  readonly shadow: boolean;
  readonly overrides: boolean;
  /** Whether the process may hold units ahead, so that answers are open within bounds. */
  readonly slices?: boolean;
  readonly idsFor: number;
  readonly repeats: number;
}

export type Keys = Readonly<Record<string, string>>;
export type Cost = number | Readonly<Record<string, number>>;

/** The answer of one policy before anything is charged. `wait` is 0 if it admits, and NEVER if it never can. */
export interface Look {
  readonly wait: number;
  readonly remaining: number;
  readonly reset: number;
  readonly delay: number;
  /** Whether the units that remain are those of the real answer, because the docs give only bounds. */
  readonly isOpen?: boolean;
}

/** Units of one request in one count. The count knows which of them are still there. */
export interface Charge {
  readonly count: Count;
  readonly at: number;
  units: number;
}

/** The charges of one policy and key. */
export interface Count {
  look(now: number, cost: number, policy: Policy): Look;
  charge(now: number, units: number, policy: Policy): Charge;
  /** Changes a charge to so many units. @returns the units that were added, or 0 */
  settle(charge: Charge, now: number, units: number, policy: Policy): number;
  /** Gives the oldest units back. */
  giveBack(now: number, units: number, policy: Policy): void;
  release?(charge: Charge, now: number): boolean;
  renew?(charge: Charge, now: number): boolean;
  /** Like `renew`, but takes ended slots again. */
  hold?(charge: Charge, now: number): boolean;
  forget(): void;
}

export interface Verdict {
  readonly name: string;
  readonly key: string;
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  readonly retryAfterMs: number | undefined;
  readonly resetAfterMs: number;
  readonly share?: number;
}

export interface Decision {
  readonly allowed: boolean;
  readonly key: string;
  readonly cost: number;
  readonly policy: string | undefined;
  readonly limit: number;
  readonly remaining: number;
  readonly retryAfterMs: number | undefined;
  readonly resetAfterMs: number;
  readonly delayMs: number;
  readonly reason: string | undefined;
  readonly degraded: boolean;
  readonly repeated: boolean;
  readonly charged: number;
  readonly costs: Readonly<Record<string, number>>;
  readonly policies: readonly Verdict[];
}
