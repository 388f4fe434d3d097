import { FOR_EVER, type RecordChange } from '../../../contract/overrides.js';

/** Limits of the stored data. `docs/redis.md` lists them. */
const MOST_OVERRIDES = 100_000;
const MOST_LOGGED = 10_000;
const LOG_LIFE = 366 * 24 * 60 * 60 * 1000;

/** The keys of the index and of the log. They have no colon between the braces, so they are never a limiter's. Both are in one slot. */
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
export function overrideBookArgs(who: string, { line, duration, note }: RecordChange): string[] {
  const isEnd = line === '';
  const said = isEnd ? note : (JSON.parse(line.slice(line.lastIndexOf('\t') + 1)) as object);
  const entry: LoggedOverride = { action: isEnd ? 'remove' : 'override', who, forMs: duration, ...said };
  const length = isEnd ? 0 : duration === 0 ? FOR_EVER : duration;
  const bounds = [MOST_OVERRIDES, MOST_LOGGED, LOG_LIFE].map(String);
  return [...bounds, who, String(length), JSON.stringify(entry)];
}
