import { useIn, type JudgedKey, type KeyQueueView } from 'headgate/admin';
import { CachedByName } from './cached.js';
import type { Show, ShownKey } from './hidden.js';
import { byUse, nearIn, seenWith, withTrend, type NearFind, type NearKey, type Seen } from './near-finds.js';
import { isUnknown, type Searches } from './searches.js';

/** The most listed keys, and the most keys that a search reads. */
const SHOWN = 50;
const READ_KEYS = 5_000;

/** The age of a list, ms. */
const LIST_MS = 10_000;

/** The longest time between two lists of a trend, ms. */
const MAX_GAP_MS = 40_000;

const TIMEOUT_MS = 2_000;

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
    const found: NearFind[] = [];
    const held: HeldSlots[] = [];
    let read = 0;
    const take = (find: Parameters<Parameters<Searches['search']>[2]>[0]): boolean => {
      if (find.kind !== 'admitted' && find.kind !== 'limited') return false;
      // Of tiers that the key does not have, judging by its use, no limit is near.
      if (find.kind === 'limited' && !find.likely) return false;
      held.push(...this.#heldIn(find));
      found.push(...nearIn(find, this.#show));
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
      const seen = new Map(
        found.map((each) => [each.id, seenWith(before?.get(each.id), each, now, MAX_GAP_MS)]),
      );
      this.#seen.set(name, seen);
      const rows = found.map((each) => withTrend(each, seen.get(each.id))).sort(byUse);
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

  /** The slots of a key. */
  #heldIn(find: JudgedKey): HeldSlots[] {
    const { key, dimension, tier, within } = find;
    const slots = find.policies.filter(({ algorithm }) => algorithm === 'concurrency');
    return slots.flatMap((verdict): HeldSlots[] => {
      const { used, quota: limit } = useIn(verdict);
      if (used <= 0) return [];
      const { name: policy, resetAfterMs: freeAfterMs } = verdict;
      return [
        {
          ...{ whose: find, key: this.#show(key), policy, used, limit, freeAfterMs },
          ...(dimension !== undefined && { dimension }),
          ...(tier !== undefined && { tier }),
          ...(within !== undefined && { within: this.#show(within) }),
        },
      ];
    });
  }
}

type HeldSlots = Omit<KeySlots, 'uncounted'> & { readonly whose: SlotOwner };
