import { UNENDED_RECORD_MS, type RecordChange } from '../../../contract/overrides.js';

/** Limits of the stored data. `docs/redis.md` lists them. */
const MAX_RECORDED_OVERRIDES = 100_000;
const MAX_LOG_ENTRIES = 10_000;
const LOG_LIFE_MS = 366 * 24 * 60 * 60 * 1000;

/** The keys of the index and of the log, in one slot. Without a colon between the braces, they are never a limiter's. */
export function overrideBookKeys(prefix: string): [index: string, log: string] {
  const head = `${prefix}:{overrides}`;
  return [head, `${head}:log`];
}

/** An entry of the log. */
export interface LoggedOverride {
  readonly action: 'override' | 'remove';
  /** The owner of the limits: the text between the braces of the state's keys. */
  readonly who: string;
  /** The change as the operator passed it. Absent if the override was removed. */
  readonly change?: unknown;
  /** The duration, ms. 0 until it is removed. */
  readonly forMs: number;
  readonly by?: string;
  readonly reason?: string;
}

/** The arguments of `note-override.lua` for a change. */
export function overrideBookArgs(who: string, { entry, duration, note }: RecordChange): string[] {
  const isEnd = entry === '';
  const details = isEnd ? note : (JSON.parse(entry.slice(entry.lastIndexOf('\t') + 1)) as object);
  const logged: LoggedOverride = { action: isEnd ? 'remove' : 'override', who, forMs: duration, ...details };
  const length = isEnd ? 0 : duration === 0 ? UNENDED_RECORD_MS : duration;
  const bounds = [MAX_RECORDED_OVERRIDES, MAX_LOG_ENTRIES, LOG_LIFE_MS].map(String);
  return [...bounds, who, String(length), JSON.stringify(logged)];
}
