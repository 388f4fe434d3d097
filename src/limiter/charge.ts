import { randomBytes } from 'node:crypto';
import type { Verdict } from '../common/decision.js';
import { costAt, type Cost } from '../contract/costs.js';
import { sharedOf } from '../features/shares/contract/shares.js';
import { chargedOf, type ChangeReply, type Charged, type Reply } from '../contract/reply.js';
import {
  newCall,
  type Claim,
  type PolicySet,
  type Query,
  type Store,
  type Subject,
} from '../contract/store.js';
import { keepsAttempts } from '../features/attempts/attempts.js';
import type { CompiledPolicy } from '../contract/policy.js';
import type { ProcessSlots } from '../features/slots/process-slots.js';
import { SlotLease } from '../features/slots/slot-lease.js';
import { coded, hasDoneNothing } from '../stores/store-error.js';

/** The store methods through which a decision later changes its charge. */
export interface Account extends Pick<Store, 'adjust' | 'lease'> {
  /** @throws HeadgateError `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY` */
  checkCost(cost: unknown, set: PolicySet): Cost;
  /** Receives each subject after a return of units or slots. */
  wake(subject: Subject): void;
}

interface AccountParts extends Pick<Account, 'checkCost' | 'wake'> {
  readonly store: Store;
  readonly slots: ProcessSlots;
  /** Returns the set by which a charge by another set is changed now. */
  readonly setOf: (set: PolicySet) => PolicySet;
}

export function accountOf({ store, slots, wake, checkCost, setOf }: AccountParts): Account {
  return {
    checkCost,
    wake,
    adjust: async (change) => store.adjust({ ...change, set: setOf(change.set) }),
    lease: async (change) => {
      const held = await slots.change(store, change);
      if (change.action === 'release') wake(change);
      return held;
    },
  };
}

const isSome = (units: number): boolean => units > 0;

/** The units of a charge, in one step of the store. */
interface Entry extends Charged {
  /** For each policy, the requested and the charged units. */
  readonly asked: readonly number[];
  readonly units: readonly number[];
}

/** The charge of an admitted request, which can be changed once the request's real cost is known. */
export class Charge {
  readonly #account: Account;
  readonly #query: Query;
  readonly #reply: Reply;
  /** For each policy 1, or 0 if nothing was charged: after a shadow's denial, or without room for the policy's key in the store. */
  readonly #shares: readonly number[];
  /** The units after the changes under way. */
  #units: readonly number[];
  /** The charges of the request in order. The last charge is given back first. */
  #entries: readonly Entry[];
  /** The change under way. The next change waits for its end. */
  #changing: Promise<void> | undefined;
  readonly slots: SlotLease;
  /** The name of the decision in the record of the request's id. */
  #owner: string | undefined;
  /** Whether policies that count attempts keep their charge. */
  #attemptsStay = false;

  constructor(account: Account, query: Query, reply: Reply, verdicts: readonly Verdict[]) {
    this.#account = account;
    this.#query = query;
    this.#reply = reply;
    // Every charge takes time to end, so a key without a reset time has no charge.
    const hasRoom = ({ resetAfterMs }: Verdict): boolean => reply.full === undefined || resetAfterMs > 0;
    const shares = verdicts.map((verdict) => (verdict.allowed && hasRoom(verdict) ? 1 : 0));
    // The verdicts on hidden policies have a meaning of their own, and their charge is that of the shared limit.
    for (const { policy, pool, tenant } of sharedOf(query.set))
      shares[pool] = shares[tenant] = shares[policy]!;
    this.#shares = shares;
    this.slots = new SlotLease(account, query, reply.degraded, (i) => shares[i] === 1);
    this.#units = this.#of(query.set.policies.map((_, i) => costAt(query, i)));
    this.#entries = [entryOf(this.#units, this.#units, reply)];
  }

  get units(): readonly number[] {
    return this.#units;
  }

