import type { Comparison } from './compare.js';
import type { LogSummary } from './log-file.js';
import type { Found } from './notes.js';
import type { ReplayResult } from './replay.js';
import type { Suggestions } from './suggest.js';

const iso = (time: number | undefined): string | null =>
  time === undefined ? null : new Date(time).toISOString();

/** The result of a replay, for programs. Times are ISO 8601. */
export function replayJson(
  result: ReplayResult,
  logs: readonly LogSummary[],
  left: readonly string[],
  compared: Comparison | undefined,
): object {
  return {
    ...resultJson(result),
    notReplayed: left,
    logs: logs.map(logJson),
    ...(compared && { compared: comparisonJson(compared) }),
  };
}

function comparisonJson({ result, left, both, firstOnly, secondOnly }: Comparison): object {
  return {
    ...resultJson(result),
    notReplayed: left,
    deniedByBoth: both,
    deniedByFirstOnly: firstOnly,
    deniedBySecondOnly: secondOnly,
  };
}

function resultJson(result: ReplayResult): object {
  const { first, last, busiest, policies, top, timeline, ...counts } = result;
  return {
    ...counts,
    busiest: busiestJson(busiest),
    first: iso(first),
    last: iso(last),
    policies: policies.map((each) => ({ ...each, first: iso(each.first), last: iso(each.last) })),
    top: top.map((client) => ({
      ...client,
      first: iso(client.first),
      last: iso(client.last),
      streakAt: iso(client.streakAt),
    })),
    timeline: {
      widthMs: timeline.width,
      intervals: timeline.intervals.map((interval) => ({ ...interval, start: iso(interval.start) })),
    },
  };
}

/** The suggestions, for programs. `deniedRequests` is null if the log could not be read twice. */
export function suggestJson(
  { keep, each, together }: Suggestions,
  { busiest, ...found }: Found,
  logs: readonly LogSummary[],
): object {
  return {
    keep,
    ...found,
    busiest: busiestJson(busiest),
    first: iso(found.first),
    last: iso(found.last),
    windows: each.map(({ window, alternatives }) => ({
      windowMs: window,
      alternatives: alternatives.map((alternative) => ({
        ...alternative,
        deniedRequests: alternative.deniedRequests ?? null,
      })),
    })),
    together: { ...together, deniedRequests: together.deniedRequests ?? null },
    logs: logs.map(logJson),
  };
}

const logJson = ({ warning, ...log }: LogSummary): object => ({ ...log, warning: warning ?? null });

const busiestJson = ({ key, value }: Found['busiest']): object => ({ key, requests: value });
