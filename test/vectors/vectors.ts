// The form of the tables beside this file: calls with their times, and the expected verdicts.
import type { BanOptions, Policy } from 'headgate';

export interface Vectors {
  readonly title: string;
  readonly policy: Policy;
  readonly rows: readonly Row[];
}

/**
 * The time in ms; a cost, or another call (`release` and `renew` take the number of the admission, counted from 0); and the verdict, if
 * the call has one: admitted, remaining, resetAfter.
 */
export type Row =
  readonly [at: number, call: number | Call] | readonly [at: number, call: number | Call, ...Expected];
export type Expected = readonly [admitted: Admitted, remaining: number, resetAfter: number];
export type Call =
  | { peek: number }
  | { refund: number }
  | { settle: number; to: number }
  | { release: number; held: boolean }
  | { renew: number; held: boolean }
  | 'reset';

/** Admitted, never admitted, denied for so many ms, or held for so many ms. */
export type Admitted = 'yes' | 'never' | { after: number } | { held: number };

/** Several policies, or a ban: one verdict per policy, by name. */
export interface SetVectors {
  readonly title: string;
  readonly policies: readonly Policy[];
  readonly ban?: BanOptions;
  readonly rows: readonly SetRow[];
}

/** The decision: its policy and reason, then the remaining units of each policy. */
export type SetRow = readonly [
  at: number,
  cost: number,
  allowed: boolean,
  reason: string | undefined,
  retryAfter: number | undefined,
  remaining: readonly number[],
];
