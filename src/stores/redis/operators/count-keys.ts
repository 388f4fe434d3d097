import { HOUR_MS, MINUTE_MS } from '../../counts/times.js';
import { escapeName } from '../../keys.js';

/** The Redis key of the stream of counts. Without a colon between the braces, it is never a limiter's. */
export const topKey = (prefix: string): string => `${prefix}:{top}`;

/** The key of the names of limiters with a history, in the same slot. */
export const namesKey = (prefix: string): string => `${topKey(prefix)}:names`;

/** The key of the counts of a limiter in one minute, in the same slot. @param minute its start, ms since 1970 */
export const minuteKey = (prefix: string, name: string, minute: number): string =>
  `${topKey(prefix)}:${minute / MINUTE_MS}:${escapeName(name)}`;

/** The key of the counts of a limiter in each ten minutes of an hour, in the same slot. @param time in the hour, ms since 1970 */
export const hourKey = (prefix: string, name: string, time: number): string =>
  `${topKey(prefix)}:hour:${Math.floor(time / HOUR_MS)}:${escapeName(name)}`;

/**
 * The key of the denied keys of an hour, in the same slot: their records, or the number of denials of each.
 *
 * @param time in the hour, ms since 1970
 */
export const deniedKey = (prefix: string, time: number, part: 'records' | 'counts' = 'records'): string =>
  `${topKey(prefix)}:denied:${Math.floor(time / HOUR_MS)}${part === 'counts' ? ':counts' : ''}`;
