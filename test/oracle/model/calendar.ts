// One count for each period of the calendar, in UTC.
import type { Policy } from './types.js';

/** The end of the period. */
export function endOfPeriod(now: number, period: Policy['period']): number {
  const date = new Date(now);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  if (period === 'hour') return Date.UTC(year, month, day, date.getUTCHours() + 1);
  if (period === 'day') return Date.UTC(year, month, day + 1);
  // Weeks begin on Mondays.
  if (period === 'week') return Date.UTC(year, month, day + 7 - ((date.getUTCDay() + 6) % 7));
  return Date.UTC(year, month + 1, 1);
}
