import { HeadgateError } from 'headgate';
import {
  lacksSlots,
  USE_LEVELS,
  useIn,
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

/** The keys to sample: those of a limiter, by all of its tiers; by one tier; or by the policies of requests without a tier. */
export interface Sampled extends Pick<KeysOptions, 'tier' | 'policies'> {
  readonly name: string;
}

/** The sampled keys of one policy, those with the smallest remaining part first. */
export interface Sample {
  readonly keys: readonly { readonly key: ShownKey; readonly remaining: number; readonly limit: number }[];
  /** The number of keys in the sample. */
  readonly count: number;
  readonly isCut: boolean;
  /** The number of keys that are not in the sample, because they have another tier, judging by their use. */
  readonly others: number;
  /** The numbers of keys that use each of the `USE_LEVELS` now, and then of those that have nothing left. */
  readonly use: readonly number[];
  /** The units that the keys use now. */
  readonly used: number;
}

const NO_SAMPLE: Sample = { keys: [], count: 0, isCut: false, others: 0, use: [], used: 0 };

/** The most searches that wait. There are a few for each limiter, and visitors of one limiter share them. */
const MAX_WAITING = 30;

/** Searches of a limiter's keys for visitors. Each is bounded, and one runs at a time, so that no visitor can load the application. */
export class Searches {
  readonly #admin: Admin;
  readonly #show: Show;
  /** By the sampled keys, as JSON. */
  readonly #samples: CachedByName<Map<string, Sample>>;
  /** The tiers of the keys that have only one, judging by their use. */
  readonly #tiers: CachedByName<ReadonlyMap<string, string>>;
  readonly #turns = new Turns(MAX_WAITING);

  constructor(admin: Admin, show: Show) {
    this.#admin = admin;
    this.#show = show;
    this.#samples = new CachedByName(SAMPLES_MS, (id) => this.#readSamples(JSON.parse(id) as Sampled));
    this.#tiers = new CachedByName(SAMPLES_MS, (name) => this.#readTiers(name));
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
  async sample(sampled: Sampled, policy: string): Promise<Sample> {
    const samples = await this.#samples.get(JSON.stringify(sampled));
    return samples.get(policy) ?? NO_SAMPLE;
  }

  /** The samples by policy, by one search. Keys that certainly have another tier than the sampled one are only counted. */
  async #readSamples(sampled: Sampled): Promise<Map<string, Sample>> {
    const { name, tier, policies } = sampled;
    const isOfTier = tier !== undefined || policies !== undefined;
    const tiers = isOfTier ? await this.#tiers.get(name) : new Map<string, string>();
    const samples = new Map<string, SampledUse>();
    let [count, others] = [0, 0];
    const isCut = await this.#sampled({ ...sampled }, (find) => {
      const id = idOf(find);
      if (tiers.has(id) && tiers.get(id) !== tier) others++;
      else
        for (const verdict of find.policies)
          sampleOf(samples, verdict.name).add(this.#show(find.key), verdict);
      return ++count === SAMPLED_KEYS;
    });
    return new Map([...samples].map(([policy, each]) => [policy, { ...each.sample, isCut, others }]));
  }

  async #readTiers(name: string): Promise<ReadonlyMap<string, string>> {
    const tiers = new Map<string, string>();
    await this.#sampled({ name }, (find) => {
      // A verdict without a tier may be the same in several.
      if (find.certain && find.tier !== undefined && find.policies.some((verdict) => useIn(verdict).used > 0))
        tiers.set(idOf(find), find.tier);
      return tiers.size === SAMPLED_KEYS;
    });
    return tiers;
  }

  /** @returns whether the search ended early */
  async #sampled(options: KeysOptions, take: (find: JudgedKey) => boolean): Promise<boolean> {
    const kinds = ['admitted', 'limited'] as const;
    const [, isCut] = await this.search({ ...options, kinds }, SAMPLE_TIMEOUT_MS, (find) =>
      (find.kind === 'admitted' || find.kind === 'limited') && find.likely ? take(find) : false,
    );
    return isCut;
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
        let isFull = false;
        let isWhole = false;
        const search = await this.#admin.keys({
          ...options,
          ...{ count: KEYS_PER_STEP, signal: stop.signal },
          progress: (share) => {
            isWhole = share === 1;
          },
        });
        for await (const find of search)
          if (take(find)) {
            isFull = true;
            break;
          }
        // The time may end while the last keys, which were read before, are judged.
        return [search, isFull || (stop.signal.aborted && !isWhole)];
      } finally {
        clearTimeout(timer);
      }
    });
  }
}

/** Whether the answer is unknown, because the limits depend on the request, or the limiter counts other keys. */
export const isUnknown = (error: unknown): boolean =>
  error instanceof HeadgateError && error.code === 'HEADGATE_INVALID_ARGUMENT';

type Verdict = JudgedKey['policies'][number];

/** The present use of one policy by the sampled keys. */
class SampledUse {
  readonly #keys: Sample['keys'][number][] = [];
  readonly #use = [...USE_LEVELS, 0].map(() => 0);
  #used = 0;

  add(key: ShownKey, verdict: Verdict): void {
    const { remaining, limit } = verdict;
    const { used, quota } = useIn(verdict);
    this.#keys.push({ key, remaining, limit });
    this.#used += Math.max(0, used);
    if (used <= 0) return;
    for (const [i, level] of USE_LEVELS.entries()) if (used >= level * quota) this.#use[i]!++;
    if (remaining < 1) this.#use[USE_LEVELS.length]!++;
  }

  get sample(): Omit<Sample, 'isCut' | 'others'> {
    const keys = this.#keys.sort((a, b) => a.remaining / a.limit - b.remaining / b.limit);
    return { keys: keys.slice(0, SAMPLE_SHOWN), count: keys.length, use: this.#use, used: this.#used };
  }
}

function sampleOf(samples: Map<string, SampledUse>, policy: string): SampledUse {
  const known = samples.get(policy);
  if (known) return known;
  const made = new SampledUse();
  samples.set(policy, made);
  return made;
}

const idOf = ({ key, dimension, within }: JudgedKey): string => JSON.stringify([key, dimension, within]);
