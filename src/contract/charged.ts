import type { Charged, Reply } from './store.js';
import { countOf, resetOf } from './verdicts.js';

/** The next step after `last`, at a time in ms. Steps of one millisecond differ by their order, as far as microseconds allow. */
export function stepAfter(last: number, now: number): number {
  const first = now * 1000;
  return last >= first && last < first + 1000 ? Math.min(last + 1, first + 999) : first;
}

/** Per policy: when the units that a reply charged stop counting by themselves. See `Charged`. */
export function marksOf({ now, verdicts, marks: known }: Omit<Reply, 'step' | 'ban'>): number[] {
  if (known) return [...known];
  const marks: number[] = [];
  for (let i = 0; i < countOf(verdicts); i++) marks.push(now + resetOf(verdicts, i));
  return marks;
}

/** What a store needs to give back exactly the charge of a reply. */
export function chargedOf(reply: Reply): Charged {
  const { step, steps } = reply;
  return { step, marks: marksOf(reply), ...(steps && { steps }) };
}
