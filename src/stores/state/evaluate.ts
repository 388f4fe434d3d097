import type { MemoryColumn } from '../../algorithms/index.js';
import { costAt, costsOfPart, NO_COSTS, type Costs } from '../../contract/costs.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { replyWith, unanswered, type Reply, type UsageReply } from '../../contract/reply.js';
import type { PolicySet, Query, Subject } from '../../contract/store.js';
import { addVerdict, admits, nextWait, soleVerdict } from '../../contract/verdicts.js';
import { sharedOf } from '../../features/shares/contract/shares.js';
import { featuresOf, kindOf } from '../../features/features.js';
import type { Feature, Place } from '../../features/feature.js';
import { Shares } from '../../features/shares/place-shares.js';

/**
 * The store's answer to `decide`. Either all policies of all places are charged, or none is. The steps are those of `steps.lua`: look,
 * charge, and the report of the verdicts.
 */
export function decide(places: readonly Place[], query: Query, now: number, step: number): Reply {
  const kind = kindOf(query);
  const asked = kind === 0 ? undefined : featuresOf(query.set, kind);
  if (asked) {
    for (const feature of asked) {
      const answer = feature.before?.(places, query, now);
      if (answer) return answer;
    }
  }
  const hasFeatures = places[0]!.features.length > 0;
  const changes = hasFeatures ? correct(places, query.set) : undefined;
  let reply: Reply;
  if (changes) reply = { ...unanswered(now, step), ...changes };
  // Nearly all decisions are by one key, and the loops would cost 5 % of their time.
  else if (places.length === 1) reply = decideByOne(places[0]!, query, now, step);
  else reply = decideBySeveral(places, query, now, step);
  if (hasFeatures && !changes && reply.verdicts.length > 0)
    for (const feature of places[0]!.features) reply = feature.verdicts?.(places, reply) ?? reply;
  if (asked) for (const feature of asked) reply = feature.after?.(places, query, reply) ?? reply;
  return reply;
}

function correct(places: readonly Place[], set: PolicySet): Partial<Reply> | undefined {
  for (const feature of places[0]!.features) {
    const changes = feature.correct?.(places, set);
    if (changes) return changes;
  }
  return undefined;
}

/** Runs once the waits are in the columns. */
function report(places: readonly Place[], costsOf: (place: Place) => Costs, now: number): void {
  for (const feature of places[0]!.features) feature.report?.(places, costsOf, now);
}

export function usage(
  places: readonly Place[],
  { set, key }: Subject,
  now: number,
  step: number,
): UsageReply {
  const changes = correct(places, set);
  if (changes) return { ...unanswered(now, step), records: {}, ...changes };
  const left = refusedFor(places, now, false);
  const reply = lookOnly(places, { set, key, ...NO_COSTS }, { now, step, left });
  const fields = places[0]!.features.map((feature) => feature.usage?.(places));
  return Object.assign({ ...reply, records: {} }, ...fields) as UsageReply;
}

/** The verdicts without a charge, also of a request that a feature refuses, which is denied until the policies admit, too. */
function lookOnly(
  places: readonly Place[],
  asked: Subject & Costs & Pick<Query, 'weight'>,
  { now, step, left }: Pick<Reply, 'now' | 'step'> & { readonly left: number },
): Reply {
  const costsOf = ({ part }: Place): Costs => (asked.costs ? costsOfPart(asked, part.at) : asked);
  for (const place of places) look(place, costsOf(place), now, false);
  report(places, costsOf, now);
  if (sharedOf(asked.set).length > 0) new Shares(places, { ...asked, peek: true }, now, step).report(false);
  return replyWith(verdictsOf(columnsOf(places)), now, step, left);
}

function decideByOne(place: Place, query: Query, now: number, step: number): Reply {
  const { peek } = query;
  // A loop over an empty list is not free.
  const left = place.features.length > 0 ? refusedAt(place, now, !peek) : 0;
  if (left > 0) return lookOnly([place], query, { now, step, left });
  const admitted = look(place, query, now, !peek);
  const outcome = admitted ? 'admitted' : 'denied';
  const full = place.row === 0 ? makeRoom(place, query, outcome, now) : undefined;
  const started = peek ? 0 : charge(place, query, outcome, now);
  if (place.limits?.next) report([place], () => query, now);
  const reply = { now, step, ban: started, verdicts: verdictsOf(place.columns) };
  return full === undefined ? reply : { ...reply, full };
}

function decideBySeveral(places: readonly Place[], query: Query, now: number, step: number): Reply {
  const { set, peek } = query;
  const left = refusedFor(places, now, !peek);
  if (left > 0) return lookOnly(places, query, { now, step, left });
  const costsOf = ({ part }: Place): Costs => (query.costs ? costsOfPart(query, part.at) : query);
  let admitted = true;
  // The places whose policies deny. A tenant's share depends on other tenants, and never counts as a denial.
  let denying: Set<Place> | undefined;
  for (const place of places) {
    if (look(place, costsOf(place), now, !peek)) continue;
    admitted = false;
    denying = (denying ?? new Set()).add(place);
  }
  const shares = sharedOf(set).length > 0 ? new Shares(places, query, now, step) : undefined;
  if (shares && !shares.admitted) admitted = false;
  let full: number | undefined;
  for (const place of places) {
    if (place.row !== 0) continue;
    const wait = makeRoom(place, partOf(query, place), outcomeAt(place, admitted, denying), now);
    if (wait !== undefined) full = Math.max(full ?? 0, wait);
  }
  shares?.deny();
  let started = 0;
  for (const place of places) {
    if (peek) continue;
    // If there is room for only some of the keys, only these keys limit the request.
    const part = full ? { ...query, ...NO_COSTS } : partOf(query, place);
    started += charge(place, part, outcomeAt(place, admitted, denying), now);
  }
  report(places, costsOf, now);
  shares?.report(admitted);
  const reply = replyWith(verdictsOf(columnsOf(places)), now, step, started);
  return full === undefined ? reply : { ...reply, full };
}

