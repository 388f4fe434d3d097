import { oncePer } from '../common/lazy.js';
import { hoursUntil, type KeyDenials } from '../stores/counts/denials.js';
import { minuteOf } from '../stores/counts/history.js';
import { Traffic } from '../stores/counts/traffic.js';
import { KeptCounts } from '../stores/counts/kept-counts.js';
import { escapeKey } from '../stores/keys.js';
import type { Memory } from '../stores/memory/memory-store.js';
import type { CountSource, MinutesByLimiter, RecentCounts } from './state.js';

/** The counts of a memory store. They begin with its first administration, because nobody could read them before. */
export const countsOfMemory = oncePer((memory: Memory): CountSource => {
  const kept = new KeptCounts(memory.clock);
  const traffic = new Traffic(kept, { sample: 1, text: escapeKey }, memory.announced);
  memory.countBy((name, decision) => traffic.count(name, decision));
  if (memory.announced.size > 0) traffic.begin();
  return new KeptSource(kept);
});

class KeptSource implements CountSource {
  readonly text = escapeKey;
  readonly #kept: KeptCounts;

  constructor(kept: KeptCounts) {
    this.#kept = kept;
  }

  read(): Promise<RecentCounts> {
    return Promise.resolve({ now: this.#kept.now(), counts: this.#kept.seconds });
  }

  minutes(count: number, length: number, name: string | undefined): Promise<MinutesByLimiter> {
    const minutes = startsUntil(this.#kept.now(), count, length);
    const names = this.#kept
      .namesOf(length)
      .filter((each) => name === undefined || each === name)
      .sort();
    const countsIn = (each: string) =>
      minutes.map((minute) =>
        minuteOf([...(this.#kept.fieldsOf(each, minute, length) ?? [])].flat().map(String)),
      );
    return Promise.resolve({ minutes, limiters: new Map(names.map((each) => [each, countsIn(each)])) });
  }

  denials(owners: readonly string[]): Promise<KeyDenials[][]> {
    const hours = hoursUntil(this.#kept.now());
    return Promise.resolve(
      owners.map((owner) => hours.flatMap((hour) => this.#kept.denialsOf(owner, hour) ?? [])),
    );
  }
}

/** The starts of the last minutes or steps, the oldest first. @param length that of each, ms */
export const startsUntil = (now: number, count: number, length: number): number[] =>
  Array.from({ length: count }, (_, i) => now - (now % length) - (count - 1 - i) * length);
