import {
  SlotSharing,
  type SlotSharesColumn,
  type SlotSharesParams,
  type Tenant,
} from '../../algorithms/shares/slot-shares.js';
import type { SharesColumn } from '../../algorithms/shares/shares.js';
import { resetOfPool, Sharing, type SharesParams } from '../../algorithms/shares/sharing.js';
import { costAt } from '../../contract/costs.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { sharedOf, type SharedPolicy } from './contract/shares.js';
import type { ChargeChange, Query } from '../../contract/store.js';
import { admits, NEVER, nextWait } from '../../contract/verdicts.js';
import type { MemoryColumn } from '../../algorithms/index.js';
import type { Place } from '../feature.js';
import { leaseTag } from './shares.js';

/** A policy of a set with its state. */
class Spot {
  readonly place: Place;
  readonly #i: number;

  constructor(places: readonly Place[], n: number) {
    this.place = places.find(({ part }) => part.at.includes(n))!;
    this.#i = this.place.part.at.indexOf(n);
  }

  get policy(): CompiledPolicy {
    return this.place.policies[this.#i]!;
  }

  get column(): MemoryColumn {
    return this.place.columns[this.#i]!;
  }

  get row(): number {
    return this.place.row;
  }
}

/** A shared policy of a set, with the states of the limit, the pool and the tenant. */
class Shared {
  readonly limit: Spot;
  readonly pool: Spot;
  readonly tenant: Spot;

  constructor(places: readonly Place[], { policy, pool, tenant }: SharedPolicy) {
    this.limit = new Spot(places, policy);
    this.pool = new Spot(places, pool);
    this.tenant = new Spot(places, tenant);
  }

  get ofSlots(): boolean {
    return this.limit.policy.traits.holdsSlots;
  }

  slotSharing(query: Asked, now: number): SlotSharing {
    const { limit, pool, tenant } = this;
    const params = tenant.policy.params as SlotSharesParams;
    const tenants = (pool.column as SlotSharesColumn).tenants(pool.row);
    return new SlotSharing(params, {
      limit: limit.policy.params['limit']!,
      weight: query.weight ?? params.weight,
      tag: leaseTag(query).slice(1),
      tenants,
      leases: limit.column.save(limit.row),
      now,
    });
  }

  sharing(now: number, step: number, weight: number | undefined, isChange = false): Sharing {
    const { limit, pool, tenant } = this;
    const params = tenant.policy.params as SharesParams;
    const poolState = (pool.column as SharesColumn).state(pool.row, now);
    return new Sharing(params, {
      limit: limit.policy.params['limit']!,
      weight: weight ?? params.weight,
      pool: poolState,
      tenant: (tenant.column as SharesColumn).state(tenant.row, now),
      now,
      reset: limit.column.reset || (isChange ? resetOfPool(params, poolState, now) : 0),
      step,
    });
  }

  /** Keeps the tenants that share slots, if they have changed. */
  keep(tenants: readonly Tenant[] | undefined, now: number): void {
    const { place, row } = this.pool;
    if (!tenants) return;
    if (row === 0) place.create(now, false);
    if (this.pool.row !== 0) (this.pool.column as SlotSharesColumn).write(this.pool.row, tenants);
  }

  write(sharing: Sharing, now: number): void {
    for (const { place } of [this.pool, this.tenant]) if (place.row === 0) place.create(now, false);
    const { pool, tenant } = this;
    if (pool.row === 0 || tenant.row === 0) return;
    (pool.column as SharesColumn).write(pool.row, sharing.pool);
    (tenant.column as SharesColumn).write(tenant.row, sharing.tenant);
  }
}

/** The part of a query that shares depend on. */
type Asked = Pick<Query, 'set' | 'key' | 'cost' | 'costs' | 'weight' | 'peek'>;

/** The shares of a request in the shared policies of its set. The steps are those of `steps.lua`: look, then record and report. */
export class Shares {
  readonly #query: Asked;
  readonly #now: number;
  readonly #all: readonly {
    shared: Shared;
    sharing: Sharing | SlotSharing;
    cost: number;
    wait: number;
    isFair: boolean;
  }[];
  /** The other policies that can deny the request. */
  readonly #others: readonly Spot[];
  /** Whether one of them denies, so that the request is not part of a tenant's demand. */
  readonly #isDeniedElsewhere: boolean;
  /** Whether it is only the turn of another process, which waits for the same tenant. */
  readonly #isOutOfTurn: boolean;
  /** Whether further requests of the tenant wait. */
  readonly #waits: boolean;
  readonly admitted: boolean;

  /** Looks at the shares, after a look at all policies. A limit does not admit a tenant beyond its share. */
  constructor(places: readonly Place[], query: Asked, now: number, step: number) {
    this.#query = query;
    this.#now = now;
    const shared = sharedOf(query.set);
    this.#others = query.set.policies.flatMap(({ share, isHidden, shadow }, n) =>
      share !== undefined || isHidden || shadow ? [] : [new Spot(places, n)],
    );
    const denying = this.#others.filter(({ column }) => !admits(column.wait));
    this.#isDeniedElsewhere = denying.some(({ policy }) => policy.kernel !== 'line');
    this.#isOutOfTurn = denying.length > 0 && !this.#isDeniedElsewhere;
    this.#waits = query.set.policies.some(({ kernel, params }) => kernel === 'line' && params['waits'] === 1);
    this.#all = shared.map((each) => {
      const made = new Shared(places, each);
      const sharing = made.ofSlots ? made.slotSharing(query, now) : made.sharing(now, step, query.weight);
      const { wait, remaining } = made.limit.column;
      const cost = costAt(query, each.policy);
      const isFair = sharing.look(cost, remaining);
      return { shared: made, sharing, cost, wait, isFair };
    });
    this.admitted = this.#all.every(({ shared, isFair }) => isFair || shared.limit.policy.shadow);
    this.deny();
  }

  /** Lets the limits deny tenants beyond their share. A look at a limit, as for a new place of its key, forgets it. */
  deny(): void {
    for (const { shared, isFair } of this.#all) if (!isFair) shared.limit.column.wait ||= 1;
  }

  /** Records the request, unless it only looks, and writes the verdicts. */
  report(admitted: boolean): void {
    const elsewhere = this.#waitElsewhere();
    for (const each of this.#all) {
      const { shared, cost, isFair, wait } = each;
      const { limit, pool, tenant } = shared;
      const { remaining, reset } = limit.column;
      const isDenied = !isFair || !admits(wait);
      const isCharged = admitted && !isDenied;
      const now = this.#now;
      const { sharing } = each;
      if (!this.#query.peek && cost > 0 && wait !== NEVER) {
        const isDemand = isDenied || (shared.ofSlots && this.#isOutOfTurn);
        const isNoted = isCharged || (isDemand && !this.#isDeniedElsewhere);
        if (sharing instanceof SlotSharing) {
          if (isNoted) shared.keep(sharing.note(cost, isCharged, this.#waits), now);
          else if (this.#isDeniedElsewhere) shared.keep(sharing.withdraw(), now);
        } else if (isNoted) {
          sharing.note(cost, isCharged);
          shared.write(sharing, now);
        }
      }
      const own = sharing.remaining(remaining);
      const share = Math.floor(sharing.share);
      const remainingAt = (time: number): number => {
        limit.column.look(limit.row, limit.policy.params, 0, time);
        return limit.column.remaining;
      };
      // A limit that is too small until it changes has the wait that `report` of a feature sets.
      const whole = wait === NEVER ? limit.column.wait : wait;
      const later = isDenied && wait !== NEVER ? sharing.wait(cost, wait, remainingAt) : whole;
      // A share of a window may shrink before the other policies admit. The hidden verdict has the time at which the share admits again.
      const isLonger = !shared.ofSlots && cost > 0 && wait !== NEVER && elsewhere > later;
      const again = isLonger ? sharing.wait(cost, elsewhere, remainingAt) : later;
      if (isDenied && tenant.row !== 0) tenant.place.deny(now + reset);
      set(limit.column, later, own, reset);
      set(tenant.column, again, own, reset);
      set(pool.column, wait === 0 ? later : 0, share, reset);
    }
  }

  /** The time until the other policies admit, with the attempt that the request was charged; or 0 if a policy never does. */
  #waitElsewhere(): number {
    const waits = this.#others.map(({ column, policy }) => nextWait(column.wait, policy.attempts));
    return waits.includes(NEVER) ? 0 : Math.max(0, ...waits);
  }
}

function set(column: MemoryColumn, wait: number, remaining: number, reset: number): void {
  column.wait = wait;
  column.remaining = remaining;
  column.reset = reset;
}

/** Changes the tenants' part of a charge, after the change of the limits. */
export function adjustShares(
  places: readonly Place[],
  { set: { policies }, set: whole, units, charged, key }: ChargeChange,
  now: number,
  step: number,
): void {
  for (const each of sharedOf(whole)) {
    const shared = new Shared(places, each);
    const { limit, tenant, pool } = shared;
    const amount = units[each.policy]!;
    const { part, histories } = limit.place;
    const of = amount < 0 ? charged : undefined;
    const history = of && histories.find(policies[each.policy]!.id, part.keyOf(key));
    const isReset = history?.isReset(of!.steps?.[each.policy] ?? of!.step) ?? false;
    const { remaining, reset } = limit.column;
    if (shared.ofSlots) {
      // A change leaves slots as they are.
      set(tenant.column, 0, remaining, reset);
      set(pool.column, 0, limit.policy.params['limit']!, reset);
      continue;
    }
    const sharing = shared.sharing(now, step, undefined, true);
    if (amount !== 0 && !isReset) {
      sharing.adjust(amount, of?.marks[each.policy]);
      shared.write(sharing, now);
    }
    const own = sharing.remaining(remaining);
    set(limit.column, 0, own, reset);
    set(tenant.column, 0, own, reset);
    set(pool.column, 0, Math.floor(sharing.share), reset);
  }
}
