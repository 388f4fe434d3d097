/** The most keys whose window is known. Beyond them all are forgotten, and counted again once. */
const MAX_KEYS = 20_000;
/** The most policies, if their names come from functions. Beyond them all are forgotten, too. */
const MAX_POLICIES = 1000;

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
    if (this.#policies.size >= MAX_POLICIES) this.#forget();
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
