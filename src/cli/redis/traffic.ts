import { parseOwnerText, type Hash } from '../../stores/keys.js';
import { topKey, type Counted } from '../../stores/redis/operators/traffic.js';
import type { Session } from './session.js';

/** Decisions per second. */
export interface Rates {
  readonly admitted: number;
  readonly denied: number;
}

export interface LimiterRates extends Rates {
  readonly name: string;
  readonly policies: readonly { readonly name: string; readonly denied: number }[];
  /** Denials by reasons other than a policy. */
  readonly reasons: readonly { readonly reason: string; readonly denied: number }[];
  readonly keys: readonly (Rates & { readonly key: string | Hash })[];
}

/** The recent counts of all instances. */
export interface Snapshot {
  readonly instances: number;
  /** Whether the counts of keys are estimates. */
  readonly isSampled: boolean;
  readonly limiters: readonly LimiterRates[];
}

/** The shown time span, ms. */
export const SPAN_MS = 5000;

/** The maximum number of entries that are read. */
const MAX_ENTRIES = 5000;

/** Counts by name. */
class Counts {
  readonly #sums = new Map<string, [admitted: number, denied: number]>();

  add(name: string, [admitted, denied]: readonly [number, number]): void {
    const sum = this.#sums.get(name);
    this.#sums.set(name, [(sum?.[0] ?? 0) + admitted, (sum?.[1] ?? 0) + denied]);
  }

  /** Decisions per second, busiest first. */
  rates(): (Rates & { readonly name: string })[] {
    return [...this.#sums]
      .map(([name, [admitted, denied]]) => ({ name, admitted: aSecond(admitted), denied: aSecond(denied) }))
      .sort((a, b) => b.admitted + b.denied - a.admitted - a.denied);
  }
}

const aSecond = (count: number): number => Math.round((10_000 * count) / SPAN_MS) / 10;

/** Reads the counts of the last seconds, for one limiter or for all, with its busiest keys. */
export async function readTraffic(
  session: Session,
  name: string | undefined,
  most: number,
): Promise<Snapshot> {
  const [server] = session.commands.servers();
  const [seconds, micros] = (await session.ask(server!.send(['TIME']))) as [string, string];
  const since = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000) - SPAN_MS;
  const from = String(Math.max(0, since));
  const found = await session.call(
    'XREVRANGE',
    topKey(session.prefix),
    '+',
    from,
    'COUNT',
    String(MAX_ENTRIES),
  );
  const entries = (found as [id: string, fields: string[]][]).flatMap(([, [, text]]) => parse(text));
  const totals = new Counts();
  const details = new Map<string, { policies: Counts; reasons: Counts; keys: Counts }>();
  for (const limiter of entries.flatMap(({ limiters }) => limiters)) {
    if (name !== undefined && limiter.name !== name) continue;
    totals.add(limiter.name, limiter.counts);
    const { policies, reasons = {}, keys } = limiter;
    const own = details.get(limiter.name) ?? {
      policies: new Counts(),
      reasons: new Counts(),
      keys: new Counts(),
    };
    details.set(limiter.name, own);
    for (const [policy, denied] of Object.entries(policies)) own.policies.add(policy, [0, denied]);
    for (const [reason, denied] of Object.entries(reasons)) own.reasons.add(reason, [0, denied]);
    for (const [key, counts] of Object.entries(keys)) own.keys.add(key, counts);
  }
  const limiters = totals.rates().map((total) => {
    const { policies, reasons, keys } = details.get(total.name)!;
    return {
      ...total,
      policies: policies.rates().map(({ name, denied }) => ({ name, denied })),
      reasons: reasons.rates().map(({ name: reason, denied }) => ({ reason, denied })),
      keys: keys
        .rates()
        .slice(0, most)
        .map(({ name, ...rates }) => {
          return { key: parseOwnerText(`x:${name}`)?.key ?? name, ...rates };
        }),
    };
  });
  return {
    instances: new Set(entries.map(({ id }) => id)).size,
    isSampled: entries.some(({ sample }) => sample > 1),
    limiters,
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
