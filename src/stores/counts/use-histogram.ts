import type { CountedDecision } from '../../contract/announcement.js';

const LEVELS = 16;

/** The level of keys that wanted more than all of the capacity, and were denied. */
const DENIED = LEVELS;

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
  /** The highest level of use that was counted. */
  level: number;
}

/** The highest use of each key of a policy in its window, so that a use is counted once per window however often it falls and rises. */
export class UsedKeys {
  readonly #clock: { now(): number };
  readonly #policies = new Map<string, Map<string, Window>>();
  #count = 0;

  /** @param clock the time of the store */
  constructor(clock: { now(): number }) {
    this.#clock = clock;
  }

  of(limiter: string, policy: string): Map<string, Window> {
    const id = JSON.stringify([limiter, policy]);
    let keys = this.#policies.get(id);
    if (keys) return keys;
    if (this.#policies.size >= MAX_KNOWN_POLICIES) this.#forget();
    this.#policies.set(id, (keys = new Map<string, Window>()));
    return keys;
  }

  /** Raises a key to a level. @returns its level in this window before, or -1 */
  raise(keys: Map<string, Window>, key: string, windowMs: number, level: number): number {
    const now = this.#clock.now();
    const known = keys.get(key);
    if (known && now >= known.start && now < known.start + windowMs) {
      const before = known.level;
      known.level = Math.max(before, level);
      return before;
    }
    if (!known && ++this.#count > MAX_KEYS) this.#forget();
    keys.set(key, { start: now, level });
    return -1;
  }

  #forget(): void {
    for (const keys of this.#policies.values()) keys.clear();
    this.#policies.clear();
    this.#count = 1;
  }
}

/** Counts how many keys used each level of a policy, once per key and window. */
export class UseHistogram {
  readonly #limiter: string;
  readonly #used: UsedKeys;
  readonly #policies = new Map<string, { levels: number[]; keys: ReturnType<UsedKeys['of']> }>();

  constructor(limiter: string, used: UsedKeys) {
    this.#limiter = limiter;
    this.#used = used;
  }

  get levels(): ReadonlyMap<string, readonly number[]> {
    return new Map([...this.#policies].map(([name, { levels }]) => [name, levels]));
  }

  /** Counts the charges of an admission, or a denial. @param isSampled whether a use that rose to no other level is counted, too */
  add({ allowed, policies, set, subject }: CountedDecision, isSampled: boolean): void {
    if (subject.peek) return;
    for (let i = 0; i < policies.length && i < MAX_POLICIES; i++) {
      const { name, key, allowed: admits, remaining } = policies[i]!;
      const { window, traits } = set.policies[i]!;
      let level = DENIED;
      let isNew = isSampled;
      if (admits) {
        // `costAt` without its call, because each decision is counted.
        const cost = subject.costs === undefined ? subject.cost : subject.costs[i]!;
        // The other policies of a denied request charge nothing.
        if (!allowed || cost === 0) continue;
        const { capacity } = traits;
        const used = capacity - remaining;
        level = -1;
        while (level + 1 < LEVELS && used >= capacity * LEAST_USES[level + 1]!) level++;
        isNew ||= level >= 0 && used - cost < capacity * LEAST_USES[level]!;
      }
      if (!isNew || level < 0) continue;
      let own = this.#policies.get(name);
      if (!own)
        this.#policies.set(name, (own = { levels: noUse(), keys: this.#used.of(this.#limiter, name) }));
      const before = this.#used.raise(own.keys, key, window, level);
      for (let each = before + 1; each <= level; each++) own.levels[each]!++;
    }
  }
}
