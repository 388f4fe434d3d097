import { useIn } from 'headgate/admin';
import { CachedByName } from './cached.js';
import type { Show, ShownKey } from './hidden.js';
import { isUnknown, type Searches } from './searches.js';

/** The share of a limit from which a key is listed, the most listed keys, and the most keys that a search reads. */
const NEAR_SHARE = 0.8;
const SHOWN = 50;
const READ_KEYS = 5_000;

/** The age of a list, ms, which is also the time over which the trend of a key is measured. */
const LIST_MS = 15_000;

/** The longest search, ms. */
const TIMEOUT_MS = 2_000;

/** A key that has used most of a limit. */
export interface NearKey {
  readonly key: ShownKey;
  readonly dimension?: string;
  readonly tier?: string;
  /** False if the key may have another tier, in which it has used another part. Absent otherwise. */
  readonly certain?: false;
  readonly policy: string;
  readonly used: number;
  readonly limit: number;
  /** The growth of the use since the last list, units a second. Null for a key that was not listed. */
  readonly trend: number | null;
  /** The time until the limit is used up at this growth, ms. Null without a growth. */
  readonly fullInMs: number | null;
}

/** The keys near their limit. */
export interface NearKeys {
  readonly rows: readonly NearKey[];
  /** Whether the search ended early, or found more keys than are listed. */
  readonly isCut: boolean;
  /** Whether the limits are unknown, because they depend on the request. */
  readonly isUnknown: boolean;
}

interface Seen {
  readonly used: number;
  readonly at: number;
}

/** Lists the keys of a limiter that have used most of a limit, by a bounded search that all visitors share. */
export class Near {
  readonly #searches: Searches;
  readonly #show: Show;
  readonly #lists: CachedByName<NearKeys>;
  /** The use of the listed keys in the last list of each limiter. */
  readonly #seen = new Map<string, ReadonlyMap<string, Seen>>();

  constructor(searches: Searches, show: Show) {
    this.#searches = searches;
    this.#show = show;
    this.#lists = new CachedByName(LIST_MS, (name) => this.#read(name));
  }

  of(name: string): Promise<NearKeys> {
    return this.#lists.get(name);
  }

  async #read(name: string): Promise<NearKeys> {
    const found: { readonly id: string; readonly row: Omit<NearKey, 'trend' | 'fullInMs'> }[] = [];
    let read = 0;
    const take = (find: Parameters<Parameters<Searches['search']>[2]>[0]): boolean => {
      if (find.kind !== 'admitted' && find.kind !== 'limited') return false;
      // Of tiers that the key does not have, judging by its use, no limit is near.
      if (find.kind === 'limited' && !find.likely) return false;
      const { key, dimension, tier, certain } = find;
      for (const verdict of find.policies) {
        const { used, quota: limit } = useIn(verdict);
        if (limit <= 0 || used < NEAR_SHARE * limit) continue;
        const policy = verdict.name;
        const whose = {
          ...(dimension !== undefined && { dimension }),
          ...(tier !== undefined && { tier }),
          ...(!certain && { certain: false as const }),
        };
        found.push({
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
      const now = Date.now();
      const before = this.#seen.get(name);
      if (this.#seen.size > 100) this.#seen.clear();
      this.#seen.set(name, new Map(found.map(({ id, row }) => [id, { used: row.used, at: now }])));
      const rows = found.map(({ id, row }) => ({ ...row, ...trendOf(row, before?.get(id), now) }));
      const isOpen = ({ certain }: NearKey): number => Number(certain === false);
      rows.sort((a, b) => isOpen(a) - isOpen(b) || b.used / b.limit - a.used / a.limit);
      return { rows: rows.slice(0, SHOWN), isCut: isCut || rows.length > SHOWN, isUnknown: false };
    } catch (error) {
      if (isUnknown(error)) return { rows: [], isCut: false, isUnknown: true };
      throw error;
    }
  }
}

function trendOf(
  { used, limit }: Pick<NearKey, 'used' | 'limit'>,
  before: Seen | undefined,
  now: number,
): Pick<NearKey, 'trend' | 'fullInMs'> {
  if (!before || now <= before.at) return { trend: null, fullInMs: null };
  const trend = (1000 * (used - before.used)) / (now - before.at);
  const left = limit - used;
  return {
    trend: Math.round(100 * trend) / 100,
    fullInMs: left <= 0 ? 0 : trend > 0 ? Math.round((1000 * left) / trend) : null,
  };
}
