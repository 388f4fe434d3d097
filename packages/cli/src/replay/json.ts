import { requestNotes, type Found } from './tables.js';
import type { LogSummary } from './log-file.js';
import type { ReplayResult, Results } from './replay.js';
import type { Suggestions } from './suggest.js';

const TIMES = ['first', 'last', 'start', 'streakAt'];

/** Copies a value for programs: times become ISO 8601, and missing values null. */
function plain(value: object): object {
  const text = JSON.stringify(value, (field, each: unknown) =>
    TIMES.includes(field) && typeof each === 'number' ? new Date(each).toISOString() : (each ?? null),
  );
  return JSON.parse(text) as object;
}

export function replayJson({ result, logs, left, compared }: Results): object {
  const other = compared && {
    ...resultJson(compared.result),
    notReplayed: compared.left,
    deniedByBoth: compared.both,
    deniedByFirstOnly: compared.firstOnly,
    deniedBySecondOnly: compared.secondOnly,
  };
  return plain({
    ...resultJson(result),
    notReplayed: left,
    notes: requestNotes(result),
    logs,
    ...(other && { compared: other }),
  });
}

function resultJson(result: ReplayResult): object {
  const { width, intervals } = result.timeline;
  return { ...result, busiest: busiestJson(result), timeline: { widthMs: width, intervals } };
}

/** The suggestions, for programs. `deniedRequests` is null if the log could not be read twice. */
export function suggestJson(
  { keep, each, together, outliers }: Suggestions,
  found: Found,
  logs: readonly LogSummary[],
): object {
  const windows = each.map(({ window, alternatives }) => ({ windowMs: window, alternatives }));
  const { requests, clients, first, last } = found;
  return plain({
    keep,
    requests,
    clients,
    first,
    last,
    busiest: busiestJson(found),
    windows,
    together,
    notes: requestNotes(found),
    outliers: outliers && { clients: [...outliers.clients], policies: outliers.policies },
    logs,
  });
}

const busiestJson = ({ busiest }: Pick<Found, 'busiest'>) => ({ key: busiest.key, requests: busiest.value });
