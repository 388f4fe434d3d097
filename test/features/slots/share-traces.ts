// Traces of requests to shared slots, and the shares by the definition in docs/fair-shares.md: slots are given out singly. Independent of the
// code under test.
import fc from 'fast-check';
import { createLimiter, type Decision, type Limiter, type Store } from 'headgate';
import { TestClock } from '../../support/stores.js';
import { keyOf } from '../shares/traces.js';

/** Shared slots alone, as shadows, beside other policies, and beside a shared window. */
export const SLOT_POLICIES: readonly (string | string[])[] = [
  'concurrency 6/5s by provider share tenant',
  ['concurrency 1/3s by provider share tenant weight 2'],
  ['concurrency 4/2s by provider share tenant shadow', 'concurrency 7/6s by provider share tenant'],
  ['concurrency 5/4s by provider share tenant', '60/5s by provider share tenant', '9/1s by tenant'],
];

export interface Step {
  readonly wait: number;
  readonly tenant: string;
  readonly cost: number;
  readonly weight: number | undefined;
  readonly action: number;
}

export const slotStep: fc.Arbitrary<Step> = fc.record({
  wait: fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 300 }) },
    fc.integer({ min: 0, max: 3000 }),
  ),
  tenant: fc.constantFrom('a', 'b', 'c', 'd'),
  cost: fc.oneof({ weight: 5, arbitrary: fc.constant(1) }, fc.integer({ min: 0, max: 4 })),
  weight: fc.constantFrom(undefined, undefined, 1, 2, 5),
  action: fc.integer({ min: 0, max: 9 }),
});

const at = (wait: number, tenant: string, action: number): Step => ({
  ...{ wait, tenant, cost: 1, weight: undefined, action },
});

/** Traces that once had different results on different stores. */
export const REGRESSIONS: [Step[]][] = [
  // The turn of a tenant is forgotten while it would wait.
  [[at(0, 'd', 6), at(2725, 'a', 2), at(0, 'a', 6), at(276, 'c', 6), at(0, 'a', 2), at(0, 'd', 0)]],
];

/** A limiter with its clock, and the decisions that may hold slots. */
export class Trace {
  readonly clock = new TestClock();
  readonly limiter: Limiter;
  readonly #held: Decision[] = [];

  constructor(create: (clock: () => number) => Store, policies: string | string[]) {
    this.limiter = createLimiter({ store: create(this.clock.read), policies, timeout: '10s' });
  }

  /** Carries out one step. Returns its result as text. */
  async run({ wait, tenant, cost, weight, action }: Step): Promise<string> {
    this.clock.now += wait;
    const held = this.#held;
    if (action === 0) return seen(await this.limiter.peek(keyOf(tenant), { cost, weight }));
    if (action === 1) return JSON.stringify((await this.limiter.usage(keyOf(tenant))).policies);
    if (action < 5 && held.length > 0)
      return `released ${await held.splice(wait % held.length, 1)[0]!.release()}`;
    if (action === 5 && held.length > 0) return `renewed ${await held[0]!.renew()}`;
    const decision = await this.limiter.consume(keyOf(tenant), { cost, weight });
    if (decision.allowed && cost > 0) held.push(decision);
    return seen(decision);
  }
}

/** The parts of a decision that all stores must agree on. */
function seen({ allowed, reason, retryAfterMs, remaining, resetAfterMs, policies }: Decision): string {
  return JSON.stringify({ allowed, reason, retryAfterMs, remaining, resetAfterMs, policies });
}

interface Tenant {
  weight: number;
  served: number;
  asked: number;
  wanted: number;
  /** Whether the latest request that counts was admitted. Several requests may have one time. */
  isServedLast: boolean;
}

/** Decides requests of tenants with weights that do not change, and without renewals. */
export class SlotOracle {
  readonly #limit: number;
  readonly #lease: number;
  readonly #order: readonly string[];
  readonly #tenants = new Map<string, Tenant>();
  #leases: { name: string; units: number; stop: number }[] = [];

  /** @param order the tenants in the order in which they get a slot if nothing else distinguishes them */
  constructor(limit: number, lease: number, order: readonly string[]) {
    this.#limit = limit;
    this.#lease = lease;
    this.#order = order;
  }

  decide(now: number, name: string, cost: number, weight: number): { allowed: boolean; share: number } {
    this.#leases = this.#leases.filter(({ stop }) => stop > now);
    const own = this.#tenants.get(name) ?? {
      weight,
      served: 0,
      asked: -Infinity,
      wanted: 0,
      isServedLast: false,
    };
    own.weight = weight;
    this.#tenants.set(name, own);
    // A turn is forgotten two seconds after the longest time for which its slot is held.
    for (const each of this.#tenants.values())
      if (now >= Math.max(each.served, each.asked) + this.#lease + 2000) each.served = 0;
    const held = this.#heldBy(name);
    const free = this.#limit - this.#leases.reduce((sum, { units }) => sum + units, 0);
    const isFair = held + cost <= this.#shareOf(name, now);
    const allowed = isFair && cost <= free;
    if (allowed) {
      this.#leases.push({ name, units: cost, stop: now + this.#lease });
      Object.assign(own, { served: now, isServedLast: true });
    } else {
      const wanted = Math.max(this.#wantedBy(name, now), isFair ? held + cost : held);
      if (wanted > 0) Object.assign(own, { asked: now, wanted, isServedLast: false });
    }
    return { allowed, share: this.#shareOf(name, now) };
  }

  release(now: number, name: string): void {
    const at = this.#leases.findIndex((lease) => lease.name === name && lease.stop > now);
    if (at >= 0) this.#leases.splice(at, 1);
  }

  heldBy(name: string, now: number): number {
    this.#leases = this.#leases.filter(({ stop }) => stop > now);
    return this.#heldBy(name);
  }

  #heldBy(name: string): number {
    return this.#leases.reduce((sum, each) => sum + (each.name === name ? each.units : 0), 0);
  }

  /** The slots wanted since a denial in the last two seconds, unless the tenant got a slot since and returned all. */
  #wantedBy(name: string, now: number): number {
    const { asked, wanted, isServedLast } = this.#tenants.get(name)!;
    const isOver = isServedLast && this.#heldBy(name) === 0;
    return now < asked + 2000 && !isOver ? wanted : 0;
  }

  /** Gives all slots out singly: each to the tenant with the fewest slots by weight, then to the one served least recently. */
  #shareOf(name: string, now: number): number {
    const demand = new Map<string, number>();
    for (const each of this.#tenants.keys())
      demand.set(each, Math.max(this.#heldBy(each), this.#wantedBy(each, now)));
    demand.set(name, Infinity);
    const given = new Map<string, number>();
    for (let slot = 0; slot < this.#limit; slot++) {
      const next = [...demand]
        .filter(([each, most]) => (given.get(each) ?? 0) < most)
        .map(([each]) => ({ each, slots: (given.get(each) ?? 0) + 1, ...this.#tenants.get(each)! }))
        .sort(
          (a, b) =>
            a.slots * b.weight - b.slots * a.weight ||
            a.served - b.served ||
            this.#order.indexOf(a.each) - this.#order.indexOf(b.each),
        )[0]!;
      given.set(next.each, next.slots);
    }
    return given.get(name) ?? 0;
  }
}
