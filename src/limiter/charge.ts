import type { Verdict } from '../common/decision.js';
import type { ChangeReply, Charged, PolicySet, Query, Reply, Store, Subject } from '../contract/store.js';
import type { Slots } from './slots.js';
import { chargedOf } from '../contract/charged.js';

/** The store methods by which a decision later changes what it charged. */
export type Account = Pick<Store, 'adjust' | 'lease'>;

/**
 * The account of a store. @param slots tracks the slots that this process holds @param wake receives each subject to which something is
 * given back
 */
export function accountOf(store: Store, slots: Slots, wake: (subject: Subject) => void): Account {
  return {
    adjust: async (change) => {
      const reply = await store.adjust(change);
      if (change.units.some((units) => units < 0)) wake(change);
      return reply;
    },
    lease: async (change) => {
      if (change.action === 'release') slots.release(change.lease);
      else slots.renew(change.lease, change.set);
      const held = await store.lease(change);
      if (change.action === 'release') wake(change);
      return held;
    },
  };
}

/** Units that one step of the store charged. */
interface Entry extends Charged {
  /** The units that were asked for, and those that each policy charged. */
  readonly asked: number;
  readonly units: readonly number[];
}

/** What an admitted request was charged. It can be changed once the request's real cost is known. */
export class Charge {
  readonly #account: Account;
  readonly #query: Query;
  readonly #reply: Reply;
  /** Per policy: 1; or 0 for a shadow that would have denied, because it charges nothing. */
  readonly #shares: readonly number[];
  #units: number;
  /** The charges of the request in order. The last one is given back first. */
  readonly #entries: Entry[];
  /** The change under way. Changes happen one after the other. */
  #changing: Promise<void> | undefined;
  #hasSlots: boolean;
  /** Whether policies that count attempts keep their charge. */
  #attemptsStay = false;

  constructor(account: Account, query: Query, reply: Reply, verdicts: readonly Verdict[]) {
    this.#account = account;
    this.#query = query;
    this.#reply = reply;
    this.#units = query.cost;
    this.#hasSlots = query.lease !== '';
    this.#shares = verdicts.map(({ allowed }) => (allowed ? 1 : 0));
    this.#entries = [entryOf(query.cost, this.#of(query.cost), reply)];
  }

  /** Units that are charged now. */
  get units(): number {
    return this.#units;
  }

  /** Changes the charge to `actual` units: charges or gives back the difference. */
  async settle(actual: number): Promise<void> {
    const units = actual - this.#units;
    if (units === 0) return;
    this.#units = actual;
    const change = () => (units > 0 ? this.#add(units) : this.#giveBack(-units));
    this.#changing = this.#changing ? this.#changing.then(change, change) : change();
    await this.#changing;
  }

  /** Gives the units back, except those of policies that count attempts. */
  withdraw(): Promise<void> {
    this.#attemptsStay = true;
    return this.settle(0);
  }

  /** Gives back the slots. Returns false if they were not held. */
  async release(): Promise<boolean> {
    if (!this.#hasSlots) return false;
    this.#hasSlots = false;
    return this.#lease('release');
  }

  /** Holds the slots for another full lease. Returns false if they were not held. */
  async renew(): Promise<boolean> {
    return this.#hasSlots && this.#lease('renew');
  }

  /** Of enforced policies if there are any: what becomes of a shadow's slots must not change what the caller is told. */
  async #lease(action: 'release' | 'renew'): Promise<boolean> {
    const { set, key, cost, lease } = this.#query;
    const { degraded } = this.#reply;
    const ask = (asked: PolicySet): Promise<boolean> =>
      Promise.resolve(this.#account.lease({ set: asked, key, cost, lease, action, degraded }));
    if (!set.policies.some(({ shadow, traits }) => shadow && traits.holdsSlots)) return ask(set);
    const taken = (wanted: boolean): PolicySet => ({
      ...set,
      policies: set.policies.filter(
        ({ shadow, traits }, i) => traits.holdsSlots && shadow === wanted && this.#shares[i] === 1,
      ),
    });
    const [enforced, shadows] = [taken(false), taken(true)];
    if (enforced.policies.length === 0) return shadows.policies.length > 0 && ask(shadows);
    const [held] = await Promise.all([ask(enforced), shadows.policies.length > 0 && ask(shadows)]);
    return held;
  }

  /** The given units for each policy; 0 for a shadow that charges nothing. */
  #of(units: number): number[] {
    return this.#shares.map((share) => share * units);
  }

  async #add(asked: number): Promise<void> {
    // Until the store answers, it is unknown what was charged. Without an answer it stays unknown.
    const at = this.#entries.push({ asked, units: this.#of(0), step: 0, marks: [] }) - 1;
    const reply = await this.#adjust(this.#of(asked), undefined);
    this.#entries[at] = entryOf(asked, reply.charged, reply);
  }

  async #giveBack(asked: number): Promise<void> {
    while (asked > 0) {
      const last = this.#entries.pop()!;
      const kept = Math.max(0, last.asked - asked);
      asked -= last.asked - kept;
      const left = last.units.map((units) => Math.min(units, kept));
      if (kept > 0) this.#entries.push({ ...last, asked: kept, units: left });
      const { policies } = this.#query.set;
      const stays = (i: number): boolean => this.#attemptsStay && policies[i]!.attempts;
      const back = last.units.map((units, i) => (stays(i) ? 0 : left[i]! - units));
      if (back.some((units) => units < 0)) await this.#adjust(back, last);
    }
  }

  async #adjust(units: readonly number[], charged: Charged | undefined): Promise<ChangeReply> {
    const { set, key } = this.#query;
    return this.#account.adjust({ set, key, units, charged, degraded: this.#reply.degraded });
  }
}

/** @param reply the store's answer to the step that charged */
function entryOf(asked: number, units: readonly number[], reply: Reply): Entry {
  return { asked, units, ...chargedOf(reply) };
}
