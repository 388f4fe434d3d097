import { costAt } from '../../contract/costs.js';
import type { CountedDecision } from '../../contract/announcement.js';

/** The number of levels. */
const LEVELS = 16;

/** The most policies of a limiter whose use is counted. */
const MAX_POLICIES = 8;

/**
 * The levels of use, as fractions of a policy's capacity: any use, then half an octave each, up to all of the capacity. A key's use rises
 * through the levels once per window, so the count of a level is the number of keys and windows with at least this use.
 */
export const USE_LEVELS: readonly number[] = Array.from({ length: LEVELS }, (_, i) =>
  i === 0 ? 0 : 2 ** ((i - (LEVELS - 1)) / 2),
);

/** The least use of each level. */
const LEAST_USES = USE_LEVELS.map((level) => level || Number.MIN_VALUE);

/** Counts how often the use of policies rose to each level. */
export class UseHistogram {
  /** By policy. */
  readonly levels = new Map<string, number[]>();

  /** Counts the charge of an admission. */
  add({ policies, set, subject }: CountedDecision): void {
    if (subject.peek) return;
    for (let i = 0; i < policies.length && i < MAX_POLICIES; i++) {
      const { name, remaining } = policies[i]!;
      const { capacity } = set.policies[i]!.traits;
      const used = capacity - remaining;
      const usedBefore = used - costAt(subject, i);
      for (let level = 0; level < LEVELS; level++) {
        const least = capacity * LEAST_USES[level]!;
        if (used < least) break;
        if (usedBefore >= least) continue;
        let levels = this.levels.get(name);
        if (!levels) this.levels.set(name, (levels = USE_LEVELS.map(() => 0)));
        levels[level]!++;
      }
    }
  }
}
