import { lastChangeIn } from '../features/overrides/contract/records.js';
import type { CountedKey } from '../stores/counts/traffic-counts.js';
import { parseOwnerText } from '../stores/keys.js';
import { countedOwner, identityOf, whoseOf, whoseState, type Whose } from './owners.js';
import { dimensionsIn, type Published } from './published.js';
import type { RecentCounts, State } from './state.js';

/** The newest denial of a key by a policy, as processes counted it. */
export interface RecentDenial {
  readonly policy: string;
  /** Whether no request of the key was admitted in the same second. */
  readonly isTotal: boolean;
  /** The greatest age, ms. */
  readonly ageMs: number;
}

/** The newest denial of a key's requests because of a key of another dimension, as processes counted it. */
export interface OtherDenial {
  /** The policy that denied. Absent for denials by anything else. */
  readonly policy?: string;
  /** The reason of a denial by no policy: `decision.reason`, such as `'banned'`. */
  readonly reason?: string;
  /** The dimension of the key that was denied. */
  readonly dimension: string;
}

/** The decisions on a key in one message of a process. */
interface Seen {
  /** The time at which the first of the decisions may have been made, by the store's clock. */
  readonly from: number;
  readonly at: number;
  readonly counts: Readonly<CountedKey>;
}

/** The age of the denials, ms. A customer may change its tier. */
const MAX_AGE_MS = 10_000;

/** The time between two messages of a process, ms. */
const SECOND_MS = 1000;

/** The time after which every process applies an override of all keys, ms. */
const CHANGE_MS = 2000;

/** The decisions of the last seconds by key, if the store counts. They are read once. */
export class DeniedNow {
  readonly #state: State;
  #recent: Promise<RecentCounts | undefined> | undefined;
  /** The decisions by the limiter's name, then by key. */
  readonly #seen = new Map<string, Map<string, Seen[]>>();
  readonly #changes = new Map<string, Promise<number>>();

  constructor(state: State) {
    this.#state = state;
  }

  /**
   * The denial of a key in the newest second in which it was counted. Undefined if that second has none, or if an override of all keys began
   * or ended meanwhile, because other limits denied the key then.
   */
  async of(whose: Whose): Promise<RecentDenial | undefined> {
    const recent = await this.#read();
    if (!recent) return undefined;
    const { now } = recent;
    // A denial because of another key shows nothing about the limits of this one.
    const seen = this.#seenOf(recent, whose).filter(
      ({ counts: [admitted, , , , deniedFor] }) => admitted > 0 || deniedFor === undefined,
    );
    const newest = Math.max(...seen.map(({ at }) => at));
    const last = seen.filter(({ at }) => at > newest - SECOND_MS);
    const denial = last.find(
      ({ counts: [, denied, policy, , deniedFor] }) =>
        denied > 0 && typeof policy === 'string' && deniedFor === undefined,
    );
    if (!denial) return undefined;
    const { name } = whose;
    if (typeof name === 'string' && denial.from < (await this.#changedAt(name, now)) + CHANGE_MS)
      return undefined;
    const isTotal = last.every(({ counts: [admitted] }) => admitted === 0);
    return { policy: denial.counts[2]!, isTotal, ageMs: now - denial.from };
  }

  /** The newest denial of a key's requests, if it was because of a key of another dimension. */
  async forOther(whose: Whose): Promise<OtherDenial | undefined> {
    const recent = await this.#read();
    const [newest] = recent
      ? this.#seenOf(recent, whose)
          .filter(({ counts: [, denied] }) => denied > 0)
          .sort((a, b) => b.at - a.at)
      : [];
    const [, , policy, reason, dimension] = newest?.counts ?? [];
    if (dimension === undefined) return undefined;
    if (typeof policy === 'string') return { policy, dimension };
    return { ...(typeof reason === 'string' && { reason }), dimension };
  }

  /** A user without permission for the counts still gets the verdicts. */
  #read(): Promise<RecentCounts | undefined> {
    return (this.#recent ??= this.#state.counts?.read().catch(() => undefined) ?? Promise.resolve(undefined));
  }

  #changedAt(name: string, now: number): Promise<number> {
    let changedAt = this.#changes.get(name);
    if (!changedAt) {
      changedAt = this.#state.overrides.recordOfAll(name).then(
        (record) => lastChangeIn(record, now),
        () => 0,
      );
      this.#changes.set(name, changedAt);
    }
    return changedAt;
  }

  #seenOf({ now, counts }: RecentCounts, whose: Whose): readonly Seen[] {
    const { name } = whose;
    // The name may be a hash.
    const limiter = JSON.stringify(name);
    const byKey = this.#seen.get(limiter) ?? new Map<string, Seen[]>();
    if (!this.#seen.has(limiter))
      for (const { at, counted } of counts) {
        if (at <= now - MAX_AGE_MS) continue;
        const from = at - (counted.ms ?? SECOND_MS);
        const own = counted.limiters.filter((each) => JSON.stringify(each.name) === limiter);
        for (const [text, counts] of own.flatMap(({ keys }) => Object.entries(keys))) {
          const owner = parseOwnerText(`x:${text}`);
          if (!owner) continue;
          const id = identityOf(whoseState({ ...owner, name, text }));
          const seen = { from, at, counts };
          if (!byKey.get(id)?.push(seen)) byKey.set(id, [seen]);
        }
      }
    this.#seen.set(limiter, byKey);
    return byKey.get(identityOf(whose)) ?? [];
  }
}

/** Adds the denials of the last seconds because of keys of other dimensions, which no view of the key itself shows. */
export async function withDeniedLately<View extends Parameters<typeof countedOwner>[0]>(
  { counts }: State,
  published: Published,
  denied: DeniedNow,
  views: readonly View[],
): Promise<(View & { readonly deniedLately?: OtherDenial })[]> {
  if (!counts) return [...views];
  return Promise.all(
    views.map(async (view) => {
      // Limiters of one dimension need no reading of the counts.
      const configurations = published.scopes.get(view.name) ?? [];
      const isDynamic = configurations.some(({ dynamic }) => dynamic);
      if (!isDynamic && dimensionsIn(configurations).length < 2) return view;
      const whose = whoseOf(countedOwner(view, counts.text), view.name);
      const deniedLately = whose && (await denied.forOther(whose));
      return deniedLately ? { ...view, deniedLately } : view;
    }),
  );
}
