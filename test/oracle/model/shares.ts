// Limits and slots that tenants share. The docs give no exact share, so the real verdict is the witness: it must lie in the documented bounds.
import type { Timed } from './timed.js';
import type { Charge, Count, Look, Policy, Verdict } from './types.js';

/** The time for which a tenant of shared slots wants some after a denial. */
const WANTED_MS = 2000;

/** The unknown tenant of a late charge. */
const LATE = 'late';

export class SharedCount implements Count {
  private readonly asked = new Map<string, number>();
  /** The tenants that asked for units within the last window, and the time until then. */
  readonly demand = new Map<string, number>();
  private lease = 0;
  private readonly whole: Timed;
  constructor(whole: Timed) {
    this.whole = whole;
  }

  /** Notes that a tenant asked. @param until the time at which it counts no more */
  ask(tenant: string, now: number, { window, segments = 10, algorithm }: Policy, units = 0): void {
    if (units > 0 && algorithm !== 'concurrency') this.demand.set(tenant, now + window);
    const life = algorithm === 'concurrency' ? window + WANTED_MS : window + (4 * window) / segments;
    this.asked.set(tenant, now + life);
    this.lease = life;
  }

  isLone(tenant: string, now: number): boolean {
    return [...this.asked].every(([other, until]) => other === tenant || until < now);
  }

  /**
   * The answer to a tenant, as the real one if that may be right.
   *
   * @param witness `verdict`, the real one; `isTimeOpen`, whether an override ends, so that the docs leave the wait open
   */
  lookAs(
    tenant: string,
    now: number,
    cost: number,
    policy: Policy,
    { verdict: real, isTimeOpen }: { readonly verdict: Verdict | undefined; readonly isTimeOpen: boolean },
  ): Look & { share: number } {
    const whole = this.whole.look(now, cost, policy);
    const share = policy.limit;
    if (!real || (cost === 0 && !real.allowed)) return { ...whole, share };
    const isAlone = this.isLone(tenant, now);
    const wait = real.retryAfterMs ?? Infinity;
    const mayDeny = !isAlone || whole.wait > 0;
    const isRight =
      (real.allowed ? whole.wait === 0 : mayDeny && (isTimeOpen || wait >= whole.wait) && wait > 0) &&
      (real.share ?? -1) >= 0 &&
      (real.share ?? Infinity) <= policy.limit &&
      real.remaining >= 0 &&
      real.remaining <= whole.remaining &&
      (!isAlone || real.share === policy.limit);
    if (!isRight || isAlone) return { ...whole, share };
    return {
      wait: real.allowed ? 0 : wait,
      remaining: real.remaining,
      reset: whole.reset,
      delay: 0,
      isOpen: real.share !== policy.limit,
      share: real.share!,
    };
  }

  look(now: number, cost: number, policy: Policy): Look {
    return this.whole.look(now, cost, policy);
  }
  charge(now: number, units: number, policy: Policy): Charge {
    return this.whole.charge(now, units, policy, this);
  }
  settle(charge: Charge, now: number, units: number, policy: Policy): number {
    // A late charge makes its tenant one of several.
    if (units > charge.units) this.ask(LATE, now, policy);
    return this.whole.settle(charge, now, units, policy);
  }
  giveBack(now: number, units: number): void {
    this.whole.giveBack(now, units);
  }
  release(charge: Charge, now: number): boolean {
    return (this.whole as Count).release?.(charge, now) ?? false;
  }
  renew(charge: Charge, now: number): boolean {
    // One of the tenants holds its slot for longer.
    for (const tenant of this.asked.keys()) this.asked.set(tenant, now + this.lease);
    return (this.whole as Count).renew?.(charge, now) ?? false;
  }
  forget(): void {
    this.whole.forget();
    this.asked.clear();
    this.demand.clear();
  }
}
