import { HeadgateError } from 'headgate';
import {
  lacksSlots,
  type Admin,
  type BannedKey,
  type JudgedKey,
  type KeySearch,
  type KeysOptions,
  type KeyVerdictFind,
} from 'headgate/admin';
import { CachedByName } from './cached.js';
import type { Show, ShownKey } from './hidden.js';
import { Turns } from './turns.js';

/** The bounds of a search for keys near their limit: the time, ms, the keys that it reads, and those of each policy that it returns. */
const SAMPLE_TIMEOUT_MS = 2_000;
const SAMPLED_KEYS = 3_000;
const SAMPLE_SHOWN = 200;

/** The longest search for denied keys of an opened limiter, ms, and the most denied and the most banned keys that it finds. */
const LIMITED_TIMEOUT_MS = 1_000;
const LIMITED_SHOWN = 50;

/** The age of a sample, ms. */
const SAMPLES_MS = 30_000;

/** The keys of a step. The process serves other requests between two steps. */
const KEYS_PER_STEP = 100;

/** A key that a policy denies. */
interface LimitedRow extends Pick<JudgedKey, 'certain' | 'policy' | 'retryAfterMs'> {
  readonly dimension: string | undefined;
  readonly tier: string | undefined;
  readonly key: ShownKey;
  readonly within?: ShownKey;
  /** Whether the key is denied until a slot is returned. */
  readonly lacksSlots: boolean;
}

/** The keys that policies deny, by their state. */
export interface LimitedKeys {
  readonly rows: readonly LimitedRow[];
  readonly isCut: boolean;
  /** The number of keys that only tiers would deny that the keys do not have, judging by their use. */
  readonly omitted: number;
  /** The number of keys without a known name. They may be denied, too. */
  readonly unnamed: number;
}

/** The denied keys of a limiter, and the bans that the same search met, which the record of bans may lack. */
export interface Denied {
  /** Null if the limits are unknown. */
  readonly limited: LimitedKeys | null;
  readonly bans: readonly BannedKey[];
}

/** The sampled keys of one policy, those with the smallest remaining part first. */
export interface Sample {
  readonly keys: readonly { readonly key: ShownKey; readonly remaining: number; readonly limit: number }[];
  /** The number of keys in the sample. */
  readonly count: number;
  readonly isCut: boolean;
}

/** The most searches that wait. There are a few for each limiter, and visitors of one limiter share them. */
const MAX_WAITING = 30;

/** Searches of a limiter's keys for visitors. Each is bounded, and one runs at a time, so that no visitor can load the application. */
export class Searches {
  readonly #admin: Admin;
  readonly #show: Show;
  readonly #samples: CachedByName<Map<string, Sample>>;
  readonly #turns = new Turns(MAX_WAITING);

  constructor(admin: Admin, show: Show) {
    this.#admin = admin;
    this.#show = show;
    this.#samples = new CachedByName(SAMPLES_MS, (name) => this.#readSamples(name));
  }

  /** Runs a task after all earlier ones. */
  inTurn<T>(task: () => Promise<T>): Promise<T> {
    return this.#turns.run(task);
  }

  /** The denied and the banned keys of a limiter, by a search of a second at most. */
  async denied(name: string): Promise<Denied> {
    const rows: LimitedRow[] = [];
    const bans: BannedKey[] = [];
    let omitted = 0;
    try {
      const [search, isCut] = await this.search(
        { name, kinds: ['limited', 'banned'] },
        LIMITED_TIMEOUT_MS,
        (find) => {
          if (find.kind === 'banned' && bans.length < LIMITED_SHOWN) bans.push(find);
          if (find.kind === 'limited' && find.likely) rows.push(this.#limitedRow(find));
          else if (find.kind === 'limited') omitted++;
          return rows.length === LIMITED_SHOWN;
        },
      );
      return { limited: { rows, isCut, omitted, unnamed: search.unnamed }, bans };
    } catch (error) {
      if (isUnknown(error)) return { limited: null, bans };
      throw error;
    }
  }

  #limitedRow(find: JudgedKey): LimitedRow {
    const { dimension, tier, certain, policy, policies, retryAfterMs, key, within } = find;
    return {
      ...{ dimension, tier, certain, policy, retryAfterMs, lacksSlots: lacksSlots(policies) },
      key: this.#show(key),
      ...(within !== undefined && { within: this.#show(within) }),
    };
  }

  /** The tenants of a limiter's shared limits, by a search of a second at most. */
  tenants(name: string): Promise<readonly object[]> {
    return this.inTurn(async () => {
      const found = await this.#admin.tenants({ name, signal: AbortSignal.timeout(LIMITED_TIMEOUT_MS) });
      return found.map((each) => ({
        ...each,
        key: this.#show(each.key),
        within: this.#show(each.within),
      }));
    });
  }

  /** A sample of the keys of a policy, the same for all visitors. */
  async sample(name: string, tier: string | undefined, policy: string): Promise<Sample> {
    const samples = await this.#samples.get(name);
    return samples.get(JSON.stringify([tier, policy])) ?? { keys: [], count: 0, isCut: false };
  }

  /** The samples by tier and policy, by one search. A key is in the tiers that it may have, judging by its use. */
  async #readSamples(name: string): Promise<Map<string, Sample>> {
    const kinds = ['admitted', 'limited'] as const;
    const byPolicy = new Map<string, Sample['keys'][number][]>();
    let count = 0;
    const [, isCut] = await this.search({ name, kinds }, SAMPLE_TIMEOUT_MS, (find) => {
      if ((find.kind !== 'admitted' && find.kind !== 'limited') || !find.likely) return false;
      for (const { name: policy, remaining, limit } of find.policies) {
        const id = JSON.stringify([find.tier, policy]);
        const keys = byPolicy.get(id) ?? [];
        byPolicy.set(id, keys);
        keys.push({ key: this.#show(find.key), remaining, limit });
      }
      return ++count === SAMPLED_KEYS;
    });
    return new Map(
      [...byPolicy].map(([id, keys]) => {
        keys.sort((a, b) => a.remaining / a.limit - b.remaining / b.limit);
        return [id, { keys: keys.slice(0, SAMPLE_SHOWN), count: keys.length, isCut }];
      }),
    );
  }

  /** Searches until the time is over, or until `take` returns true for a find. @returns the search, and whether it ended early */
  search(
    options: KeysOptions,
    timeoutMs: number,
    take: (find: KeyVerdictFind) => boolean,
  ): Promise<readonly [search: KeySearch, isStopped: boolean]> {
    return this.inTurn(async () => {
      const stop = new AbortController();
      const timer = setTimeout(() => stop.abort(), timeoutMs);
      try {
        const search = await this.#admin.keys({ ...options, count: KEYS_PER_STEP, signal: stop.signal });
        let isFull = false;
        for await (const find of search)
          if (take(find)) {
            isFull = true;
            break;
          }
        return [search, isFull || stop.signal.aborted];
      } finally {
        clearTimeout(timer);
      }
    });
  }
}

/** Whether the answer is unknown, because the limits depend on the request, or the limiter counts other keys. */
export const isUnknown = (error: unknown): boolean =>
  error instanceof HeadgateError && error.code === 'HEADGATE_INVALID_ARGUMENT';
