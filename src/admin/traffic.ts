import { checkInteger } from '../common/validate.js';
import { parseOwnerText, type Hash } from '../stores/keys.js';
import type { Counted } from '../stores/redis/operators/traffic.js';
import type { State } from './state.js';

/** Decisions per second. */
export interface Rates {
  /** Admitted requests a second. */
  readonly admitted: number;
  /** Denied requests a second. */
  readonly denied: number;
}

/** The decisions of one limiter per second. */
export interface LimiterRates extends Rates {
  /** The name of the limiter. */
  readonly name: string;
  /** The denials of each policy. */
  readonly policies: readonly { readonly name: string; readonly denied: number }[];
  /** Denials by reasons other than a policy. */
  readonly reasons: readonly { readonly reason: string; readonly denied: number }[];
  /** The keys with most requests. */
  readonly keys: readonly (Rates & { readonly key: string | Hash })[];
}

/** The recent counts of all processes. */
export interface Traffic {
  /** The span of time of the counts, ms. */
  readonly spanMs: number;
  /** The number of processes that have counted decisions. */
  readonly instances: number;
  /** Whether the counts of keys are estimates. */
  readonly isSampled: boolean;
  /** The limiters, the busiest first. */
  readonly limiters: readonly LimiterRates[];
}

/** The selection of counts. */
export interface TrafficOptions {
  /** The span of time, 1 to 60 seconds. @default 5 */
  seconds?: number | undefined;
  /** The limiter. @default all limiters */
  name?: string | undefined;
  /** The number of keys of each limiter, the busiest first: 0 to 20. @default 5 */
  keys?: number | undefined;
}

/** Counts by name. */
class Counts {
  readonly #sums = new Map<string, [admitted: number, denied: number]>();

  add(name: string, [admitted, denied]: readonly [number, number]): void {
    const sum = this.#sums.get(name);
    this.#sums.set(name, [(sum?.[0] ?? 0) + admitted, (sum?.[1] ?? 0) + denied]);
  }

  /** Decisions per second, busiest first. */
  rates(seconds: number): (Rates & { readonly name: string })[] {
    return [...this.#sums]
      .map(([name, [admitted, denied]]) => ({
        name,
        admitted: aSecond(admitted, seconds),
        denied: aSecond(denied, seconds),
      }))
      .sort((a, b) => b.admitted + b.denied - a.admitted - a.denied);
  }
}

const aSecond = (count: number, seconds: number): number => Math.round((10 * count) / seconds) / 10;

/** Reads the counts of the last seconds, for one limiter or for all, with its busiest keys. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export async function readTraffic(state: State, options: TrafficOptions): Promise<Traffic> {
  const { name } = options;
  const seconds = options.seconds === undefined ? 5 : checkInteger('seconds', options.seconds, 1, 60);
  const most = options.keys === undefined ? 5 : checkInteger('keys', options.keys, 0, 20);
  const entries = (await state.counts(1000 * seconds)).flatMap(parse);
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
  const limiters = totals.rates(seconds).map((total) => {
    const { policies, reasons, keys } = details.get(total.name)!;
    return {
      ...total,
      policies: policies.rates(seconds).map(({ name, denied }) => ({ name, denied })),
      reasons: reasons.rates(seconds).map(({ name: reason, denied }) => ({ reason, denied })),
      keys: keys
        .rates(seconds)
        .slice(0, most)
        .map(({ name, ...rates }) => {
          return { key: parseOwnerText(`x:${name}`)?.key ?? name, ...rates };
        }),
    };
  });
  return {
    spanMs: 1000 * seconds,
    instances: new Set(entries.map(({ id }) => id)).size,
    isSampled: entries.some(({ sample }) => sample > 1),
    limiters,
  };
}

function parse(text: string): Counted[] {
  try {
    const counted = JSON.parse(text) as Counted;
    return Array.isArray(counted.limiters) ? [counted] : [];
  } catch {
    return [];
  }
}
