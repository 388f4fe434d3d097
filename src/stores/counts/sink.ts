import type { DenialCounts } from './denials.js';
import type { CountedLimiter } from './traffic-counts.js';
import type { CountedLatency } from './latency-histogram.js';

export interface Counted {
  readonly id: string;
  /** The number of decisions that a sampled key represents, or 1 if all keys were counted. */
  readonly sample: number;
  /** The time in which the decisions were counted, ms. Absent in earlier versions. */
  readonly ms?: number;
  readonly limiters: readonly CountedLimiter[];
  /** The name of the host and the number of the process. Absent in earlier versions, and so is the health. */
  readonly host?: string;
  readonly pid?: number;
  /** The start of the process, ms since 1970, and its version of Headgate. Absent in earlier versions. */
  readonly since?: number;
  readonly version?: string;
  /** The health of the store, unless it is up without failures. */
  readonly health?: StoreHealth;
  /** The latency of the store. Absent if no decision asked the store. */
  readonly latency?: CountedLatency;
}

/** The health of a store, as the limiter with the worst one sees it. */
export interface StoreHealth {
  /** `'down'`: requests no longer wait for the store. `'slow'`: the store is up, but answers later than `timeout`. */
  readonly state: 'up' | 'slow' | 'down';
  /** The failures since the store last answered in time. */
  readonly failures: number;
  /** The calls whose answers the process was too busy to read in time, since its start. */
  readonly late: number;
}

/** The counts of some seconds by limiter, then by field: see `history.ts`. */
export type MinuteFields = ReadonlyMap<string, ReadonlyMap<string, number>>;

export interface CountSink {
  /** False after the store has refused the counts for lack of permission. */
  readonly isPermitted: boolean;
  /** Whether a write can begin now: no earlier write is under way, and the store is connected. */
  readonly isReady: boolean;
  /** The time by the store's clock as far as it is known, ms since 1970. */
  now(): number;
  /**
   * Writes the counts of a second, and every few seconds those of a minute and the denials of keys. Never throws.
   *
   * @param start the start of the minute, ms since 1970; the present one without it
   */
  write(message: Counted, minutes: MinuteFields, denials: DenialCounts, start?: number): void;
}
