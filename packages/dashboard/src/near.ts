import { useIn, type KeyQueueView } from 'headgate/admin';
import { CachedByName } from './cached.js';
import type { Show, ShownKey } from './hidden.js';
import { isUnknown, type Searches } from './searches.js';

/** The share of a limit from which a key is listed, the most listed keys, and the most keys that a search reads. */
const NEAR_SHARE = 0.8;
const SHOWN = 50;
const READ_KEYS = 5_000;

/** The age of a list, ms. */
const LIST_MS = 10_000;

/** The lists over which the trend of a key is measured, and the longest time between two of them, ms. */
const TREND_LISTS = 4;
const MAX_GAP_MS = 40_000;

const TIMEOUT_MS = 2_000;

export interface NearKey {
  readonly key: ShownKey;
  readonly dimension?: string;
  readonly tier?: string;
  /** False if the key may have another tier, in which it has used another part. Absent otherwise. */
  readonly certain?: false;
  readonly policy: string;
  readonly used: number;
  readonly limit: number;
  /** The growth of the use over the last lists, units a second, or 0 without a clear growth. Null until the key was in enough lists. */
  readonly trend: number | null;
  /** The time until the limit is used up at this growth, ms. Null without a growth, and if the window ends before. */
  readonly fullInMs: number | null;
}

/** A key with slots in use. */
export interface KeySlots extends Pick<NearKey, 'key' | 'dimension' | 'tier' | 'policy' | 'used' | 'limit'> {
  /** Within which key a tenant has its slots. */
  readonly within?: ShownKey;
  /** The time until the last lease ends unless a process renews it, ms. */
  readonly freeAfterMs: number;
  /** The slots without a process, or `null` if unknown. */
  readonly uncounted: number | null;
}

type SlotOwner = Pick<KeyQueueView, 'key' | 'dimension' | 'within'>;

/** Returns the slots of each key of a limiter, as processes count them, or `null` if they are unknown. */
export type CountedSlots = (name: string) => Promise<(whose: SlotOwner) => number | null>;

export interface NearKeys {
  readonly rows: readonly NearKey[];
  /** The keys with slots in use, those with the most first. */
  readonly slots: readonly KeySlots[];
  /** The time of the search, ms since 1970. */
  readonly at: number;
  /** Whether the search ended early, or found more keys than are listed. */
  readonly isCut: boolean;
  /** Whether the limits are unknown, because they depend on the request. */
  readonly isUnknown: boolean;
}

interface Seen {
  readonly used: number;
  readonly at: number;
}

interface Found {
  readonly id: string;
  readonly row: Omit<NearKey, 'trend' | 'fullInMs'>;
  /** The time until the use begins anew, ms. */
  readonly windowEndMs: number;
}

/** Lists the keys of a limiter that have used most of a limit, by a bounded search that all visitors share. */
export class Near {
  readonly #searches: Searches;
  readonly #show: Show;
  readonly #counted: CountedSlots;
  readonly #lists: CachedByName<NearKeys>;
  /** The use of the listed keys in the last lists of each limiter, the oldest first. */
  readonly #seen = new Map<string, ReadonlyMap<string, readonly Seen[]>>();

  /** @param counted the slots of a key by processes, or `null` if unknown */
  constructor(searches: Searches, show: Show, counted: CountedSlots = () => Promise.resolve(() => null)) {
    this.#searches = searches;
    this.#show = show;
    this.#counted = counted;
    this.#lists = new CachedByName(LIST_MS, (name) => this.#read(name));
  }

  of(name: string): Promise<NearKeys> {
    return this.#lists.get(name);
  }

