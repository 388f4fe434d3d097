import type { Verdict } from './decision.js';
import type { Query, Reply, Store } from './stores/store.js';

/** Where a decision changes afterwards what it charged. */
export type Account = Pick<Store, 'adjust' | 'lease'>;

/** Units charged, and per policy when they leave the account by themselves. */
interface Entry {
  readonly units: number;
  readonly marks: readonly number[];
}

/** A mark in the past: nothing to give back. */
const GONE = 1;

/** What an admitted request was charged, and how that changes once its real cost is known. */
export class Charge {
  readonly #account: Account;
  readonly #query: Query;
  readonly #reply: Reply;
  readonly #verdicts: readonly Verdict[];
  #units: number;
  /** What it was charged on top of its cost, latest last; each is given back where it was charged. */
  readonly #extras: Entry[] = [];
  /** Changes go one after the other. */
  #changing: Promise<void> | undefined;
  #held: boolean;

  constructor(account: Account, query: Query, reply: Reply, verdicts: readonly Verdict[]) {
    this.#account = account;
    this.#query = query;
    this.#reply = reply;
    this.#verdicts = verdicts;
    this.#units = query.cost;
    this.#held = query.lease !== '';
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

  async #add(units: number): Promise<void> {
    // Until its answer is there, or if there is none, nobody knows what was charged where.
    const at = this.#extras.push({ units, marks: this.#verdicts.map(() => GONE) }) - 1;
    const { now, verdicts } = await this.#adjust(units, undefined);
    // How much of a charge that drained the quota was carried as debt is not known either.
    const marks = this.#verdicts.map((_, i) =>
      verdicts[3 * i + 1]! > 0 ? now + verdicts[3 * i + 2]! : GONE,
    );
    this.#extras[at] = { units, marks };
  }

  async #giveBack(units: number): Promise<void> {
    while (units > 0) {
      const extra = this.#extras.pop();
      const back = extra ? Math.min(units, extra.units) : units;
      if (extra && extra.units > back) this.#extras.push({ ...extra, units: extra.units - back });
      units -= back;
      const marks = extra?.marks ?? this.#marks();
      if (marks.some((mark) => mark !== GONE)) await this.#adjust(-back, marks);
    }
  }

  async #adjust(units: number, marks: readonly number[] | undefined): Promise<Reply> {
    const { set, key } = this.#query;
    return this.#account.adjust({ set, key, units, marks, degraded: this.#reply.degraded });
  }

  /** When each policy's charge leaves the account by itself; a policy that charged nothing has nothing to give back. */
  #marks(): number[] {
    const { now } = this.#reply;
    return this.#verdicts.map(({ allowed, resetAfterMs }) => (allowed ? now + resetAfterMs : GONE));
  }
}
