// Limits and slots that tenants share. The docs give no exact share, so the real verdict is the witness: it must lie in the documented bounds.
import { Timed } from './timed.js';
import type { Charge, Look, Policy, Verdict } from './types.js';

/** The time for which a tenant of shared slots wants some after a denial. */
const WANTED_MS = 2000;

/** The unknown tenant of a late charge. */
const LATE = 'late';

export class SharedCount extends Timed {
  private readonly asked = new Map<string, number>();
  /** The tenants that asked for units within the last window, and the time until then. */
  readonly demand = new Map<string, number>();

  /** The time for which a tenant that asked counts. */
  private get life(): number {
    const { window, segments = 10, algorithm } = this.policy;
    return algorithm === 'concurrency' ? window + WANTED_MS : window + (4 * window) / segments;
  }

  /** Notes that a tenant asked. */
  ask(tenant: string, now: number, units = 0): void {
    const { window, algorithm } = this.policy;
    if (units > 0 && algorithm !== 'concurrency') this.demand.set(tenant, now + window);
    this.asked.set(tenant, now + this.life);
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
    const whole = this.look(now, cost, policy);
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

  override settle(charge: Charge, now: number, units: number): number {
    // A late charge makes its tenant one of several.
    if (units > charge.units) this.ask(LATE, now);
    return super.settle(charge, now, units);
  }

  override renew(charge: Charge, now: number): boolean {
    // One of the tenants holds its slot for longer.
    for (const tenant of this.asked.keys()) this.asked.set(tenant, now + this.life);
    return super.renew(charge, now);
  }

  override hold(charge: Charge, now: number): boolean {
    // Slots that are taken again make their tenant one of several, too.
    this.ask(LATE, now);
    return super.hold(charge, now);
  }

  override forget(): void {
    super.forget();
    this.asked.clear();
    this.demand.clear();
  }
}