  async #read(name: string): Promise<NearKeys> {
    const found: Found[] = [];
    const held: (Omit<KeySlots, 'uncounted'> & { readonly whose: SlotOwner })[] = [];
    let read = 0;
    const take = (find: Parameters<Parameters<Searches['search']>[2]>[0]): boolean => {
      if (find.kind !== 'admitted' && find.kind !== 'limited') return false;
      // Of tiers that the key does not have, judging by its use, no limit is near.
      if (find.kind === 'limited' && !find.likely) return false;
      const { key, dimension, tier, certain, within } = find;
      for (const verdict of find.policies) {
        const { used, quota: limit } = useIn(verdict);
        if (used > 0 && verdict.algorithm === 'concurrency')
          held.push({
            whose: find,
            ...{ key: this.#show(key), policy: verdict.name, used, limit, freeAfterMs: verdict.resetAfterMs },
            ...(dimension !== undefined && { dimension }),
            ...(tier !== undefined && { tier }),
            ...(within !== undefined && { within: this.#show(within) }),
          });
        if (limit <= 0 || used < NEAR_SHARE * limit) continue;
        const policy = verdict.name;
        const whose = {
          ...(dimension !== undefined && { dimension }),
          ...(tier !== undefined && { tier }),
          ...(!certain && { certain: false as const }),
        };
        found.push({
          windowEndMs: verdict.algorithm === 'fixed-window' ? verdict.resetAfterMs : Infinity,
          id: JSON.stringify([key, dimension, tier, policy]),
          row: { key: this.#show(key), ...whose, policy, used, limit },
        });
      }
      return ++read === READ_KEYS;
    };
    try {
      const [, isCut] = await this.#searches.search(
        { name, kinds: ['admitted', 'limited'] },
        TIMEOUT_MS,
        take,
      );
      const countedOf = held.length > 0 ? await this.#counted(name) : () => null;
      const slots = held.map(({ whose, ...each }): KeySlots => {
        const counted = countedOf(whose);
        return { ...each, uncounted: counted === null ? null : Math.max(0, each.used - counted) };
      });
      const now = Date.now();
      const before = this.#seen.get(name);
      if (this.#seen.size > 100) this.#seen.clear();
      const seen = new Map(found.map((each) => [each.id, seenWith(before?.get(each.id), each, now)]));
      this.#seen.set(name, seen);
      const rows = found.map((each) => ({ ...each.row, ...trendOf(each, seen.get(each.id)!) }));
      const isOpen = ({ certain }: NearKey): number => Number(certain === false);
      rows.sort((a, b) => isOpen(a) - isOpen(b) || b.used / b.limit - a.used / a.limit);
      slots.sort((a, b) => b.used - a.used || b.used / b.limit - a.used / a.limit);
      return {
        ...{ rows: rows.slice(0, SHOWN), slots: slots.slice(0, SHOWN), at: now },
        ...{ isCut: isCut || rows.length > SHOWN || slots.length > SHOWN, isUnknown: false },
      };
    } catch (error) {
      if (isUnknown(error)) return { rows: [], slots: [], at: Date.now(), isCut: false, isUnknown: true };
      throw error;
    }
  }
}

/** The uses of a key in the last lists with the present one. Those before a gap do not count. */
function seenWith(before: readonly Seen[] = [], { row: { used } }: Found, at: number): readonly Seen[] {
  const last = before.at(-1);
  const kept = last && at - last.at <= MAX_GAP_MS ? before : [];
  return [...kept, { used, at }].slice(-TREND_LISTS);
}

/** The trend of a use that rose, or fell, from list to list, by more than the requests of a steady key vary. */
function trendOf(
  { row: { used, limit }, windowEndMs }: Found,
  seen: readonly Seen[],
): Pick<NearKey, 'trend' | 'fullInMs'> {
  const left = limit - used;
  const end = left <= 0 ? 0 : null;
  if (seen.length < TREND_LISTS) return { trend: null, fullInMs: end };
  const [first, last] = [seen[0]!, seen.at(-1)!];
  const growth = last.used - first.used;
  const steps = seen.slice(1).map((each, i) => each.used - seen[i]!.used);
  const isClear = steps.every((step) => step * growth > 0) && Math.abs(growth) > 2 * Math.sqrt(first.used);
  if (!isClear) return { trend: 0, fullInMs: end };
  const trend = (1000 * growth) / (last.at - first.at);
  const fullInMs = Math.round((1000 * left) / trend);
  return {
    trend: Math.round(100 * trend) / 100,
    fullInMs: end ?? (trend > 0 && fullInMs < windowEndMs ? fullInMs : null),
  };
}
