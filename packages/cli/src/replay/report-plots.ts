import { policyText } from 'headgate';
import { duration, printable } from '../format.js';
import type { ClientTimes, Report } from './report.js';
import { compiled } from './policies.js';
import type { ReplayResult } from './replay.js';

interface Series {
  readonly name: string;
  /** A variable in the page's style sheet. */
  readonly color: string;
  readonly values: readonly number[];
  /** Marks the line of a limit, which has the same value everywhere. */
  readonly dashed?: boolean;
}

interface Plot {
  readonly id: string;
  readonly stacked?: boolean;
  readonly series: readonly Series[];
}

/** The resolution of many logs. */
const SECOND = 1000;

const COLORS = 6;

const colorOf = (i: number): string => `--p${i % COLORS}`;

/** The plots of the page. Times are in seconds. */
export function plotsOf({ result, clients, compared }: Report) {
  const { timeline, policies } = result;
  const { intervals } = timeline;
  const all = intervals.map(({ admitted, denied }) => admitted + denied);
  const denied = intervals.map((interval) => interval.denied);
  const line = (name: string, color: string, values: readonly number[]): Series => ({ name, color, values });
  const admitted = intervals.map((interval) => interval.admitted);
  const deniedBy = (i: number) => intervals.map((interval) => interval.policies[i]!);
  const plots: Plot[] = [
    {
      id: 'requests',
      stacked: true,
      series: [line('admitted', '--in', admitted), line('denied', '--out', denied)],
    },
    {
      id: 'denied',
      series: policies.map(({ name }, i) => line(name, colorOf(i), deniedBy(i))),
    },
  ];
  if (compared) {
    const other = compared.result.timeline.intervals.map((interval) => interval.denied);
    const series = [
      line('all requests', '--quiet', all),
      line('denied by the policies above', '--out', denied),
      line('denied by the other ones', '--p0', other),
    ];
    plots.push({ id: 'compared', series });
  }
  if (clients && result.denied > 0) {
    plots.push({ id: 'clients', series: [...clientSeries(clients), ...limitLines(result)] });
  }
  return {
    times: intervals.map(({ start }) => start / SECOND),
    width: timeline.width / SECOND,
    partial: partialIntervals(result),
    plots,
  };
}

function clientSeries({ clients }: ClientTimes): Series[] {
  return clients.map(({ key, admitted, denied }, i) => ({
    name: printable(key, 40),
    color: colorOf(i),
    values: admitted.map((units, at) => units + denied[at]!),
  }));
}

/** The units that each policy admits from one client in one interval, on average. */
function limitLines({ policies, timeline: { width, intervals } }: ReplayResult): Series[] {
  return policies.flatMap(({ policy }): Series[] => {
    if (!('window' in policy)) return [];
    const value = (policy.limit * width) / compiled(policy).window;
    const { name: _, ...unnamed } = policy;
    const name = `limit: ${policyText(unnamed)}, per ${duration(width)}`;
    return [{ name, color: '--text', dashed: true, values: intervals.map(() => value) }];
  });
}

/** The intervals at the beginning and the end that the log covers only partly, in seconds. */
function partialIntervals({ timeline: { intervals, width }, first, last }: ReplayResult): [number, number][] {
  const [begin, end] = [intervals[0]!.start, intervals.at(-1)!.start];
  const starts = new Set([
    ...(first - begin >= SECOND ? [begin] : []),
    ...(end + width - last > SECOND ? [end] : []),
  ]);
  return [...starts].map((start) => [start / SECOND, (start + width) / SECOND]);
}
