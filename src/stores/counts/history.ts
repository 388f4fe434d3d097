import type { MinuteFields } from './sink.js';
import type { CountedLimiter } from './traffic-counts.js';
import { noUse, type UseHistogram } from './use-histogram.js';

export const MAX_HISTORIES = 1000;

/** The time for which the counts of a minute are kept, ms. */
export const HISTORY_LIFE_MS = 3_600_000;

/** The time for which the counts of ten minutes are kept, ms. */
export const DAY_LIFE_MS = 24 * HISTORY_LIFE_MS;

/** The time for which the counts of each second are kept, ms. */
export const SECONDS_LIFE_MS = 60_000;

function emptyMinute(): MinuteCounts {
  return {
    ...{ admitted: 0, denied: 0, degraded: 0, unreachable: 0, unanswered: 0 },
    ...{ policies: new Map(), reasons: new Map(), use: new Map(), units: new Map() },
  };
}

export interface MinuteCounts {
  admitted: number;
  denied: number;
  degraded: number;
  /** Those of `degraded` while the store was down, by its cause. */
  unreachable: number;
  unanswered: number;
  readonly policies: Map<string, number>;
  readonly reasons: Map<string, number>;
  readonly use: Map<string, number[]>;
  readonly units: Map<string, number>;
}

/** The fields of a minute: a letter for each kind, and the name of a policy or a reason. Of `u`, the level comes before a colon. */
const FIELDS = {
  ...{ admitted: 'a', denied: 'd', degraded: 'g', policy: 'p', reason: 'r' },
  ...{ use: 'u', units: 'c' },
  ...{ unreachable: 'o', unanswered: 'h' },
} as const;

/** Whether the counts of ten minutes have a field: they have the decisions, and not their policies. */
export const isOfDay = (field: string): boolean => field.length === 1;

/** The most minutes that wait for a store that does not answer. */
const MAX_WAITING_MINUTES = 10;

/** The counts of this process that are not yet part of the history. */
export class History {
  /** By the start of the minute, then by limiter and by field. */
  readonly #minutes = new Map<number, Map<string, Map<string, number>>>();

  /** Whether counts of an earlier minute wait, too. */
  get isLate(): boolean {
    return this.#minutes.size > 1;
  }

  /** @param start the start of the minute, ms since 1970 */
  add(limiter: CountedLimiter, use: UseHistogram['policies'], start: number): void {
    const limiters = this.#minutes.get(start) ?? new Map<string, Map<string, number>>();
    this.#minutes.set(start, limiters);
    if (this.#minutes.size > MAX_WAITING_MINUTES) this.#minutes.delete(Math.min(...this.#minutes.keys()));
    const { name, counts, degraded = 0, down, policies, reasons } = limiter;
    const fields = limiters.get(name) ?? new Map<string, number>();
    limiters.set(name, fields);
    const increment = (field: string, by: number): void => {
      if (by > 0) fields.set(field, (fields.get(field) ?? 0) + by);
    };
    increment(FIELDS.admitted, counts[0]);
    increment(FIELDS.denied, counts[1]);
    increment(FIELDS.degraded, degraded);
    increment(FIELDS.unreachable, down?.unreachable ?? 0);
    increment(FIELDS.unanswered, down?.unanswered ?? 0);
    for (const [policy, denied] of Object.entries(policies)) increment(FIELDS.policy + policy, denied);
    for (const [reason, denied] of Object.entries(reasons)) increment(FIELDS.reason + reason, denied);
    for (const [policy, { levels, units }] of use) {
      increment(FIELDS.units + policy, units);
      for (const [level, times] of levels.entries()) increment(`${FIELDS.use}${level}:${policy}`, times);
    }
  }

  /** The counts of the first minute, by limiter, then by field. They are then empty. @param isLast whether the counts of all minutes are taken as those of the last one */
  take(isLast = false): { readonly start?: number; readonly fields: MinuteFields } {
    if (this.#minutes.size === 0) return { fields: new Map() };
    const starts = [...this.#minutes.keys()].sort((a, b) => a - b);
    const start = isLast ? starts.at(-1)! : starts[0]!;
    const fields = this.#minutes.get(start)!;
    this.#minutes.delete(start);
    if (isLast) for (const earlier of this.#minutes.values()) join(fields, earlier);
    if (isLast) this.#minutes.clear();
    return { start, fields };
  }
}

/** Adds counts to others. @param most the most limiters @param isKept whether a field is added */
export function join(
  to: Map<string, Map<string, number>>,
  from: MinuteFields,
  most = Infinity,
  isKept: (field: string) => boolean = () => true,
): void {
  for (const [name, fields] of from) {
    const own = to.get(name) ?? new Map<string, number>();
    if (to.size < most) to.set(name, own);
    for (const [field, by] of fields) if (isKept(field)) own.set(field, (own.get(field) ?? 0) + by);
  }
}

/** Parses the fields of a minute. @param fields alternating: a field, its value */
export function minuteOf(fields: readonly string[]): MinuteCounts {
  const counts = emptyMinute();
  for (let i = 0; i < fields.length; i += 2) {
    const field = fields[i]!;
    const [kind, name, times] = [field[0], field.slice(1), Number(fields[i + 1])];
    if (kind === FIELDS.policy) counts.policies.set(name, times);
    else if (kind === FIELDS.reason) counts.reasons.set(name, times);
    else if (kind === FIELDS.units) counts.units.set(name, times);
    else if (kind === FIELDS.use) {
      const at = name.indexOf(':');
      const policy = name.slice(at + 1);
      const levels = counts.use.get(policy) ?? noUse();
      levels[Number(name.slice(0, at))] = times;
      counts.use.set(policy, levels);
    } else if (field === FIELDS.admitted) counts.admitted = times;
    else if (field === FIELDS.denied) counts.denied = times;
    else if (field === FIELDS.degraded) counts.degraded = times;
    else if (field === FIELDS.unreachable) counts.unreachable = times;
    else if (field === FIELDS.unanswered) counts.unanswered = times;
  }
  return counts;
}
