// Sentences about results.
import type { Lane, Outcome } from '../core.js';

const UNITS = [
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1000, 's'],
] as const;

/** A duration: `12.3 s`, `4 min`. */
function span(ms: number): string {
  const [unit, name] = UNITS.find(([least]) => ms >= least) ?? [1, 'ms'];
  return `${Math.round((10 * ms) / unit) / 10} ${name}`;
}

export const count = (n: number): string => n.toLocaleString('en-US');

/** A lane in a sentence. */
export function laneText({ counts, longestRetry, peak }: Lane): string {
  return [
    `${count(counts.admitted)} admitted at once, ${count(counts.delayed)} delayed, ${count(counts.denied)} denied.`,
    ...(peak
      ? [
          `At most ${count(peak.units)} in any window of ${span(peak.window)} (worst case ${count(peak.bound)}).`,
        ]
      : []),
    ...(longestRetry > 0 ? [`Longest Retry-After: ${span(longestRetry)}.`] : []),
  ].join(' ');
}

/** A request in a sentence. */
export function requestText({ at, client, kind, end, retryAt, decision }: Outcome): string {
  const before = `At ${span(at)}, ${client}:`;
  if (kind === 'admitted') return `${before} admitted, ${count(decision.remaining)} remaining.`;
  if (kind === 'delayed') return `${before} delayed by ${span(end - at)}, then admitted.`;
  const waited = end > at ? ` after ${span(end - at)} in line` : '';
  const retry =
    retryAt === undefined
      ? 'waiting does not help'
      : `Retry-After ${Math.max(1, Math.ceil((retryAt - end) / 1000))} s`;
  return `${before} denied${waited} (${decision.reason}), ${retry}.`;
}
