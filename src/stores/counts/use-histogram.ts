import type { CountedDecision } from '../../contract/announcement.js';
import type { UsedKeys } from './used-keys.js';

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

interface PolicyUse {
  readonly levels: number[];
  readonly keys: ReturnType<UsedKeys['of']>;
}

/** Counts how many keys used each level of a policy, once per key and window. */
export class UseHistogram {
  readonly #limiter: string;
  readonly #used: UsedKeys;
  readonly #policies = new Map<string, PolicyUse>();

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
      if (!admits) {
        if (isSampled) this.#raise(name, key, window, DENIED);
        continue;
      }
      // `costAt` without its call, because each decision is counted.
      const cost = subject.costs === undefined ? subject.cost : subject.costs[i]!;
      // The other policies of a denied request charge nothing.
      if (!allowed || cost === 0) continue;
      const { capacity } = traits;
      const used = capacity - remaining;
      let level = -1;
      while (level + 1 < LEVELS && used >= capacity * LEAST_USES[level + 1]!) level++;
      if (level >= 0 && (isSampled || used - cost < capacity * LEAST_USES[level]!))
        this.#raise(name, key, window, level);
    }
  }

  #raise(name: string, key: string, windowMs: number, level: number): void {
    let own = this.#policies.get(name);
    if (!own) {
      own = { levels: noUse(), keys: this.#used.of(this.#limiter, name) };
      this.#policies.set(name, own);
    }
    const before = this.#used.raise(own.keys, key, windowMs, level);
    for (let each = before + 1; each <= level; each++) own.levels[each]!++;
  }
}
