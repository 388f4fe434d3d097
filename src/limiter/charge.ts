import type { Verdict } from '../common/decision.js';
import type { ChangeReply, Charged, Query, Reply, Store, Subject } from '../contract/store.js';
import type { Slots } from './slots.js';
import { chargedOf } from '../contract/charged.js';

/** Where a decision changes afterwards what it charged. */
export type Account = Pick<Store, 'adjust' | 'lease'>;

/** Of a store. @param slots knows what this process holds @param wake is told of each key that something is given back to */
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

/** Units that were charged by one step of the store. */
interface Entry extends Charged {
  /** What was asked for, and what each policy charged of it. */
  readonly asked: number;
  readonly units: readonly number[];
}

/** What an admitted request was charged, and how that changes once its real cost is known. */
export class Charge {
  readonly #account: Account;
  readonly #query: Query;
  readonly #reply: Reply;
  /** Per policy: 1, or 0 of a shadow that would have denied, which charges nothing. */
  readonly #shares: readonly number[];
  #units: number;
  /** What the request was charged, first to last; what is given back is the last. */
  readonly #entries: Entry[];
  /** Changes go one after the other. */
  #changing: Promise<void> | undefined;
  #held: boolean;
  /** Whether what counts attempts stays charged. */
  #attemptsStay = false;

  constructor(account: Account, query: Query, reply: Reply, verdicts: readonly Verdict[]) {
    this.#account = account;
    this.#query = query;
    this.#reply = reply;
    this.#units = query.cost;
    this.#held = query.lease !== '';
    this.#shares = verdicts.map(({ allowed }) => (allowed ? 1 : 0));
    this.#entries = [entryOf(query.cost, this.#of(query.cost), reply)];
  }

  /** Units that are charged now. */
  get units(): number {
    return this.#units;
  }

  /** Makes it `actual` units: gives back or charges the difference. */
  async settle(actual: number): Promise<void> {
    const units = actual - this.#units;
    if (units === 0) return;
    this.#units = actual;
    const change = () => (units > 0 ? this.#add(units) : this.#giveBack(-units));
    this.#changing = this.#changing ? this.#changing.then(change, change) : change();
    await this.#changing;
  }

  /** Gives the units back, but those of policies that count attempts. */
  withdraw(): Promise<void> {
    this.#attemptsStay = true;
    return this.settle(0);
  }

  /** Gives back the slots; false if they were not held. */
  async release(): Promise<boolean> {
    if (!this.#held) return false;
    this.#held = false;
    return this.#lease('release');
  }

  /** Holds the slots for another full lease; false if they were not held. */
  async renew(): Promise<boolean> {
    return this.#held && this.#lease('renew');
  }

  async #lease(action: 'release' | 'renew'): Promise<boolean> {
    const { set, key, cost, lease } = this.#query;
    return this.#account.lease({ set, key, cost, lease, action, degraded: this.#reply.degraded });
  }

  /** So many units, per policy. */
  #of(units: number): number[] {
    return this.#shares.map((share) => share * units);
  }

  async #add(asked: number): Promise<void> {
    // Until its answer is there, or if there is none, nobody knows what was charged.
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

/** @param reply of the step that charged */
function entryOf(asked: number, units: readonly number[], reply: Reply): Entry {
  return { asked, units, ...chargedOf(reply) };
}
