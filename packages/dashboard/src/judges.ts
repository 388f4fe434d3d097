import { lacksSlots, type Admin, type KeyRates } from 'headgate/admin';
import { SeenTiers } from './open-tiers.js';
import { isUnknown } from './searches.js';

/** The age up to which a judgement is used, ms. */
const JUDGED_MS = 10_000;

/** The most judgements that are kept. */
const MAX_JUDGED = 500;

/** The least age of a judgement before the next, ms, because each may read much from the store. */
const MIN_JUDGED_MS = 5000;

/** The largest difference between two judgements of the same time, ms. */
const SAME_MS = 1000;

/** The state of a denied key. */
export interface Judged {
  /** Null if unknown, for example because the policies of the limiter depend on the request. */
  readonly retryAfterMs: number | null;
  /** Whether the key is denied until a slot is returned, so that `retryAfterMs` is the end of a lease. */
  readonly lacksSlots?: boolean;
  /** Whether the key would be admitted in any tier. */
  readonly isAdmitted?: boolean;
  readonly bannedForMs: number;
  readonly isOverridden: boolean;
  /** The tier of the key: empty without a tier. Absent if it may have several. */
  readonly tier?: string;
}

const UNKNOWN: Judged = { retryAfterMs: null, bannedForMs: 0, isOverridden: false };

interface Kept {
  readonly at: number;
  readonly judged: Promise<Judged>;
}

/** Finds the ends of denials. All visitors share a judgement. */
export class Judges {
  /** The tiers that judged keys had lately. */
  readonly tiers = new SeenTiers();
  readonly #admin: Admin;
  readonly #kept = new Map<string, Kept>();

  constructor(admin: Admin) {
    this.#admin = admin;
  }

  /** The state of a key, with the times that are left now. Unknown for a tenant, which is judged with its limit. */
  async of(name: string, rates: Pick<KeyRates, 'key' | 'dimension' | 'within'>): Promise<Judged> {
    const { key, dimension, within } = rates;
    if (typeof key !== 'string' || within !== undefined) return UNKNOWN;
    const id = JSON.stringify([name, dimension, key]);
    const kept = this.#kept.get(id);
    if (kept && Date.now() - kept.at < JUDGED_MS) {
      const left = timesLeft(await kept.judged, Date.now() - kept.at);
      // A key that is denied after its known end has another one.
      if (left.retryAfterMs !== 0 || Date.now() - kept.at < MIN_JUDGED_MS) return left;
    }
    if (this.#kept.size >= MAX_JUDGED) this.#kept.clear();
    const judged = this.#judge(name, key, dimension);
    this.#kept.set(id, { at: Date.now(), judged });
    judged.catch(() => this.#kept.delete(id));
    return judged;
  }

  /** Makes the next call judge again. */
  expire(): void {
    this.#kept.clear();
  }

  /** Without a ban or a wait if the limiter's answer depends on the request. */
  async #judge(name: string, key: string, dimension: string | undefined): Promise<Judged> {
    // A search of all keys, for a tenant or for a limiter that is not published, ends at once: each denied key would load the store.
    const signal = AbortSignal.abort();
    const options = { name, raw: true, signal, ...(dimension !== undefined && { dimension }) };
    const views = await this.#admin.key(key, options).catch((error: unknown) => {
      if (!isUnknown(error)) throw error;
      return [];
    });
    this.tiers.note(views);
    const likely = views.filter((view) => view.likely && view.within === undefined);
    const [first] = likely;
    if (!first) return UNKNOWN;
    const { bannedForMs, override, policies } = first;
    return {
      retryAfterMs: sameTime(likely.map((view) => view.retryAfterMs)),
      lacksSlots: bannedForMs === 0 && lacksSlots(policies),
      ...(likely.every(({ allowed }) => allowed === true) && { isAdmitted: true }),
      bannedForMs,
      isOverridden: override !== null && !override.all,
      ...(likely.length === 1 && { tier: first.tier ?? '' }),
    };
  }
}

/** The time of several tiers, of which each is judged at a moment of its own. Null if the time is unknown, because it depends on the tier. */
function sameTime(times: readonly (number | null)[]): number | null {
  if (times.includes(null)) return null;
  const known = times as readonly number[];
  const latest = Math.max(...known);
  return latest - Math.min(...known) < SAME_MS ? latest : null;
}

/** A state with the times that are left after some time. */
export function timesLeft<T extends { readonly retryAfterMs: number | null; readonly bannedForMs?: number }>(
  state: T,
  ageMs: number,
): T {
  const { retryAfterMs, bannedForMs } = state;
  const left = (ms: number): number => Math.max(0, ms - ageMs);
  return {
    ...state,
    retryAfterMs: retryAfterMs === null ? null : left(retryAfterMs),
    ...(bannedForMs !== undefined && { bannedForMs: left(bannedForMs) }),
  };
}
