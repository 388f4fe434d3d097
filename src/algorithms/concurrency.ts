import { exactMilliseconds, toText, type Duration } from '../common/duration.js';
import { List, type Link } from '../common/list.js';
import { checkInteger } from '../common/validate.js';
import {
  SlotColumn,
  type LeasedSlots,
  type Adjustment,
  type AlgorithmDefinition,
  type PolicyBase,
  type Saved,
} from './algorithm.js';

/** At most `limit` units at a time, each held until it is released or its lease ends. `limit` up to 100,000. */
export interface ConcurrencyPolicy extends PolicyBase {
  /** Limits how many units are held at a time, not how often. Over HTTP, a request holds its slot until the response has ended. */
  algorithm: 'concurrency';
  /** Slots: the units held at a time, 1 to 100,000. */
  limit: number;
  /** The time until the slot of a dead process is free again: ms, or `'30s'`, `'5m'`. */
  lease: Duration;
  /**
   * The dimension among whose keys the slots are shared fairly, such as `'tenant'`. See https://github.com/headgate/headgate/blob/main/docs/fair-shares.md. A lone tenant may hold all of
   * up to 1,000 slots, and a slot that comes back goes to the tenant with the fewest slots by weight. @default the slots are not shared
   */
  share?: string | undefined;
  /** The weight of a request's tenant in `share`, 1 to 1,000, unless the request has its own. @default 1 */
  weight?: number | undefined;
}

type ConcurrencyParams = {
  readonly limit: number;
  readonly lease: number;
};

interface Lease {
  readonly id: string;
  readonly units: number;
  stop: number;
}

/** The leases of a key, ordered by their ends. All leases are equally long, so the lease taken or renewed last is the last in order. */
class Leases extends List<Lease> {
  readonly byId = new Map<string, Link<Lease>>();
  /** The units of all leases, including ended leases. */
  units = 0;

  add(id: string, units: number, stop: number): void {
    this.byId.set(id, this.insert({ id, units, stop }, this.last));
    this.units += units;
  }

  override remove(link: Link<Lease>): void {
    super.remove(link);
    this.byId.delete(link.value.id);
    this.units -= link.value.units;
  }
}

/** Units held at a time, each until it is released or its lease ends. */
class ConcurrencyColumn extends SlotColumn<ConcurrencyParams> {
  readonly #leases: (Leases | undefined)[];
  /** The results of `#read`: the held units, and the end of the last lease (0 if there is none). */
  #held = 0;
  #stop = 0;

  constructor(rows: number) {
    super();
    this.#leases = new Array<Leases | undefined>(rows + 1).fill(undefined);
  }

