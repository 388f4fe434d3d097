import { randomBytes } from 'node:crypto';
import { PLACES } from '../../algorithms/line.js';
import { lazy } from '../../common/lazy.js';
import { policyWith } from '../../contract/compile-policies.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Reply } from '../../contract/reply.js';
import { tenantsOf } from '../../features/shares/contract/shares.js';
import type { PolicySet, Query } from '../../contract/store.js';
import { originOf, variant } from '../../contract/variant.js';
import { LINE_TAG } from '../../stores/keys.js';
import type { LimiterDecision } from '../decision.js';
import { admits, countOf, remainingOf, replaceWait, some, waitOf } from '../../contract/verdicts.js';

export const processNumber = lazy(() => randomBytes(6).readUIntBE(0, 6));

/** The position of the first enforced policy of slots, or -1. */
function slotsAt({ policies }: PolicySet): number {
  return policies.findIndex(({ shadow, traits }) => traits.holdsSlots && !shadow);
}

/** The time of a round, ms: a process may be ahead of another process by its part of the turns in a round. */
const ROUND_MS = 1000;

export function sharesSlots(set: PolicySet): boolean {
  return set.policies[slotsAt(set)]?.share !== undefined;
}

/** Whether slots that tenants share are the reason of a denial. */
export function isOfSharedSlots({ set: { policies }, policy: decider }: LimiterDecision): boolean {
  return policies.some(
    ({ name, share, traits }) => name === decider && share !== undefined && traits.holdsSlots,
  );
}

/** The assumed time for which slots are held, ms, until this process has released a slot. */
const UNKNOWN_HOLD_MS = 100;

export interface LineQuestion {
  readonly process: number;
  /** Whether further requests of the process wait. */
  readonly waits: boolean;
  /** The time for which this process usually holds a slot, ms, if known. */
  readonly holdMs: number | undefined;
}

/**
 * A set that also asks whether it is the turn of this process. Slots come back by a release, which only the releasing process notices, so the
 * same process would take the slots again and again. A hidden policy, the last, therefore counts the slots taken by each waiting process.
 */
export function inLine(set: PolicySet, { process, waits, holdMs }: LineQuestion): PolicySet {
  const at = slotsAt(set);
  if (at < 0) return set;
  const slots = set.policies[at]!;
  const turns = (ROUND_MS * slots.limit) / Math.max(1, holdMs ?? UNKNOWN_HOLD_MS);
  // Rounded to a power of two, so that there are few sets.
  const params = { process, waits: waits ? 1 : 0, round: 2 ** Math.max(0, Math.round(Math.log2(turns))) };
  return withLine(set, () => lineOf(slots, params), Object.values(params).join());
}

function lineOf(slots: CompiledPolicy, params: CompiledPolicy['params']): CompiledPolicy {
  return policyWith(slots, {
    name: '',
    by: tenantsOf(slots) ?? slots.by,
    share: undefined,
    thresholds: undefined,
    kernel: 'line',
    params,
    id: `${LINE_TAG}:${slots.id}`,
    traits: { ...slots.traits, holdsSlots: false, capacity: Infinity },
  });
}

const withLine = (set: PolicySet, line: () => CompiledPolicy, id: string): PolicySet =>
  variant(set, 'line', () => ({ policies: [...set.policies, line()], isInLine: true }), id);

/** The set without the line. A request without some keys has a part of a set, which may have no line any more. */
export function outOfLine(set: PolicySet): PolicySet {
  return originOf(set, 'line') ?? (set.isInLine ? visiblePart(set) : set);
}

const visiblePart = (set: PolicySet): PolicySet =>
  variant(set, 'without line', () => ({
    policies: set.policies.filter(({ kernel }) => kernel !== 'line'),
    isInLine: false,
  }));

/** A set that an override made from the visible part of another set, with the line of the original set. */
export function asInLine(made: PolicySet, of: PolicySet): PolicySet {
  if (made === outOfLine(of)) return of;
  const line = of.policies.at(-1)!;
  return originOf(of, 'line') ? withLine(made, () => line, JSON.stringify([line.id, line.params])) : made;
}

export function visibleQuery<Q extends Query>(query: Q): Q {
  const set = outOfLine(query.set);
  return { ...query, set, costs: query.costs?.slice(0, set.policies.length) };
}

/** The part of a reply that users see. If only the line denies, the policy of the slots denies. @param set the visible part of the reply's set */
export function visibleReply(reply: Reply, set: PolicySet): Reply {
  const { verdicts, limits, steps, marks } = reply;
  const last = set.policies.length;
  if (countOf(verdicts) <= last) return reply;
  const place = remainingOf(verdicts, last);
  const wait = waitOf(verdicts, last);
  const at = slotsAt(set);
  const isAhead = !admits(wait) && admits(waitOf(verdicts, at));
  const visible = some(verdicts, last);
  return {
    ...reply,
    verdicts: isAhead ? replaceWait(visible, at, wait) : visible,
    ...(limits && { limits: limits.slice(0, last) }),
    ...(steps && { steps: steps.slice(0, last) }),
    ...(marks && { marks: marks.slice(0, last) }),
    ...(place > 0 && {
      standing: { before: (place - 1) % PLACES, turns: Math.floor(place / PLACES), isAhead },
    }),
  };
}
