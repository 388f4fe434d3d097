import type { FirstDecision } from './contract/ids.js';
import { firstCosts, idLifeOf, MAX_REPEATS, policiesText, repeatsOf } from './id-rules.js';
import { isUndecided, unanswered, type Reply } from '../../contract/reply.js';
import type { ChargeChange, PolicySet, Query } from '../../contract/store.js';
import { admits, waitOf } from '../../contract/verdicts.js';
import type { Place } from '../feature.js';
import type { IdPlace, IdRecord } from './id-record.js';

const atOf = ({ step }: IdRecord): number => Math.floor(step / 1000);

function known(place: IdPlace, set: PolicySet, now: number): IdRecord | undefined {
  const record = place.read();
  return record && now < atOf(record) + idLifeOf(set) ? record : undefined;
}

/** A charged request gets its first verdicts again, as on Redis by the functions `recall` and `remember` of `ids.lua`. */
export function recall(places: readonly Place[], query: Query, now: number): Reply | undefined {
  const { set } = query;
  const place = places[0]!.idOf(query.idHome ?? query, query.id!);
  const record = known(place, set, now);
  if (!record || record.used >= repeatsOf(set)) return undefined;
  place.write({ ...record, used: record.used + 1 }, atOf(record) + idLifeOf(set));
  const sinceFirst = Math.max(0, now - atOf(record));
  return { ...unanswered(atOf(record), record.step), first: record, sinceFirst };
}

/** Remembers a charged request, unless its id was repeated too often. */
export function remember(places: readonly Place[], query: Query, reply: Reply): Reply {
  const { set } = query;
  const { now, step, verdicts, limits } = reply;
  const place = places[0]!.idOf(query.idHome ?? query, query.id!);
  if (known(place, set, now)) return { ...reply, isIdSpent: true };
  if (isCharged(reply, set)) {
    const first: FirstDecision = { by: policiesText(set), costs: firstCosts(query), verdicts, limits };
    place.write({ ...first, step, used: 0, isChanged: false }, now + idLifeOf(set));
  }
  return reply;
}

function isCharged(reply: Reply, { policies }: PolicySet): boolean {
  const { ban, full, verdicts } = reply;
  if (ban !== 0 || full !== undefined || isUndecided(reply) || policies.length === 0) return false;
  return policies.every(({ shadow }, i) => shadow || admits(waitOf(verdicts, i)));
}

/** Whether a decision may change the charge of a request. If so, this is remembered. The function `claim` of `ids.lua` does the same. */
export function claims(places: readonly Place[], change: ChargeChange, now: number): boolean {
  const { set, claim } = change;
  const { owner, step, isFirst, isLast, isAutomatic } = claim!;
  const id = places[0]!.idOf(change.idHome ?? change, claim!.id);
  const found = known(id, set, now);
  const record = found?.step === step ? found : undefined;
  // After the id's life, a repetition may have been forgotten.
  const mayBeRepeated = record ? record.used > 0 : now >= Math.floor(step / 1000) + idLifeOf(set);
  if (isAutomatic === true && mayBeRepeated) return false;
  const last = id.ownerOf(step);
  // After `idsFor`, only the first decision may begin to change the charge.
  const mayBegin = isFirst || (record !== undefined && !record.isChanged);
  if (last === undefined ? !mayBegin : last !== owner) return false;
  // Each change of a repetition may charge units that count for longer than the name was kept.
  if (!isFirst) id.own(step, owner, endOf(places, set, now));
  if (!record) return true;
  // An id that was repeated stays, and is spent: otherwise the return of its charge would begin further free repetitions.
  if (isLast && record.used === 0) id.write(undefined, 0);
  else if (isLast) id.write({ ...record, isChanged: true, used: MAX_REPEATS }, atOf(record) + idLifeOf(set));
  else if (isFirst) id.write({ ...record, isChanged: true }, atOf(record) + idLifeOf(set));
  return true;
}

/** The time up to which a charge may be returned, ms since the epoch. */
function endOf(places: readonly Place[], set: PolicySet, now: number): number {
  const life = Math.max(idLifeOf(set), ...set.policies.map((policy) => policy.life));
  const ends = places.flatMap(({ columns, row }) => columns.map((column) => column.until(row)));
  return Math.max(now + life, ...ends);
}
