import type { Claim } from '../../contract/claim.js';
import { idLifeOf, policiesText } from '../../contract/request-ids.js';
import type { Reply } from '../../contract/reply.js';
import type { PolicySet, Query } from '../../contract/store.js';
import { admits, waitOf } from '../../contract/verdicts.js';
import { decide, usage } from './evaluate.js';
import type { Place } from './place.js';

/** The memory of a request with an id. */
export interface IdRecord {
  /** The policies that decided. */
  readonly by: string;
  readonly step: number;
  readonly verdicts: readonly number[];
  readonly limits?: readonly number[] | undefined;
  /** The decision that may change the charge, or an empty text. */
  readonly owner: string;
  /** Whether the whole charge was returned, so that the id is free again. */
  readonly isFree: boolean;
}

/** The place of one id's record, beside the state of the request's first key. */
export interface IdPlace {
  read(): IdRecord | undefined;
  /** @param until the end of the record, ms since the epoch */
  write(record: IdRecord, until: number): void;
}

const atOf = ({ step }: IdRecord): number => Math.floor(step / 1000);

function known(place: IdPlace, set: PolicySet, now: number): IdRecord | undefined {
  const record = place.read();
  return record && now < atOf(record) + idLifeOf(set) ? record : undefined;
}

/** Decides a request with an id, as `evaluate.lua` with `ids.lua` does: a charged request gets its first verdicts again. */
export function decideOnce(
  id: IdPlace,
  places: readonly Place[],
  query: Query,
  now: number,
  step: number,
): Reply {
  const { set } = query;
  const by = policiesText(set);
  const first = known(id, set, now);
  if (first && !first.isFree) {
    const { verdicts, limits } = first;
    if (first.by === by)
      return {
        ...{ now: atOf(first), step: first.step, ban: 0, verdicts, repeated: 'charged' },
        ...(limits && { limits }),
      };
    return { ...usage(places, query, now, step), ban: 0, repeated: 'elsewhere' };
  }
  const reply = decide(places, query, now, step);
  if (isCharged(reply, set)) {
    const { verdicts, limits } = reply;
    const record = { by, step, verdicts, limits, owner: '', isFree: false };
    id.write(record, now + idLifeOf(set));
  }
  return reply;
}

function isCharged({ ban, full, clientChanges, verdicts }: Reply, { policies }: PolicySet): boolean {
  if (ban !== 0 || full !== undefined || clientChanges) return false;
  return policies.every(({ shadow }, i) => shadow || admits(waitOf(verdicts, i)));
}

/** Whether a decision may change the charge of a request. If so, this is remembered. The function `claim` of `ids.lua` does the same. */
export function claims(id: IdPlace, { owner, step, isFirst, isLast }: Claim, set: PolicySet, now: number) {
  const stored = id.read();
  if (stored?.isFree && now < atOf(stored) + idLifeOf(set)) return stored.owner === owner;
  const record = known(id, set, now);
  if (!record) return isFirst;
  if (record.step !== step || (record.owner !== '' && record.owner !== owner)) return false;
  if (isLast || record.owner === '')
    id.write({ ...record, owner, isFree: isLast }, atOf(record) + idLifeOf(set));
  return true;
}
