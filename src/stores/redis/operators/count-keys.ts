import { escapeName } from '../../keys.js';

/** The time for which the counts of each second are kept, ms. */
export const STREAM_LIFE_MS = 60_000;

/** The time for which the counts of a minute are kept, ms. */
export const HISTORY_LIFE_MS = 3_600_000;

export const MINUTE_MS = 60_000;

/** The Redis key of the stream of counts. Without a colon between the braces, it is never a limiter's. */
export const topKey = (prefix: string): string => `${prefix}:{top}`;

/** The key of the names of limiters with a history, in the same slot. */
export const namesKey = (prefix: string): string => `${topKey(prefix)}:names`;

/** The key of the counts of a limiter in one minute, in the same slot. @param minute its start, ms since 1970 */
export const minuteKey = (prefix: string, name: string, minute: number): string =>
  `${topKey(prefix)}:${minute / MINUTE_MS}:${escapeName(name)}`;