  #read(row: number, p: ConcurrencyParams, now: number): Leases | undefined {
    const leases = this.#leases[row];
    this.#held = this.#stop = 0;
    this.isStale = false;
    const last = leases?.last?.value;
    if (!leases || !last || last.stop <= now) return undefined;
    const latest = now + p.lease;
    this.isStale = last.stop > latest;
    this.#held = leases.units;
    for (let each = leases.first; each && each.value.stop <= now; each = each.after)
      this.#held -= each.value.units;
    this.#stop = Math.min(latest, last.stop);
    return leases;
  }

  look(row: number, p: ConcurrencyParams, cost: number, now: number): void {
    const { limit } = p;
    const leases = this.#read(row, p, now);
    const held = this.#held;
    this.wait = 0;
    if (cost > limit) {
      this.wait = -1;
    } else if (leases && cost > 0 && held + cost > limit) {
      // Add up the units of the leases that end first until enough units are free. The last added lease gives the wait.
      let leaving = held + cost - limit;
      let each = leases.first!;
      while ((leaving -= each.value.stop > now ? each.value.units : 0) > 0) each = each.after!;
      this.wait = Math.min(this.#stop, each.value.stop) - now;
    }
    this.remaining = held < limit ? limit - held : 0;
    this.reset = this.#stop === 0 ? 0 : this.#stop - now;
  }

  /** Lets no slot be held for longer than one lease from now. */
  override refresh(row: number, p: ConcurrencyParams, now: number): void {
    const latest = now + p.lease;
    let each = this.#leases[row]?.last;
    for (; each && each.value.stop > latest; each = each.before) each.value.stop = latest;
  }

  commit(row: number, p: ConcurrencyParams, cost: number, now: number): void {
    const leases = (this.#leases[row] ??= new Leases());
    while (leases.first && leases.first.value.stop <= now) leases.remove(leases.first);
    leases.add(this.lease, cost, now + p.lease);
    this.remaining = p.limit - this.#held - cost;
    this.reset = p.lease;
  }

  /** Changes nothing, because slots are given back by their lease. */
  adjust(row: number, p: ConcurrencyParams, { now }: Adjustment): number {
    this.look(row, p, 0, now);
    if (this.isStale) this.refresh(row, p, now);
    return 0;
  }

  release(row: number, p: ConcurrencyParams, { lease: id }: LeasedSlots, now: number): boolean {
    const leases = this.#read(row, p, now);
    if (this.isStale) this.refresh(row, p, now);
    const lease = leases?.byId.get(id);
    if (!leases || !lease || lease.value.stop <= now) return false;
    leases.remove(lease);
    return true;
  }

  renew(row: number, p: ConcurrencyParams, { lease: id }: LeasedSlots, now: number): boolean {
    const leases = this.#read(row, p, now);
    if (this.isStale) this.refresh(row, p, now);
    const lease = leases?.byId.get(id);
    if (!leases || !lease || lease.value.stop <= now) return false;
    leases.remove(lease);
    leases.add(id, lease.value.units, now + p.lease);
    return true;
  }

  hold(row: number, p: ConcurrencyParams, slots: LeasedSlots, now: number): boolean {
    if (this.renew(row, p, slots, now)) return true;
    const { lease, units } = slots;
    if (units === 0) return false;
    this.lease = lease;
    // `renew` has read the held units.
    this.commit(row, p, units, now);
    return true;
  }

  until(row: number): number {
    return this.#leases[row]?.last?.value.stop ?? 0;
  }

  clear(row: number): void {
    this.#leases[row] = undefined;
  }

  /** The leases in the order of their ends, each as name, units and end. */
  save(row: number): Saved {
    const saved: (number | string)[] = [];
    for (const { id, units, stop } of this.#leases[row] ?? []) saved.push(id, units, stop);
    return saved;
  }

  load(row: number, saved: Saved): void {
    const leases = new Leases();
    for (let i = 0; i < saved.length; i += 3) {
      const [id, units, stop] = saved.slice(i, i + 3);
      if (typeof id !== 'string' || typeof units !== 'number' || typeof stop !== 'number') return;
      leases.add(id, units, stop);
    }
    this.#leases[row] = leases;
  }

  sibling(rows: number): ConcurrencyColumn {
    return new ConcurrencyColumn(rows);
  }

  take(from: ConcurrencyColumn, theirs: number, ours: number): void {
    this.#leases[ours] = from.#leases[theirs];
  }
}

export const concurrency: AlgorithmDefinition<ConcurrencyParams, ConcurrencyPolicy> = {
  tag: 'c2',
  names: { concurrency: ['lease', 'share', 'weight'] },
  holdsSlots: true,
  luaParams: { limit: 3, lease: 5 },
  compile(what, { limit: given, lease: span }) {
    const lease = exactMilliseconds(`${what}.lease`, span);
    const limit = checkInteger(`${what}.limit`, given, 1, 1e5);
    return {
      params: { limit, lease },
      window: lease,
      shape: toText(lease),
      life: lease,
      traits: {
        capacity: limit,
        paceMs: undefined,
        slices: undefined,
        unit: 'concurrent-requests',
        nextUnitMs: undefined,
      },
    };
  },
  createColumn: (rows) => new ConcurrencyColumn(rows),
};
