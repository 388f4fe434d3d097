import { checkInteger, checkShape } from '../common/validate.js';
import type { MinuteCounts } from '../stores/redis/operators/history.js';
import { USE_LEVELS } from '../stores/use.js';
import { checkName, type Context, type NameFilter } from './context.js';

/** Options of `history`. */
export interface HistoryOptions extends NameFilter {
  /** The number of minutes, with the current one: 1 to 60. @default 15 */
  minutes?: number | undefined;
}

/** The decisions of the last hour, by the minute. */
export interface History {
  /** The starts of the minutes by the store's clock, ms since 1970, the oldest first. The last one is the current, incomplete minute. */
  readonly minutes: readonly number[];
  /** The limiters, by name. */
  readonly limiters: readonly LimiterHistory[];
}

/** The decisions of one limiter: a number for each minute. */
export interface LimiterHistory {
  /** The name of the limiter. */
  readonly name: string;
  /** Admitted requests. */
  readonly admitted: readonly number[];
  /** Denied requests. */
  readonly denied: readonly number[];
  /** Decisions of `onStoreError`, because the store had failed. */
  readonly degraded: readonly number[];
  /** The denials by each policy. Includes the denials that a shadow would have made. */
  readonly policies: Readonly<Record<string, readonly number[]>>;
  /** The denials by no policy, by `decision.reason`. */
  readonly reasons: Readonly<Record<string, readonly number[]>>;
  /**
   * The use of each policy: for every minute, how often the use of a key rose to each of the `USE_LEVELS`. As a key passes the levels once
   * per window, the first number counts keys and windows, and the last one those that were used up.
   */
  readonly use: Readonly<Record<string, readonly (readonly number[])[]>>;
}

/** The function that shows past minutes. */
export function historyFunctions({ state }: Context) {
  async function history(options: HistoryOptions = {}): Promise<History> {
    checkShape('history', options, ['name', 'minutes']);
    const { name, minutes: count = 15 } = options;
    if (name !== undefined) checkName(name);
    const { minutes, limiters } = await state.counts.minutes(checkInteger('minutes', count, 1, 60), name);
    return { minutes, limiters: [...limiters].map(([each, counts]) => historyOf(each, counts)) };
  }

  return { history };
}

function historyOf(name: string, minutes: readonly MinuteCounts[]): LimiterHistory {
  return {
    name,
    admitted: minutes.map(({ admitted }) => admitted),
    denied: minutes.map(({ denied }) => denied),
    degraded: minutes.map(({ degraded }) => degraded),
    policies: byName(
      minutes.map(({ policies }) => policies),
      0,
    ),
    reasons: byName(
      minutes.map(({ reasons }) => reasons),
      0,
    ),
    use: byName<readonly number[]>(
      minutes.map(({ use }) => use),
      NO_USE,
    ),
  };
}

const NO_USE: readonly number[] = USE_LEVELS.map(() => 0);

/** The values of each name that occurs in a minute, for all minutes. */
function byName<T>(minutes: readonly ReadonlyMap<string, T>[], nothing: T): Record<string, T[]> {
  const names = [...new Set(minutes.flatMap((each) => [...each.keys()]))].sort();
  return Object.fromEntries(names.map((name) => [name, minutes.map((each) => each.get(name) ?? nothing)]));
}
