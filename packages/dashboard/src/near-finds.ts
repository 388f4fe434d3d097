import { useIn, type JudgedKey } from 'headgate/admin';
import type { Show, ShownKey } from './hidden.js';

/** The share of a limit from which a key is listed. */
const NEAR_SHARE = 0.8;

/** The lists over which the trend of a key is measured. */
const TREND_LISTS = 4;

export interface NearKey {
  readonly key: ShownKey;
  readonly dimension?: string;
  /** Within which key a tenant has its share. */
  readonly within?: ShownKey;
  readonly tier?: string;
  /** False if the key may have another tier, in which it has used another part. Absent otherwise. */
  readonly certain?: false;
  readonly policy: string;
  readonly used: number;
  readonly limit: number;
  /** Whether units stay in the use for up to a segment longer than the window. Absent otherwise. */
  readonly isSegmented?: true;
  /** The growth of the use over the last lists, units a second, or 0 without a clear growth. Null until the key was in enough lists. */
  readonly trend: number | null;
  /** The time until the limit is used up at this growth, ms. Null without a growth, and if the window ends before. */
  readonly fullInMs: number | null;
}

/** A key near a limit, as a search finds it. */
export interface NearFind {
  /** The same in each search. */
  readonly id: string;
  readonly row: Omit<NearKey, 'trend' | 'fullInMs'>;
  /** The time until the use begins anew, ms. */
  readonly windowEndMs: number;
  /** The time after which none of this use is left, ms. Without an end for slots, which processes renew. */
  readonly goneAfterMs: number;
}

/** The limits that a key has used most of. */
export function nearIn(
  find: Pick<JudgedKey, 'name' | 'key' | 'dimension' | 'within' | 'tier' | 'certain' | 'policies'>,
  show: Show,
): NearFind[] {
  const { key, dimension, tier, certain, within } = find;
  return find.policies.flatMap((verdict): NearFind[] => {
    const { used, quota: limit } = useIn(verdict);
    if (limit <= 0 || used < NEAR_SHARE * limit) return [];
    const policy = verdict.name;
    const whose = {
      ...(dimension !== undefined && { dimension }),
      ...(within !== undefined && { within: show(within) }),
      ...(tier !== undefined && { tier }),
      ...(!certain && { certain: false as const }),
    };
    return [
      {
        windowEndMs: verdict.algorithm === 'fixed-window' ? verdict.resetAfterMs : Infinity,
        goneAfterMs: verdict.algorithm === 'concurrency' ? Infinity : verdict.resetAfterMs,
        id: JSON.stringify([find.name, key, dimension, within, tier, policy]),
        row: {
          ...{ key: show(key), ...whose, policy, used, limit },
          ...(verdict.algorithm === 'sliding-window' && { isSegmented: true }),
        },
      },
    ];
  });
}

/** The order of a list: those that certainly are near their limit first, and of these the fullest. */
export const byUse = (a: NearKey, b: NearKey): number =>
  isOpen(a) - isOpen(b) || b.used / b.limit - a.used / a.limit;

const isOpen = ({ certain }: NearKey): number => Number(certain === false);

export interface Seen {
  readonly used: number;
  readonly at: number;
}

/** The uses of a key in the last lists with the present one. Those before a gap do not count. @param maxGapMs the longest time between two lists, ms */
export function seenWith(
  before: readonly Seen[] = [],
  { row: { used } }: NearFind,
  at: number,
  maxGapMs: number,
): readonly Seen[] {
  const last = before.at(-1);
  const kept = last && at - last.at <= maxGapMs ? before : [];
  return [...kept, { used, at }].slice(-TREND_LISTS);
}

/** The row of a key, with the trend of a use that rose, or fell, from list to list, by more than the requests of a steady key vary. */
export function withTrend({ row, windowEndMs }: NearFind, seen: readonly Seen[] = []): NearKey {
  const { used, limit } = row;
  const left = limit - used;
  const end = left <= 0 ? 0 : null;
  if (seen.length < TREND_LISTS) return { ...row, trend: null, fullInMs: end };
  const [first, last] = [seen[0]!, seen.at(-1)!];
  const growth = last.used - first.used;
  const steps = seen.slice(1).map((each, i) => each.used - seen[i]!.used);
  const isClear = steps.every((step) => step * growth > 0) && Math.abs(growth) > 2 * Math.sqrt(first.used);
  if (!isClear) return { ...row, trend: 0, fullInMs: end };
  const trend = (1000 * growth) / (last.at - first.at);
  const fullInMs = Math.round((1000 * left) / trend);
  return {
    ...row,
    trend: Math.round(100 * trend) / 100,
    fullInMs: end ?? (trend > 0 && fullInMs < windowEndMs ? fullInMs : null),
  };
}
