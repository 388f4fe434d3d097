import { oncePer } from '../common/lazy.js';
import { hoursUntil } from '../stores/counts/denials.js';
import { minuteOf } from '../stores/counts/history.js';
import { Traffic } from '../stores/counts/traffic.js';
import { KeptCounts } from '../stores/counts/kept-counts.js';
import { escapeKey } from '../stores/keys.js';
import type { Memory } from '../stores/memory/memory-store.js';
import type { CountSource } from './state.js';

/** The counts of a memory store. They begin with its first administration, because nobody could read them before. */
export const countsOfMemory = oncePer((memory: Memory): CountSource => {
  const kept = new KeptCounts(memory.clock);
  const traffic = new Traffic(kept, { sample: 1, text: escapeKey }, memory.announced);
  memory.countBy((name, decision) => traffic.count(name, decision));
  if (memory.announced.size > 0) traffic.begin();
  return {
    text: escapeKey,
    read: () => Promise.resolve({ now: kept.now(), counts: kept.seconds }),
    minutes(count, length, name) {
      const minutes = startsUntil(kept.now(), count, length);
      const all = kept.namesOf(length).filter((each) => name === undefined || each === name);
      const countsIn = (each: string) =>
        minutes.map((minute) =>
          minuteOf([...(kept.fieldsOf(each, minute, length) ?? [])].flat().map(String)),
        );
      const limiters = new Map(all.sort().map((each) => [each, countsIn(each)]));
      return Promise.resolve({ minutes, limiters });
    },
    denials(owners) {
      const hours = hoursUntil(kept.now());
      return Promise.resolve(
        owners.map((owner) => hours.flatMap((hour) => kept.denialsOf(owner, hour) ?? [])),
      );
    },
  };
});

/** The starts of the last minutes or steps, the oldest first. @param length that of each, ms */
export const startsUntil = (now: number, count: number, length: number): number[] =>
  Array.from({ length: count }, (_, i) => now - (now % length) - (count - 1 - i) * length);
