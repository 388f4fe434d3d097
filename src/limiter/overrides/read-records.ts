import { entryInForce, parseRecord, recordDimensions } from '../../contract/overrides.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { UsageReply } from '../../contract/reply.js';
import type { PolicySet, Store, Subject } from '../../contract/store.js';
import { overrideOf, type Override } from './override.js';

type Records = UsageReply['records'];

export async function readRecords(store: Store, subject: Subject): Promise<Records> {
  const names = subject.set.overrides ? recordDimensions(subject.set) : [];
  const read = async (by: string) => [by, (await store.overrides!.read({ subject, by }))[0]] as const;
  return Object.fromEntries(await Promise.all(names.map(read)));
}

/** A policy of a set as the records of a key change it. */
export function policyBy(
  records: Records,
  policy: CompiledPolicy,
  { overrides }: PolicySet,
  now: number,
): CompiledPolicy {
  const parsed = parseRecord(`${records[policy.by] ?? ''}\n${overrides?.all ?? ''}`);
  return parsed.policies([policy], parsed.entries([policy], now))[0]!;
}

/** The override in force by the records of a key, of its first dimension that has one. */
export function overrideBy(
  records: Records,
  dimensions: readonly string[],
  now: number,
): Override | undefined {
  const entries = dimensions.map((by) => entryInForce(records[by] ?? '', now));
  const entry = entries.find((each) => each !== undefined);
  return entry && overrideOf(entry);
}
