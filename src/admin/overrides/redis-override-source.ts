import { overrideIndexKey, ownerTextOfAll, recordKey } from '../../features/overrides/record-keys.js';
import { batches } from '../batches.js';
import type { OverrideSource } from './override-source.js';
import type { Calls } from '../redis/calls.js';

/** The time for which an override is still read after its end in the index, ms, because clocks differ. */
const CLOCK_TOLERANCE_MS = 60_000;

export function redisOverrides(calls: Calls): OverrideSource {
  const ownersSince = (time: number): Promise<string[]> =>
    calls.call('ZRANGEBYSCORE', overrideIndexKey(calls.prefix), String(time), '+inf') as Promise<string[]>;
  const recordOf = (owner: string): Promise<unknown> => calls.call('GET', recordKey(calls.prefix, owner));
  return {
    owners: async () => ownersSince(await calls.now()),
    async *records(isWanted) {
      const wanted = (await ownersSince((await calls.now()) - CLOCK_TOLERANCE_MS)).filter(isWanted);
      for (const some of batches(wanted)) {
        const records = await Promise.all(some.map(recordOf));
        yield* some.map((owner, i) => [owner, records[i]] as const);
      }
    },
    recordOfAll: (name) => recordOf(ownerTextOfAll(name)),
  };
}
