// Laws 13 and 19 between processes: each id is charged once, and the ledger has all charges and nothing else.
import type { Limiter } from 'headgate';
import { chargesOf } from './charges.js';
import { isCharged, type Entry } from './record.js';
import type { ProcessSite } from './task.js';

/** The ids of which no answer came. */
export function openIds(entries: readonly Entry[]): Entry[] {
  const answered = new Set(
    entries.filter((entry) => isCharged(entry) || entry.answer?.repeated).map(({ id }) => id),
  );
  return entries.filter(
    ({ call, id, after, answer }) =>
      call === 'consume' && id !== undefined && after === Infinity && !answer && !answered.has(id),
  );
}

export function checkIds(entries: readonly Entry[]): string[] {
  const charged = new Map<string, Entry[]>();
  for (const entry of entries) {
    if (entry.id === undefined || !isCharged(entry)) continue;
    charged.set(entry.id, [...(charged.get(entry.id) ?? []), entry]);
  }
  return [...charged]
    .filter(([, all]) => all.length > 1)
    .map(
      ([id, all]) =>
        `id ${id} is charged ${all.length} times: ${JSON.stringify(all.map(({ before, process }) => [process, before]))}`,
    );
}

/** Compares the ledger of each key with the recorded charges. */
export async function checkLedger(
  site: ProcessSite,
  entries: readonly Entry[],
  limiters: readonly Limiter[],
): Promise<string[]> {
  const faults: string[] = [];
  const charges = chargesOf(entries).filter(({ policy }) => policy === 'ledger');
  for (const [at, limiter] of limiters.entries()) {
    const { ban } = site.limiters[at]!;
    // A ban with `fresh` and a reset empty the ledger, too.
    if (ban?.fresh || site.resets) continue;
    for (const key of ['a', 'b', 'c']) {
      const own = charges.filter((charge) => charge.entry.limiter === at && charge.key === key);
      const isOfKey = (entry: Entry) => entry.limiter === at && entry.keys?.['key'] === key;
      // An id without an answer is repeated at the end, and then belongs to the sure charges.
      const ids = new Set(own.flatMap(({ entry }) => (entry.id === undefined ? [] : [entry.id])));
      const unsure = entries.filter(
        (entry) =>
          entry.call === 'consume' && isOfKey(entry) && entry.after === Infinity && entry.id === undefined,
      );
      const unsureUnits = unsure.reduce(
        (sum, { cost = 1 }) => sum + (typeof cost === 'number' ? cost : cost['ledger']!),
        0,
      );
      const returned = entries
        .filter((entry) => entry.call === 'giveBack' && isOfKey(entry))
        .reduce((sum, { units }) => sum + units!, 0);
      const repeated = new Map<string, number>();
      for (const entry of entries)
        if (entry.id !== undefined && isOfKey(entry) && entry.answer?.repeated && !ids.has(entry.id))
          repeated.set(entry.id, entry.cost as number);
      // The process that was charged for these ids was killed before the answer. All others got it as a repetition.
      const killed = [...repeated.values()].reduce((sum, units) => sum + units, 0);
      const least =
        own.reduce((sum, charge) => sum + charge.least, 0) + Math.min(killed, repeated.size) - returned;
      const most = own.reduce((sum, charge) => sum + charge.most, 0) + killed + unsureUnits;
      const { policies } = await limiter.usage({ key });
      const used = policies.find(({ name }) => name === 'ledger')!.used;
      if (used < Math.max(0, least) || used > most)
        faults.push(
          `ledger of l${at}, key ${key}: ${used} units, expected ${least} to ${most} (${repeated.size} ids of killed processes)`,
        );
    }
  }
  return faults;
}

/** The ids that were charged for a process that was killed before its answer, and repeated by another. */
export function killedCharges(entries: readonly Entry[]): number {
  const own = new Set(entries.filter(isCharged).map(({ id }) => id));
  return new Set(
    entries
      .filter(({ id, answer }) => id !== undefined && answer?.repeated && !own.has(id))
      .map(({ id }) => id),
  ).size;
}
