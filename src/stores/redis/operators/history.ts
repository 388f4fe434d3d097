import type { CountedLimiter } from '../../counts.js';
import { USE_LEVELS } from '../../use.js';
import { MINUTE_MS, minuteKey, namesKey } from './count-keys.js';

/** The most limiters with a history. */
export const MAX_HISTORIES = 1000;

/** The counts of one limiter in one minute. */
export interface MinuteCounts {
  admitted: number;
  denied: number;
  degraded: number;
  readonly policies: Map<string, number>;
  readonly reasons: Map<string, number>;
  readonly use: Map<string, number[]>;
}

/** The fields of a minute: a letter for each kind, and the name of a policy or a reason. Of `u`, the level comes before a colon. */
const FIELDS = { admitted: 'a', denied: 'd', degraded: 'g', policy: 'p', reason: 'r', use: 'u' } as const;

/** The counts of this process that are not yet part of the history. */
export class History {
  readonly #prefix: string;
  /** By limiter, then by field. */
  #counts = new Map<string, Map<string, number>>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  add(limiter: CountedLimiter, use: ReadonlyMap<string, readonly number[]>): void {
    const { name, counts, degraded = 0, policies, reasons } = limiter;
    const fields = this.#counts.get(name) ?? new Map<string, number>();
    this.#counts.set(name, fields);
    const increment = (field: string, by: number): void => {
      if (by > 0) fields.set(field, (fields.get(field) ?? 0) + by);
    };
    increment(FIELDS.admitted, counts[0]);
    increment(FIELDS.denied, counts[1]);
    increment(FIELDS.degraded, degraded);
    for (const [policy, denied] of Object.entries(policies)) increment(FIELDS.policy + policy, denied);
    for (const [reason, denied] of Object.entries(reasons)) increment(FIELDS.reason + reason, denied);
    for (const [policy, levels] of use)
      for (const [level, times] of levels.entries()) increment(`${FIELDS.use}${level}:${policy}`, times);
  }

  /** The keys and arguments for `count.lua`. The counts are then empty. @param now the server's time, ms */
  take(now: number): { keys: string[]; args: string[] } {
    const counts = this.#counts;
    this.#counts = new Map();
    if (counts.size === 0) return { keys: [], args: [] };
    const minute = now - (now % MINUTE_MS);
    const names = [...counts.keys()];
    return {
      keys: [namesKey(this.#prefix), ...names.map((name) => minuteKey(this.#prefix, name, minute))],
      args: [...counts].flatMap(([name, fields]) => [
        name,
        String(fields.size),
        ...[...fields].flatMap(([field, by]) => [field, String(by)]),
      ]),
    };
  }
}

/** Parses the fields of a minute. @param fields alternating: a field, its value */
export function minuteOf(fields: readonly string[]): MinuteCounts {
  const counts: MinuteCounts = {
    ...{ admitted: 0, denied: 0, degraded: 0 },
    ...{ policies: new Map(), reasons: new Map(), use: new Map() },
  };
  for (let i = 0; i < fields.length; i += 2) {
    const field = fields[i]!;
    const [kind, name, times] = [field[0], field.slice(1), Number(fields[i + 1])];
    if (kind === FIELDS.policy) counts.policies.set(name, times);
    else if (kind === FIELDS.reason) counts.reasons.set(name, times);
    else if (kind === FIELDS.use) {
      const at = name.indexOf(':');
      const policy = name.slice(at + 1);
      const levels = counts.use.get(policy) ?? USE_LEVELS.map(() => 0);
      levels[Number(name.slice(0, at))] = times;
      counts.use.set(policy, levels);
    } else if (field === FIELDS.admitted) counts.admitted = times;
    else if (field === FIELDS.denied) counts.denied = times;
    else if (field === FIELDS.degraded) counts.degraded = times;
  }
  return counts;
}
