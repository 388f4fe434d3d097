import type { Admin, LimiterHistory } from 'headgate/admin';

/** The minutes of the sparklines, and of later readings, because older minutes do not change. */
const MINUTES = 15;
const RECENT_MINUTES = 2;

const COLUMNS = ['admitted', 'denied', 'degraded', 'unreachable', 'unanswered'] as const;

type Column = (typeof COLUMNS)[number];

export type Columns = Pick<LimiterHistory, Column | 'use'>;

/** The decisions of the last minutes, by limiter. */
export interface Minutes {
  readonly starts: readonly number[];
  readonly limiters: ReadonlyMap<string, Columns>;
}

/** Reads the last minutes. Of those that were read before, only the newest are read again. */
export async function readMinutes(admin: Admin, last: Minutes | undefined): Promise<Minutes> {
  const recent = last && (await admin.history({ minutes: RECENT_MINUTES }));
  // After an outage, processes write the counts of older minutes, too.
  const isTroubled = recent?.limiters.some(({ degraded }) => degraded.some((each) => each > 0)) ?? false;
  const isNext = recent !== undefined && !isTroubled && last!.starts.includes(recent.minutes[0]!);
  const { minutes: starts, limiters } = isNext ? recent : await admin.history({ minutes: MINUTES });
  if (!isNext) return { starts, limiters: new Map(limiters.map((each) => [each.name, columnsOf(each)])) };
  const kept = last!.starts.filter((start) => start < starts[0]!);
  const all = [...kept, ...starts].slice(-MINUTES);
  const by = new Map(limiters.map((each) => [each.name, each]));
  const names = new Set([...last!.limiters.keys(), ...by.keys()]);
  const merged = [...names].map((name) => {
    const [before, after] = [last!.limiters.get(name), by.get(name)];
    const join = (column: Column): number[] => {
      const old = kept.map((_, i) => before?.[column][i] ?? 0);
      const fresh = starts.map((_, i) => after?.[column][i] ?? 0);
      return [...old, ...fresh].slice(-MINUTES);
    };
    const columns = Object.fromEntries(COLUMNS.map((column) => [column, join(column)]));
    return [name, { ...(columns as Record<Column, number[]>), use: after?.use ?? {} }] as const;
  });
  return { starts: all, limiters: new Map(merged) };
}

const columnsOf = (history: LimiterHistory): Columns => {
  const { admitted, denied, degraded, unreachable, unanswered, use } = history;
  return { admitted, denied, degraded, unreachable, unanswered, use };
};
