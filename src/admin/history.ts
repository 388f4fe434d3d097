import { checkInteger, checkShape } from '../common/validate.js';
import type { MinuteCounts } from '../stores/counts/history.js';
import { HOUR_MS, MINUTE_MS, STEP_MS } from '../stores/counts/times.js';
import { noUse } from '../stores/counts/use-histogram.js';
import { checkName, type Context, type NameFilter } from './context.js';
import { wrongArgument } from './typed-keys.js';

/** Options of `history`. */
export interface HistoryOptions extends NameFilter {
  /** The number of minutes, with the current one: 1 to 60. @default 15 */
  minutes?: number | undefined;
  /** The number of hours, 1 to 24, in place of `minutes`: each number is then of ten minutes, and there are no policies, reasons and use. */
  hours?: number | undefined;
}

/** The decisions of the last hour by the minute, or of the last day by ten minutes. */
export interface History {
  /** The starts of the minutes by the store's clock, ms since 1970, the oldest first. The last one is the current, incomplete minute. */
  readonly minutes: readonly number[];
  /** The limiters, by name. */
  readonly limiters: readonly LimiterHistory[];
  /** The spans in which the store was down or late, the oldest first. A process that decided nothing does not notice an outage. */
  readonly outages: readonly Outage[];
}

/** Minutes in a row in which processes decided without the store. */
export interface Outage {
  /** The start of the first minute, ms since 1970. */
  readonly from: number;
  /** The end of the last minute, ms since 1970. */
  readonly to: number;
  /** The decisions of `onStoreError` of all limiters. */
  readonly degraded: number;
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
  /** Those of `degraded` while the store was down, because it could not be reached, or failed. */
  readonly unreachable: readonly number[];
  /** Those of `degraded` while the store was down, because its answers did not come in time. The others of `degraded` are single late answers. */
  readonly unanswered: readonly number[];
  /** The denials by each policy. Includes the denials that a shadow would have made. */
  readonly policies: Readonly<Record<string, readonly number[]>>;
  /** The denials by no policy, by `decision.reason`. */
  readonly reasons: Readonly<Record<string, readonly number[]>>;
  /**
   * The use of each policy: for every minute, the number of uses that reached each of the `USE_LEVELS`, and then the number of those that were
   * denied. A use is a key in a window. Use of sliding windows and buckets that lasts into the next window is a new one in each process.
   */
  readonly use: Readonly<Record<string, readonly (readonly number[])[]>>;
  /** The admitted units of each policy, by all processes. Refunds do not lower them. */
  readonly units: Readonly<Record<string, readonly number[]>>;
}

export async function history({ state }: Context, options: HistoryOptions = {}): Promise<History> {
  checkShape('history', options, ['name', 'minutes', 'hours']);
  const { name, minutes: given, hours } = options;
  if (name !== undefined) checkName(name);
  if (given !== undefined && hours !== undefined) throw wrongArgument('minutes and hours: pass one of them.');
  const [count, length] =
    hours === undefined
      ? [checkInteger('minutes', given ?? 15, 1, 60), MINUTE_MS]
      : [(checkInteger('hours', hours, 1, 24) * HOUR_MS) / STEP_MS, STEP_MS];
  const counted = await state.counts?.minutes(count, length, name);
  const { minutes, limiters } = counted ?? { minutes: [], limiters: [] };
  const histories = [...limiters].map(([each, counts]) => historyOf(each, counts));
  return { minutes, limiters: histories, outages: outagesIn(minutes, histories, length) };
}

/** @param length the length of a minute, or of the step in its place, ms */
function outagesIn(
  minutes: readonly number[],
  limiters: readonly LimiterHistory[],
  length: number,
): Outage[] {
  const outages: Outage[] = [];
  for (const [i, from] of minutes.entries()) {
    const degraded = limiters.reduce((sum, each) => sum + each.degraded[i]!, 0);
    if (degraded === 0) continue;
    const last = outages.at(-1)?.to === from ? outages.pop() : undefined;
    const sum = degraded + (last?.degraded ?? 0);
    outages.push({ from: last?.from ?? from, to: from + length, degraded: sum });
  }
  return outages;
}

function historyOf(name: string, minutes: readonly MinuteCounts[]): LimiterHistory {
  return {
    name,
    admitted: minutes.map(({ admitted }) => admitted),
    denied: minutes.map(({ denied }) => denied),
    degraded: minutes.map(({ degraded }) => degraded),
    unreachable: minutes.map(({ unreachable }) => unreachable),
    unanswered: minutes.map(({ unanswered }) => unanswered),
    policies: byName(minutes, 'policies', 0),
    reasons: byName(minutes, 'reasons', 0),
    units: byName(minutes, 'units', 0),
    use: byName<readonly number[], 'use'>(minutes, 'use', NO_USE),
  };
}

const NO_USE: readonly number[] = noUse();

/** The values of each name that occurs in a minute, for all minutes. */
function byName<T, Field extends string>(
  minutes: readonly Readonly<Record<Field, ReadonlyMap<string, T>>>[],
  field: Field,
  nothing: T,
): Record<string, T[]> {
  const names = [...new Set(minutes.flatMap((each) => [...each[field].keys()]))].sort();
  return Object.fromEntries(
    names.map((name) => [name, minutes.map((each) => each[field].get(name) ?? nothing)]),
  );
}
