import { parseWho, type Hash } from '../../stores/keys.js';
import { topKey, type Counted } from '../../stores/redis/traffic.js';
import type { Session } from './session.js';

/** Decisions per second. */
export interface Rates {
  readonly admitted: number;
  readonly denied: number;
}

export interface LimiterRates extends Rates {
  readonly name: string;
  readonly policies: readonly { readonly name: string; readonly denied: number }[];
  /** Denied by anything other than a policy. */
  readonly reasons: readonly { readonly reason: string; readonly denied: number }[];
  readonly keys: readonly (Rates & { readonly key: string | Hash })[];
}

/** What all instances counted recently. */
export interface Snapshot {
  readonly instances: number;
  /** Whether the counts of keys are estimates. */
  readonly isSampled: boolean;
  readonly limiters: readonly LimiterRates[];
}

/** The time span that is shown, ms. */
export const SPAN = 5000;

/** The most entries that are read. */
const MOST = 5000;

type Pair = [admitted: number, denied: number];

interface Sums {
  readonly counts: Pair;
  readonly policies: Map<string, number>;
  readonly reasons: Map<string, number>;
  readonly keys: Map<string, Pair>;
}

/** Reads the counts of the last seconds, for one limiter or for all. The busiest limiters come first. */
export async function readTraffic(
  session: Session,
  name: string | undefined,
  keys: number,
): Promise<Snapshot> {
  const [server] = session.commands.servers();
  const [seconds, micros] = (await session.ask(server!.send(['TIME']))) as [string, string];
  const since = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000) - SPAN;
  const from = String(Math.max(0, since));
  const found = await session.call('XREVRANGE', topKey(session.prefix), '+', from, 'COUNT', String(MOST));
  const entries = (found as [id: string, fields: string[]][]).flatMap(([, [, text]]) => parse(text));
  const sums = new Map<string, Sums>();
  for (const { limiters } of entries) {
    for (const limiter of limiters) if (name === undefined || limiter.name === name) add(sums, limiter);
  }
  const limiters = [...sums].map(([scope, sum]) => ratesOf(scope, sum, keys));
  return {
    instances: new Set(entries.map(({ id }) => id)).size,
    isSampled: entries.some(({ sample }) => sample > 1),
    limiters: limiters.sort(busiest),
  };
}

function parse(text: string | undefined): Counted[] {
  try {
    const counted = JSON.parse(text ?? '') as Counted;
    return Array.isArray(counted.limiters) ? [counted] : [];
  } catch {
    return [];
  }
}

function add(all: Map<string, Sums>, limiter: Counted['limiters'][number]): void {
  const { name, counts, policies, reasons = {}, keys } = limiter;
  const sums = all.get(name) ?? {
    counts: [0, 0] as Pair,
    policies: new Map<string, number>(),
    reasons: new Map<string, number>(),
    keys: new Map<string, Pair>(),
  };
  all.set(name, sums);
  addPair(sums.counts, counts);
  addTo(sums.policies, policies);
  addTo(sums.reasons, reasons);
  for (const [key, pair] of Object.entries(keys)) {
    const sum = sums.keys.get(key);
    if (sum) addPair(sum, pair);
    else sums.keys.set(key, [...pair]);
  }
}

function addTo(sums: Map<string, number>, counts: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(counts)) sums.set(name, (sums.get(name) ?? 0) + count);
}

function addPair(to: Pair, [admitted, denied]: readonly [number, number]): void {
  to[0] += admitted;
  to[1] += denied;
}

const aSecond = (count: number): number => Math.round((10_000 * count) / SPAN) / 10;

const busiest = (a: Rates, b: Rates): number => b.admitted + b.denied - a.admitted - a.denied;

function ratesOf(name: string, { counts, policies, reasons, keys }: Sums, most: number): LimiterRates {
  const rates = ([admitted, denied]: Pair): Rates => ({
    admitted: aSecond(admitted),
    denied: aSecond(denied),
  });
  return {
    name,
    ...rates(counts),
    policies: [...policies]
      .map(([policy, denied]) => ({ name: policy, denied: aSecond(denied) }))
      .sort((a, b) => b.denied - a.denied),
    reasons: [...reasons]
      .map(([reason, denied]) => ({ reason, denied: aSecond(denied) }))
      .sort((a, b) => b.denied - a.denied),
    keys: [...keys]
      .map(([key, pair]) => ({ key: parseWho(`x:${key}`)?.key ?? key, ...rates(pair) }))
      .sort(busiest)
      .slice(0, most),
  };
}
