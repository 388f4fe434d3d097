// Law 19 between processes: each threshold is reported once per window, and reaches readers once, also if processes are killed.
import type { RecordedThreshold } from 'headgate/admin';
import { isCharged, type Entry, type Report } from './record.js';
import { LEDGER } from './site.js';
import type { ProcessSite } from './task.js';

const countOf = (values: readonly string[]) => {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
};

/** @param stream all crossings, as a reader of another group sees them */
export function checkThresholds(
  site: ProcessSite,
  entries: readonly Entry[],
  reports: readonly Report[],
  stream: readonly RecordedThreshold[],
): string[] {
  return [
    ...checkOnce(site, stream),
    ...checkReported(reports, stream),
    ...checkReaders(reports, stream),
    ...checkNoneLost(entries, stream),
  ];
}

const whose = ({ name, policy, key }: RecordedThreshold) => `${name as string} ${policy} ${key as string}`;

/** A window begins with a report, and ends when the quota would be full again. */
function checkOnce(site: ProcessSite, stream: readonly RecordedThreshold[]): string[] {
  const faults: string[] = [];
  const marks = new Map<string, { until: number; last: Map<number, RecordedThreshold> }>();
  for (const crossing of stream) {
    const { name, policy, threshold, limit, at, resetAfterMs } = crossing;
    const drawn = site.limiters[Number((name as string).slice(1))]!;
    const sets = [drawn.policies, ...Object.values(drawn.tiers)].map((set) =>
      set.find((each) => each.name === policy),
    );
    // Tiers with other windows, and buckets of other rates, have counts of their own. A reset begins a new window.
    const isOneCount = sets.every(
      (each) => !each || (each.window === sets[0]?.window && each.burst === undefined),
    );
    const isBucket = ['token-bucket', 'leaky-bucket', 'gcra'].includes(sets[0]!.algorithm);
    if (!isOneCount || isBucket || site.resets || drawn.ban?.fresh) continue;
    const mark = marks.get(whose(crossing)) ?? { until: 0, last: new Map<number, RecordedThreshold>() };
    marks.set(whose(crossing), mark);
    // Times are in whole ms.
    if (at.getTime() + 1 >= mark.until) mark.last.clear();
    const before = mark.last.get(threshold);
    if (before && before.limit >= limit)
      faults.push(
        `threshold ${threshold} of ${whose(crossing)} is reported twice: ${JSON.stringify([before, crossing])}`,
      );
    mark.last.set(threshold, crossing);
    mark.until = at.getTime() + resetAfterMs;
  }
  return faults;
}

/** No process reports a crossing that is not in the stream, and no two processes the same. */
function checkReported(reports: readonly Report[], stream: readonly RecordedThreshold[]): string[] {
  const inStream = countOf(stream.map((each) => `${whose(each)} ${each.threshold} ${each.limit}`));
  const told = countOf(
    reports.flatMap(({ event }) =>
      event ? [`${event.limiter} ${event.policy} ${event.key} ${event.threshold} ${event.limit}`] : [],
    ),
  );
  return [...told]
    .filter(([each, count]) => count > (inStream.get(each) ?? 0))
    .map(([each, count]) => `${each}: ${count} reports, ${inStream.get(each) ?? 0} in the stream`);
}

/** Every crossing reaches a reader, and none again after its acknowledgement. */
function checkReaders(reports: readonly Report[], stream: readonly RecordedThreshold[]): string[] {
  const reads = reports.filter(({ read }) => read !== undefined);
  const seen = new Set(reads.map(({ read }) => read));
  const acked = new Map(
    reports.flatMap(({ acked: id, at }) => (id === undefined ? [] : [[id, at] as const])),
  );
  return [
    ...stream.filter(({ id }) => !seen.has(id)).map((each) => `never read: ${JSON.stringify(each)}`),
    ...[...seen]
      .filter((id) => !stream.some((each) => each.id === id))
      .map((id) => `${id} was read, and is not in the stream`),
    ...reads
      .filter(({ read, at }) => at > (acked.get(read!) ?? Infinity))
      .map(({ read }) => `${read} was read again after its acknowledgement`),
  ];
}

/** The ledger's window never ends, so that each level that an answer shows has exactly one crossing. */
function checkNoneLost(entries: readonly Entry[], stream: readonly RecordedThreshold[]): string[] {
  const found = countOf(
    stream.filter(({ policy }) => policy === LEDGER.name).map((each) => `${whose(each)} ${each.threshold}`),
  );
  const missed = new Set<string>();
  for (const entry of entries) {
    const { answer, limiter } = entry;
    if (!isCharged(entry)) continue;
    const verdict = answer!.policies.find(({ name }) => name === LEDGER.name);
    if (!verdict || !((answer!.costs[LEDGER.name] ?? 0) > 0)) continue;
    for (const threshold of LEDGER.thresholds!)
      if (verdict.limit - verdict.remaining >= threshold * verdict.limit) {
        const each = `l${limiter} ${LEDGER.name} ${verdict.key} ${threshold}`;
        if (!found.has(each)) missed.add(each);
      }
  }
  return [...missed].map((each) => `${each} was crossed, and is not in the stream`);
}
