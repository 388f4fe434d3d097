import {
  entryInForce,
  parseRecord,
  recordDimensions,
  textOfDimension,
} from '../../features/overrides/contract/records.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { UsageReply } from '../../contract/reply.js';
import type {
  MaybePromise,
  OverridePlace,
  OverrideStore,
  PolicySet,
  Store,
  Subject,
} from '../../contract/store.js';
import { nothingOf } from '../../contract/variant.js';
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
  const parsed = parseRecord(`${textOfDimension(records, policy.by)}\n${overrides?.all ?? ''}`);
  return parsed.policies([policy], parsed.entries([policy], now))[0]!;
}

/** The override in force by the records of a key, of its first dimension that has one. */
export function overrideBy(
  records: Records,
  dimensions: readonly string[],
  now: number,
): Override | undefined {
  const entries = dimensions.map((by) => entryInForce(textOfDimension(records, by), now));
  const entry = entries.find((each) => each !== undefined);
  return entry && overrideOf(entry);
}

type Ask = <T>(subject: Subject, send: (asked: Subject) => MaybePromise<T>) => Promise<T>;

/** The overrides of a store that is only asked through a function. */
export function askedBy(ask: Ask, overrides: OverrideStore): OverrideStore {
  const about = <T>(place: OverridePlace, send: (asked: OverridePlace) => MaybePromise<T>): Promise<T> =>
    'subject' in place
      ? ask(place.subject, (subject) => send({ ...place, subject }))
      : ask({ set: nothingOf(place.set), key: '' }, ({ call }) => send({ ...place, call }));
  return {
    change: (place, change) => about(place, (asked) => overrides.change(asked, change)),
    read: (place) => about(place, (asked) => overrides.read(asked)),
  };
}
