import type { CountedDecision } from '../../contract/announcement.js';

const LEVELS = 16;

/** The level of keys that wanted more than all of the capacity, and were denied. */
const DENIED = LEVELS;

/** The level of half of the capacity. */
const HALF = LEVELS - 3;

/** The most policies of a limiter whose use is counted. */
const MAX_POLICIES = 8;

/**
 * The levels of use, as fractions of a policy's capacity: any use, then half an octave each, up to all of the capacity. The count of a level is
 * the number of keys and windows with at least this use. One more count follows: keys and windows with a denial.
 */
export const USE_LEVELS: readonly number[] = Array.from({ length: LEVELS }, (_, i) =>
  i === 0 ? 0 : 2 ** ((i - (LEVELS - 1)) / 2),
);

/** A count of zero for each level, and for denials. */
export const noUse = (): number[] => Array<number>(LEVELS + 1).fill(0);

const LEAST_USES = USE_LEVELS.map((level) => level || Number.MIN_VALUE);

/** The most keys whose window is known. Beyond them all are forgotten, and counted again once. */
const MAX_KEYS = 20_000;
/** The most policies whose keys are known, if their names come from functions. Beyond them all are forgotten, too. */
const MAX_KNOWN_POLICIES = 1000;

/** The window of a key, from its first counted use. */
interface Window {
  readonly start: number;
  readonly end: number;
  /** The highest level of use that this process counted. */
  level: number;
}

/** A charge or a denial: the use of its key rose from one level to another. */
interface Rise {
  readonly from: number;
  readonly to: number;
  /** The time until the use ends, ms. */
  readonly windowMs: number;
  /** Whether all use ends with the window, so that each charge of the next one starts from nothing. */
  readonly ends: boolean;
}

/** The time after the start of a process in which a full key is usually seen again, ms. Later, a use of half or more is that of other processes. */
const RESTART_MS = 60_000;

/**
 * The highest use of each key of a policy in its window, so that a use is counted once per window however often it falls and rises. Of several
 * processes, the one whose charge reaches a level counts it.
 */
export class UsedKeys {
  readonly #policies = new Map<string, Map<string, Window>>();
  #count = 0;
  /** The time of the first charge or denial in this process, by the store's clock, ms. */
  #begunAt: number | undefined;

  of(limiter: string, policy: string): Map<string, Window> {
    const id = JSON.stringify([limiter, policy]);
    let keys = this.#policies.get(id);
    if (keys) return keys;
    if (this.#policies.size >= MAX_KNOWN_POLICIES) this.#forget();
    this.#policies.set(id, (keys = new Map<string, Window>()));
    return keys;
  }

  /** Raises a key to a level at a time of the store. @returns the last level that this process or another one has counted in this window, or -1 */
  raise(keys: Map<string, Window>, key: string, rise: Rise, now: number): number {
    const { from, to, windowMs, ends } = rise;
    this.#begunAt ??= now;
    const known = keys.get(key);
    if (known && now >= known.start && now < known.end) {
      const before = Math.max(known.level, from);
      // The process that counted the highest level counts the denial.
      if (to === DENIED && known.level < from) return DENIED;
      known.level = Math.max(before, to);
      return before;
    }
    // A use that lasts from the window before is a new one. All other use before this charge was counted by another process.
    const isLasting = known !== undefined && !ends && now >= known.end && now < known.end + windowMs;
    const before = isLasting ? -1 : from;
    if (to === DENIED && before >= 0) return DENIED;
    if (!known && ++this.#count > MAX_KEYS) this.#forget();
    // Lasting use falls and rises all the time, so after a restart a full key soon rises to levels that the process before has counted.
    const isOfRestart = !ends && before >= HALF && now < this.#begunAt + Math.min(windowMs, RESTART_MS);
    keys.set(key, { start: now, end: now + windowMs, level: isOfRestart ? DENIED : to });
    return isOfRestart ? DENIED : before;
  }

  #forget(): void {
    for (const keys of this.#policies.values()) keys.clear();
    this.#policies.clear();
    this.#count = 1;
  }
}

interface PolicyUse {
  readonly levels: number[];
  units: number;
  readonly keys: ReturnType<UsedKeys['of']>;
}

/** Counts how many keys used each level of a policy, once per key and window, and the admitted units. */
export class UseHistogram {
  readonly #limiter: string;
  readonly #used: UsedKeys;
  readonly #policies = new Map<string, PolicyUse>();

  constructor(limiter: string, used: UsedKeys) {
    this.#limiter = limiter;
    this.#used = used;
  }

  /** By policy, the count of each level and the admitted units. */
  get policies(): ReadonlyMap<string, { readonly levels: readonly number[]; readonly units: number }> {
    return this.#policies;
  }

  /** Counts the charges of an admission, or a denial. @param isSampled whether a use that rose to no other level is counted, too */
  add(
    { allowed, policies, reply }: CountedDecision,
    set: CountedDecision['set'],
    subject: CountedDecision['subject'],
    isSampled: boolean,
  ): void {
    if (subject.peek) return;
    for (let i = 0; i < policies.length && i < MAX_POLICIES; i++) {
      const { name, key, allowed: admits, remaining, resetAfterMs } = policies[i]!;
      const { window, traits } = set.policies[i]!;
      const { capacity } = traits;
      const used = capacity - remaining;
      // `costAt` without its call, because each decision is counted.
      const cost = subject.costs === undefined ? subject.cost : subject.costs[i]!;
      // The other policies of a denied request charge nothing.
      if (admits && (!allowed || cost === 0)) continue;
      const own = this.#policies.get(name) ?? this.#begin(name);
      if (admits) own.units += cost;
      const usedBefore = admits ? used - cost : used;
      let from = -1;
      while (from + 1 < LEVELS && usedBefore >= capacity * LEAST_USES[from + 1]!) from++;
      let to = admits ? from : DENIED;
      if (admits) while (to + 1 < LEVELS && used >= capacity * LEAST_USES[to + 1]!) to++;
      const isCrossing = admits && to > from;
      if (!(isSampled || isCrossing) || to < 0) continue;
      const ends = traits.endsAtOnce === true;
      const windowMs = ends ? resetAfterMs : window;
      const before = this.#used.raise(own.keys, key, { from, to, windowMs, ends }, reply.now);
      for (let each = before + 1; each <= to; each++) own.levels[each]!++;
    }
  }

  #begin(name: string): PolicyUse {
    const own = { levels: noUse(), units: 0, keys: this.#used.of(this.#limiter, name) };
    this.#policies.set(name, own);
    return own;
  }
}