  /**
   * Changes the charge to `actual`: charges or gives back the difference. Unnamed policies keep their charge.
   *
   * @param isAutomatic see `Claim`
   */
  async settle(actual: Cost, isAutomatic = false): Promise<void> {
    const units = this.#wanted(actual, this.#units);
    // The units of an earlier call may still be on their way.
    if (units.every((own, i) => own === this.#units[i])) return this.#changing;
    this.#units = units;
    const change = (): Promise<void> => this.#change(actual, isAutomatic);
    const changing = (this.#changing = this.#changing ? this.#changing.then(change, change) : change());
    try {
      await changing;
    } finally {
      if (this.#changing === changing) {
        this.#changing = undefined;
        this.#units = this.#asked();
      }
    }
  }

  /** Gives the units back, except for policies that count attempts. */
  withdraw(): Promise<void> {
    this.#attemptsStay = true;
    return this.settle(0, true);
  }

  /** The given units, or 0 for a policy that charges nothing. */
  #of(units: readonly number[]): number[] {
    return this.#shares.map((share, i) => share * units[i]!);
  }

  /** @param before the units of policies that `actual` does not name */
  #wanted(actual: Cost, before: readonly number[]): number[] {
    const named = ({ name }: CompiledPolicy, i: number): number => {
      if (typeof actual === 'number') return actual;
      return Object.hasOwn(actual, name) ? actual[name]! : before[i]!;
    };
    return this.#of(this.#query.set.policies.map(named));
  }

  /** The units requested so far, without changes that certainly failed. */
  #asked(): number[] {
    return this.#shares.map((_, i) => this.#entries.reduce((sum, { asked }) => sum + asked[i]!, 0));
  }

  async #change(actual: Cost, isAutomatic: boolean): Promise<void> {
    const before = this.#asked();
    const units = this.#wanted(actual, before);
    const less = units.map((own, i) => Math.max(0, before[i]! - own));
    const more = units.map((own, i) => Math.max(0, own - before[i]!));
    try {
      if (less.some(isSome)) await this.#giveBack(less, isAutomatic);
      if (more.some(isSome)) await this.#add(more);
    } finally {
      // Only after the last step, so that a waiting request is decided by the whole change.
      if (less.some(isSome)) this.#account.wake(this.#query);
    }
  }

  async #add(asked: readonly number[]): Promise<void> {
    const before = this.#entries;
    // Until the store answers, the charge is not known.
    this.#entries = [...before, { asked, units: asked.map(() => 0), step: 0, marks: [] }];
    const reply = await this.#adjust(asked, undefined, { before, isAutomatic: false });
    this.#entries = [...before, entryOf(asked, reply.charged, reply)];
  }

  async #giveBack(asked: readonly number[], isAutomatic: boolean): Promise<void> {
    let rest = asked;
    for (let at = this.#entries.length - 1; rest.some(isSome); at--) {
      const before = this.#entries;
      const last = before[at]!;
      const kept = last.asked.map((units, i) => Math.max(0, units - rest[i]!));
      rest = rest.map((units, i) => units - (last.asked[i]! - kept[i]!));
      const left = last.units.map((units, i) => Math.min(units, kept[i]!));
      const entry = kept.some(isSome) ? [{ ...last, asked: kept, units: left }] : [];
      this.#entries = [...before.slice(0, at), ...entry, ...before.slice(at + 1)];
      const { policies } = this.#query.set;
      const stays = (i: number): boolean => this.#attemptsStay && keepsAttempts(policies[i]!);
      const back = last.units.map((units, i) => (stays(i) ? 0 : left[i]! - units));
      if (back.some((units) => units < 0)) await this.#adjust(back, last, { before, isAutomatic });
    }
  }

  /** @param before the charges to which an error returns that excludes a change. After any other error, a repetition could change twice */
  async #adjust(
    units: readonly number[],
    charged: Charged | undefined,
    { before, isAutomatic }: { readonly before: readonly Entry[]; readonly isAutomatic: boolean },
  ): Promise<ChangeReply> {
    const { set, key, id, idHome } = this.#query;
    const claim = id === undefined ? undefined : this.#claim(id, isAutomatic);
    const call = newCall();
    const change = { set, key, units, charged, claim, idHome, degraded: this.#reply.degraded };
    try {
      // The guard may send a refund again later, each time with another call.
      return await this.#account.adjust(charged ? change : { ...change, call });
    } catch (error) {
      if (hasDoneNothing(coded(error), call)) this.#entries = before;
      throw error;
    }
  }

  #claim(id: string, isAutomatic: boolean): Claim {
    this.#owner ??= randomBytes(4).toString('base64url').slice(0, 5);
    const { step, repeated } = this.#reply;
    const isLast = !this.#units.some(isSome);
    return { id, step, owner: this.#owner, isFirst: !repeated, isLast, isAutomatic };
  }
}

/** @param reply the store's answer to the charge */
function entryOf(asked: readonly number[], units: readonly number[], reply: Reply): Entry {
  return { asked, units, ...chargedOf(reply) };
}
