// Laws 16 and 21 between processes: bans and overrides are in force in every process from the return of the call that set them.
import type { Entry, Keys } from './record.js';
import type { ProcessSite } from './task.js';

/** The time after which a change of all keys applies in every process, ms (docs/overrides.md). */
const ALL_KEYS_MS = 2000;

const placeOf = (keys: Keys | undefined) => (keys ? JSON.stringify(keys) : 'all');

/** The changes of a place that may be in force for a decision: none that a later one surely replaced. `undefined` is the state before. */
function possible(changes: readonly Entry[], { before, after }: Entry, lag: number): (Entry | undefined)[] {
  const begun = changes.filter((change) => change.before <= after && !change.error);
  const isReplaced = (change: Entry | undefined) =>
    begun.some((other) => other.after < before - lag && (!change || other.before > change.after));
  return [undefined, ...begun].filter((change) => !isReplaced(change));
}

/** The limits that a change may give a policy at a decision. Undefined is the limit of the next weaker place. */
function limitsOf(
  changes: readonly Entry[],
  policy: string,
  decision: Entry,
  lag: number,
): Set<number | undefined> {
  return new Set(
    possible(changes, decision, lag).flatMap((change) => {
      if (change?.call !== 'override' || change.policy !== policy) return [undefined];
      const { ms = Infinity, before, after, limit } = change;
      if (decision.before >= after + ms) return [undefined];
      return decision.after < before + ms ? [limit] : [limit, undefined];
    }),
  );
}

export function checkOverrides(site: ProcessSite, entries: readonly Entry[]): string[] {
  const faults: string[] = [];
  const byPlace = new Map<string, Entry[]>();
  for (const entry of entries)
    if (entry.call === 'override' || entry.call === 'remove') {
      const place = `${entry.limiter} ${placeOf(entry.keys)}`;
      byPlace.set(place, [...(byPlace.get(place) ?? []), entry]);
    }
  for (const decision of entries) {
    const { answer, limiter, tier } = decision;
    if (!answer || answer.repeated || answer.reason === 'banned') continue;
    const drawn = site.limiters[limiter]!;
    if (!drawn.overrides) continue;
    for (const { name, limit, key } of answer.policies) {
      const base = (tier === undefined ? drawn.policies : drawn.tiers[tier]!).find(
        (each) => each.name === name,
      );
      if (!base) {
        faults.push(`${JSON.stringify(decision)}: unknown policy ${name}`);
        continue;
      }
      const own = limitsOf(byPlace.get(`${limiter} ${placeOf({ [base.by]: key })}`) ?? [], name, decision, 0);
      const all = limitsOf(byPlace.get(`${limiter} all`) ?? [], name, decision, ALL_KEYS_MS);
      const limits = new Set<number>();
      for (const one of own) for (const other of all) limits.add(one ?? other ?? base.limit);
      if (!limits.has(limit))
        faults.push(
          `override of ${name}, key ${key}: the limit is ${limit}, expected ${[...limits].join(' or ')}: ${JSON.stringify(decision)}`,
        );
    }
  }
  return faults;
}

/** Bans by hand, and bans that `usage` showed, whatever began them. */
export function checkBans(site: ProcessSite, entries: readonly Entry[]): string[] {
  const faults: string[] = [];
  for (const [at, { ban, shadow }] of site.limiters.entries()) {
    if (!ban || shadow) continue;
    const own = entries.filter((entry) => entry.limiter === at && !entry.error);
    const changes = own.filter(({ call }) => call === 'ban' || call === 'unban');
    const admitted = own.filter(
      ({ call, answer }) => call === 'consume' && answer?.allowed && !answer.repeated,
    );
    for (const set of own) {
      const by = set.keys?.[ban.by];
      // The process adds the rest of a ban to its own time.
      const shown = (set.bannedUntil ?? 0) - (set.after - set.before);
      const until = set.call === 'ban' ? set.before + set.ms! : shown;
      if (by === undefined) continue;
      /** Whether another change may have ended the ban before a decision. */
      const mayEnd = (decision: Entry) =>
        changes.some(
          (change) =>
            change !== set &&
            change.keys![ban.by] === by &&
            change.after >= set.before &&
            change.before <= decision.after &&
            (change.call === 'unban' || decision.after >= change.before + change.ms!),
        );
      for (const decision of admitted)
        if (
          decision.keys![ban.by] === by &&
          decision.before > set.after &&
          decision.after < until &&
          !mayEnd(decision)
        )
          faults.push(`a banned key is admitted: ${JSON.stringify(set)}\n  ${JSON.stringify(decision)}`);
    }
  }
  return faults;
}