/** The time for which a feature refuses a request, ms, or 0. */
function refusedFor(places: readonly Place[], now: number, writable: boolean): number {
  let left = 0;
  for (const place of places) left = Math.max(left, refusedAt(place, now, writable));
  return left;
}

function refusedAt(place: Place, now: number, writable: boolean): number {
  let left = 0;
  for (const feature of place.features)
    if (feature.refuses) left = Math.max(left, feature.refuses(place, now, writable));
  return left;
}

/** Whether all policies of a place admit, except for shadows. The verdicts are in the columns. */
export function look(place: Place, costs: Costs, now: number, writable: boolean): boolean {
  const { columns, policies, row } = place;
  const { cost, costs: each } = costs;
  let admitted = true;
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!;
    const policy = policies[i]!;
    // `costAt` without its call, as in `charge`.
    column.look(row, policy.params, each === undefined ? cost : each[i]!, now);
    if (writable && column.isStale) column.refresh(row, policy.params, now);
    if (!admits(column.wait) && !policy.shadow) admitted = false;
  }
  return admitted;
}

/** The outcome of a query at a place: whether the place's policies, or only those of other places, deny. */
type Outcome = 'admitted' | 'denied' | 'denied elsewhere';

function outcomeAt(place: Place, admitted: boolean, denying: ReadonlySet<Place> | undefined): Outcome {
  if (admitted) return 'admitted';
  return denying?.has(place) ? 'denied' : 'denied elsewhere';
}

function partOf(query: Query, { part }: Place): Query {
  return query.costs ? { ...query, ...costsOfPart(query, part.at) } : query;
}

/** Makes room for a key without state. @returns the value of `Reply.full` for an admitted query without room */
function makeRoom(place: Place, query: Query, outcome: Outcome, now: number): number | undefined {
  const { columns, policies, features } = place;
  const { cost, peek } = query;
  const isAdmitted = outcome === 'admitted';
  const isAttempt = policies.some((policy, i) => chargesDenied(features, policy) && costAt(query, i) > 0);
  const isNoted = outcome === 'denied' && features.some(({ denied }) => denied);
  if (!peek && (isAdmitted ? cost > 0 : isNoted || isAttempt)) {
    place.create(now, false);
    if (place.columns !== columns) look(place, query, now, true);
  }
  const isFull = isAdmitted && cost > 0 && (peek ? place.isFull(now) : place.row === 0);
  return isFull ? place.full(now) : undefined;
}

/** Charges the policies of a place that must be charged. @returns `Reply.ban`: below 0 if this denial starts a ban */
function charge(place: Place, query: Query, outcome: Outcome, now: number): number {
  const { columns, policies, row, features } = place;
  if (row === 0) return 0;
  const isAdmitted = outcome === 'admitted';
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!;
    const policy = policies[i]!;
    const cost = query.costs === undefined ? query.cost : query.costs[i]!;
    // A shadow that would deny charges nothing, like a policy that denies.
    if (cost === 0 || !admits(column.wait) || !(isAdmitted || chargesDenied(features, policy))) continue;
    if (features.length > 0) for (const feature of features) feature.charges?.(place, i, query);
    column.commit(row, policy.params, cost, now);
    if (!isAdmitted) for (const feature of features) feature.chargedDenied?.(place, i, cost, now);
    if (features.length > 0)
      for (const feature of features) feature.charged?.(place, i, column.remaining + cost, now);
  }
  let started = 0;
  if (outcome === 'denied') for (const feature of features) started += feature.denied?.(place, now) ?? 0;
  noteDenial(place, now);
  return started;
}

/** Whether a feature charges a policy for a request that another policy denies. */
function chargesDenied(features: readonly Feature[], policy: CompiledPolicy): boolean {
  for (const feature of features) if (feature.chargesDenied?.(policy)) return true;
  return false;
}

/** Stores the time until which a key must be kept, after its policies were looked at. A key without remaining units counts as denied. */
export function noteDenial(place: Place, now: number): void {
  const { columns, policies } = place;
  let until = 0;
  for (let i = 0; i < columns.length; i++) {
    const { wait, remaining, reset } = columns[i]!;
    const { attempts, shadow } = policies[i]!;
    const isDenied = wait !== 0 && nextWait(wait, attempts) > 0;
    if ((isDenied || remaining === 0) && !shadow) until = Math.max(until, now + reset);
  }
  if (until > 0) place.deny(until);
}

export function verdictsOf(columns: readonly MemoryColumn[]): number[] {
  if (columns.length === 1) {
    const { wait, remaining, reset } = columns[0]!;
    return soleVerdict(wait, remaining, reset);
  }
  const verdicts: number[] = [];
  for (const { wait, remaining, reset } of columns) addVerdict(verdicts, wait, remaining, reset);
  return verdicts;
}

/** The columns of all places in the order of the whole set's policies. */
export function columnsOf(places: readonly Place[]): MemoryColumn[] {
  const all: MemoryColumn[] = [];
  for (const { part, columns } of places) part.at.forEach((n, i) => (all[n] = columns[i]!));
  return all;
}
