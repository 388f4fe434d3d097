// Law 1 between processes: in no true window more units than the published worst case.
import type { DrawnLimiter } from '../draw.js';
import type { Policy } from '../model/types.js';
import { chargesOf, followUps, type Charge } from './charges.js';
import type { Entry } from './record.js';
import type { ProcessSite } from './task.js';

const BUCKETS: ReadonlySet<string> = new Set(['token-bucket', 'leaky-bucket', 'gcra']);

/** The worst case of an algorithm in a window, from docs/algorithms.md. */
function boundOf(policy: Policy, limit: number): number {
  const { algorithm, burst, limit: configured, maxDelay = 0, window } = policy;
  if (BUCKETS.has(algorithm)) {
    const most = burst === undefined ? limit : Math.max(1, Math.round((burst * limit) / configured));
    return most + limit + Math.ceil((maxDelay * limit) / window);
  }
  return algorithm === 'fixed-window' || algorithm === 'calendar' ? 2 * limit : limit;
}

const lengthOf = ({ algorithm, window }: Policy) => (algorithm === 'calendar' ? 3_600_000 : window);

const policyOf = (drawn: DrawnLimiter, name: string, tier: string | undefined): Policy | undefined =>
  (tier === undefined ? drawn.policies : drawn.tiers[tier]!).find((policy) => policy.name === name);

/** Charges of one count, grouped. Policies that differ only in their limit share a count; a bucket of another rate is another one. */
function groups(
  site: ProcessSite,
  charges: readonly Charge[],
): Map<string, { policy: Policy; all: Charge[] }> {
  const found = new Map<string, { policy: Policy; all: Charge[] }>();
  for (const charge of charges) {
    const { entry, policy: name, key, limit } = charge;
    const drawn = site.limiters[entry.limiter]!;
    const policy = policyOf(drawn, name, entry.tier);
    if (!policy) continue;
    const { algorithm, window, burst, maxDelay, segments } = policy;
    const rate = BUCKETS.has(algorithm) ? `${limit} ${policy.limit}` : '';
    const id = JSON.stringify([entry.limiter, name, policy.by, key, window, burst, maxDelay, segments, rate]);
    const group = found.get(id) ?? { policy, all: [] };
    group.all.push(charge);
    found.set(id, group);
  }
  return found;
}

/** The number of times that the charges of a key may have been forgotten in an interval. */
function forgotten(site: ProcessSite, entries: readonly Entry[], charge: Charge, from: number, to: number) {
  const { limiter } = charge.entry;
  const resets = entries.filter(
    (entry) =>
      entry.call === 'reset' &&
      entry.limiter === limiter &&
      entry.before < to &&
      entry.after >= from &&
      Object.values(entry.keys!).includes(charge.key),
  ).length;
  const { ban } = site.limiters[limiter]!;
  return resets + (ban?.fresh && ban.after ? 2 + Math.ceil((to - from) / ban.for) : 0);
}

export function checkBounds(site: ProcessSite, entries: readonly Entry[]): string[] {
  const faults: string[] = [];
  const charges = chargesOf(entries);
  for (const [id, { policy, all }] of groups(site, charges)) {
    if (policy.algorithm === 'concurrency') {
      faults.push(...checkSlots(id, policy, all, entries));
      continue;
    }
    const length = lengthOf(policy);
    const sorted = [...all].sort((a, b) => a.entry.before - b.entry.before);
    for (const first of sorted) {
      const from = first.entry.before;
      const inside = sorted.filter(({ entry }) => entry.before >= from && entry.after < from + length);
      const units = inside.reduce((sum, { least }) => sum + least, 0);
      const limit = Math.max(...inside.map((charge) => charge.limit), first.limit);
      const given = entries
        .filter((entry) => entry.call === 'giveBack' && entry.limiter === first.entry.limiter)
        .filter(({ before, after }) => before < from + length && after >= from)
        .reduce((sum, entry) => sum + entry.units!, 0);
      const times = 1 + forgotten(site, entries, first, from, from + length);
      const bound = boundOf(policy, limit) * times + given;
      if (units <= bound) continue;
      faults.push(
        `${id}: ${units} units in ${length} ms from ${from}, at most ${bound}\n${inside.map(line).join('\n')}`,
      );
      break;
    }
  }
  return faults;
}

/** The slots that are surely held at one time. */
function checkSlots(id: string, policy: Policy, all: readonly Charge[], entries: readonly Entry[]): string[] {
  const changes = followUps(entries);
  const held = all.map((charge) => {
    const { entry, least } = charge;
    const mine = changes.get(`${entry.process} ${entry.n}`) ?? [];
    const ends = mine.filter(({ call }) => call !== 'renew').map(({ before }) => before);
    const resets = entries
      .filter((other) => other.call === 'reset' && other.limiter === entry.limiter)
      .filter(({ after }) => after >= entry.before)
      .map(({ before }) => before);
    const to = Math.min(entry.before + policy.window, ...ends, ...resets);
    return { charge, from: entry.after, to, units: least };
  });
  for (const { from, charge } of held) {
    const now = held.filter((each) => each.from <= from && each.to > from);
    const units = now.reduce((sum, each) => sum + each.units, 0);
    const limit = Math.max(...now.map((each) => each.charge.limit), charge.limit);
    if (units > limit)
      return [
        `${id}: ${units} slots at ${from}, at most ${limit}\n${now.map((each) => line(each.charge)).join('\n')}`,
      ];
  }
  return [];
}

const line = ({ entry, policy, key, limit, least }: Charge) =>
  `  ${entry.process}#${entry.n} ${entry.before}..${entry.after} ${policy} ${key} limit ${limit}: ${least}`;
