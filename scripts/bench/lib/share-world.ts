// Tenants that ask for units of one limit at random times: a simulation for tests, the bench and a plot.

/** A tenant's requests. */
export interface Demand {
  readonly tenant: string;
  /** Requests a second. */
  readonly rate: number;
  /** The cost of a request, or a function of a random number. @default 1 */
  readonly cost?: number | ((random: () => number) => number);
  readonly weight?: number;
  /** The time of the first and of the last request, s. */
  readonly from?: number;
  readonly to?: number;
}

export interface Request {
  /** The time, ms. */
  readonly at: number;
  readonly tenant: string;
  readonly cost: number;
  readonly weight: number | undefined;
}

/** The requests of a tenant that were counted, and the units that it got. */
export interface Served {
  asked: number;
  denied: number;
  units: number;
}

export interface World {
  readonly limit: number;
  /** The length of the window, ms. */
  readonly window: number;
  readonly seconds: number;
  /** The time from which requests are counted, s. */
  readonly since?: number;
  readonly seed?: number;
  /** Decides a request. */
  readonly ask: (request: Request) => boolean | Promise<boolean>;
  /** Called after each decision, with the units of the last window. */
  readonly onUnits?: (at: number, units: number) => void;
}

/** A deterministic source of numbers from 0 to 1. */
export function numbers(seed = 1): () => number {
  let state = seed;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

/**
 * Serves Poisson arrivals.
 *
 * @returns the counts by tenant, and the most units in any window
 */
export async function serve(
  demands: readonly Demand[],
  { window, seconds, since = 0, seed = 1, ask, onUnits }: World,
): Promise<{ served: ReadonlyMap<string, Served>; most: number }> {
  const random = numbers(seed);
  const gap = ({ rate }: Demand): number => (-Math.log(random()) / rate) * 1000;
  const queue = demands.map((demand) => ({ demand, at: (demand.from ?? 0) * 1000 + gap(demand) }));
  const served = new Map(demands.map(({ tenant }) => [tenant, { asked: 0, denied: 0, units: 0 }]));
  const admitted: { at: number; cost: number }[] = [];
  let [first, used, most] = [0, 0, 0];
  for (;;) {
    let next = queue[0]!;
    for (const each of queue) if (each.at < next.at) next = each;
    if (next.at >= seconds * 1000) return { served, most };
    const { tenant, cost: costs = 1, weight, to = Infinity } = next.demand;
    const cost = typeof costs === 'number' ? costs : costs(random);
    const at = Math.floor(next.at);
    const allowed = await ask({ at, tenant, cost, weight });
    while (first < admitted.length && admitted[first]!.at <= at - window) used -= admitted[first++]!.cost;
    if (allowed) {
      admitted.push({ at, cost });
      used += cost;
    }
    most = Math.max(most, used);
    onUnits?.(at, used);
    if (at >= since * 1000) {
      const counts = served.get(tenant)!;
      counts.asked++;
      if (allowed) counts.units += cost;
      else counts.denied++;
    }
    next.at += gap(next.demand);
    if (next.at > to * 1000) next.at = Infinity;
  }
}

/** Light tenants that ask for a rate together. */
export const lightTenants = (count: number, rate: number, cost?: Demand['cost']): Demand[] =>
  Array.from({ length: count }, (_, i) => ({
    ...{ tenant: `light ${i}`, rate: rate / count },
    ...(cost !== undefined && { cost }),
  }));

/** The part of the requests of light tenants that was denied. */
export function deniedOfLight(served: ReadonlyMap<string, Served>): number {
  let [asked, denied] = [0, 0];
  for (const [tenant, counts] of served) {
    if (!tenant.startsWith('light')) continue;
    asked += counts.asked;
    denied += counts.denied;
  }
  return denied / Math.max(1, asked);
}

/** Jain's index of fairness: 1 if all are equal. */
export function jain(shares: readonly number[]): number {
  const sum = shares.reduce((all, each) => all + each, 0);
  return sum ** 2 / (shares.length * shares.reduce((all, each) => all + each ** 2, 0));
}
