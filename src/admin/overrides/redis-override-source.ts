import { OVERRIDE_TAG } from '../../features/overrides/contract/records.js';
import { overrideIndexKey, ownerTextOfAll } from '../../features/overrides/record-keys.js';
import type { KeptKey } from '../owners.js';
import { batches } from '../batches.js';
import type { OverrideSource } from './override-source.js';
import type { Calls } from '../redis/calls.js';

/** The time for which an override is still read after its end in the index, ms, because clocks differ. */
const CLOCK_TOLERANCE_MS = 60_000;

/** @param values reads the texts that features keep */
export function redisOverrides(
  calls: Calls,
  values: (found: readonly KeptKey[]) => Promise<readonly (string | undefined)[]>,
): OverrideSource {
  const ownersSince = (time: number): Promise<string[]> =>
    calls.call('ZRANGEBYSCORE', overrideIndexKey(calls.prefix), String(time), '+inf') as Promise<string[]>;
  const recordsOf = (owners: readonly string[]) =>
    values(owners.map((text) => ({ owner: { text }, id: OVERRIDE_TAG })));
  return {
    owners: async () => ownersSince(await calls.now()),
    async *records(isWanted) {
      const wanted = (await ownersSince((await calls.now()) - CLOCK_TOLERANCE_MS)).filter(isWanted);
      for (const some of batches(wanted)) {
        const records = await recordsOf(some);
        yield* some.map((owner, i) => [owner, records[i]] as const);
      }
    },
    recordOfAll: async (name) => (await recordsOf([ownerTextOfAll(name)]))[0],
  };
}
