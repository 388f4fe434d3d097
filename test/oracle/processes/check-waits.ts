// Law 12 between processes: nobody is denied longer than a window and the own debt, and slots come back after their lease.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Limiter } from 'headgate';
import type { DrawnLimiter } from '../draw.js';
import type { Policy } from '../model/types.js';
import type { Entry } from './record.js';
import { LEDGER } from './site.js';
import type { ProcessSite } from './task.js';

/** The longest lease of a drawn site, ms. */
const LONGEST_LEASE_MS = 2400;

/** The longest wait that a policy may ask for. @param debt the units above the limit that were settled. @param least the lowest limit in force */
function longestWait(policy: Policy, debt: number, least: number): number {
  const { algorithm, window, limit, burst, segments = 10, maxDelay = 0, share } = policy;
  if (algorithm === 'calendar') return 366 * 86_400_000;
  // Shared slots that are free are kept for the tenants that were denied in the last two seconds.
  if (algorithm === 'concurrency' && share) return window + 2001;
  if (!['token-bucket', 'leaky-bucket', 'gcra'].includes(algorithm))
    return window + (4 * window) / segments + 1;
  const full = Math.max(burst ?? limit, 12, ((burst ?? limit) * 12) / limit);
  return maxDelay + ((full + debt) * window) / least + 1;
}

/** The longest wait that settled units, tiers and overrides allow. */
function longestOf(drawn: DrawnLimiter, name: string, entries: readonly Entry[]): number {
  const debt = entries.reduce((sum, { call, units = 0 }) => sum + (call === 'settle' ? units : 0), 0);
  const all = [drawn.policies, ...Object.values(drawn.tiers)].flat().filter((policy) => policy.name === name);
  const least = drawn.overrides ? 1 : Math.min(...all.map(({ limit }) => limit));
  return Math.max(...all.map((policy) => longestWait(policy, debt, least)));
}

export function checkWaits(site: ProcessSite, entries: readonly Entry[]): string[] {
  const faults: string[] = [];
  for (const [at, drawn] of site.limiters.entries()) {
    const own = entries.filter(({ limiter }) => limiter === at);
    const longest = new Map<string, number>();
    // A denial that lasts beyond the end of an override waits until all policies admit by their next limits.
    const hasEnds = own.some(({ call, ms }) => call === 'override' && ms !== undefined);
    const longestOfAll = Math.max(
      ...drawn.policies.flatMap(({ name }) => (name === LEDGER.name ? [] : [longestOf(drawn, name, own)])),
    );
    for (const entry of own)
      for (const { name, retryAfterMs } of entry.answer?.policies ?? []) {
        if (retryAfterMs === undefined) continue;
        const most = hasEnds ? longestOfAll : (longest.get(name) ?? longestOf(drawn, name, own));
        longest.set(name, most);
        if (retryAfterMs > most)
          faults.push(`${name} denies for ${retryAfterMs} ms, at most ${most}: ${JSON.stringify(entry)}`);
      }
  }
  return faults;
}

/** After the end of all processes: each key waits as long as it was told, and is admitted, and no slot is held. */
export async function checkReturns(
  site: ProcessSite,
  entries: readonly Entry[],
  limiters: readonly Limiter[],
): Promise<string[]> {
  const faults: string[] = [];
  const requests = [
    ...new Set(
      entries.flatMap(({ call, limiter, keys, tier, id }) =>
        call === 'consume' && id === undefined ? [JSON.stringify({ limiter, keys, tier })] : [],
      ),
    ),
  ].map((text) => JSON.parse(text) as Pick<Entry, 'limiter' | 'keys' | 'tier'>);
  const ask = ({ limiter, keys, tier }: (typeof requests)[number]) =>
    limiters[limiter]!.peek(keys!, tier === undefined ? {} : { tier });
  /** The denied requests. Calendars, and buckets with a large debt, are not waited for. */
  const denied = async (asked: typeof requests) => {
    const denials: { request: (typeof requests)[number]; wait: number; text: string }[] = [];
    for (const request of asked) {
      const decision = await ask(request);
      const wait = decision.retryAfterMs ?? Infinity;
      if (!decision.allowed && wait <= 6000) denials.push({ request, wait, text: JSON.stringify(decision) });
    }
    return denials;
  };
  const open = await denied(requests);
  await sleep(Math.max(0, ...open.map(({ wait }) => wait)) + 5);
  const still = await denied(open.map(({ request }) => request));
  faults.push(...still.map(({ request, text }) => `still denied: ${JSON.stringify(request)} ${text}`));

  const slots = site.limiters.map(({ policies }) =>
    policies.filter(({ algorithm }) => algorithm === 'concurrency'),
  );
  if (slots.flat().length === 0) return faults;
  const end = Math.max(...entries.map(({ after }) => (after < Infinity ? after : 0)));
  // A call of a killed process may still arrive.
  await sleep(Math.max(0, end + LONGEST_LEASE_MS + 100 - Date.now()));
  for (const { limiter, keys, tier } of requests) {
    const { policies } = await limiters[limiter]!.usage(keys!, tier === undefined ? {} : { tier });
    for (const { name, used } of policies)
      if (used > 0 && slots[limiter]!.some((policy) => policy.name === name))
        faults.push(`${used} slots of l${limiter} ${name} are still held: ${JSON.stringify(keys)}`);
  }
  return faults;
}
