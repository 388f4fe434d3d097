import { costAt, costsOfPart } from '../../contract/costs.js';
import type { LeaseChange, Query, Store } from '../../contract/store.js';
import { variant } from '../../contract/variant.js';

/** The slots of an admitted request, until they are released. */
export class SlotLease {
  readonly #store: Pick<Store, 'lease'>;
  readonly #query: Query;
  readonly #degraded: LeaseChange['degraded'];
  /** Whether the request was charged to the i-th policy. */
  readonly #isCharged: (i: number) => boolean;
  #isHeld: boolean;
  #releasing: Promise<boolean> | undefined;
  /** The last call of `hold`. A release comes after the end, so that released slots are not taken again. */
  #holding: Promise<boolean> | undefined;

  constructor(
    store: Pick<Store, 'lease'>,
    query: Query,
    degraded: LeaseChange['degraded'],
    isCharged: (i: number) => boolean,
  ) {
    this.#store = store;
    this.#query = query;
    this.#degraded = degraded;
    this.#isCharged = isCharged;
    this.#isHeld = query.lease !== '';
  }

  /** Gives the slots back. @returns false if they were not held */
  async release(): Promise<boolean> {
    if (this.#isHeld) {
      this.#isHeld = false;
      this.#releasing = this.#releaseNow();
    }
    return this.#releasing ?? false;
  }

  async #releaseNow(): Promise<boolean> {
    try {
      if (this.#holding) await Promise.allSettled([this.#holding]);
      return await this.#change('release');
    } catch (error) {
      // A second release does no harm, even if the first one took effect.
      this.#isHeld = true;
      throw error;
    } finally {
      this.#releasing = undefined;
    }
  }

  /** Holds the slots for another full lease. @returns false if they were not held */
  async renew(): Promise<boolean> {
    return this.#isHeld && this.#change('renew');
  }

  /** Like `renew`, but takes the slots of an ended lease again, even beyond the limit. @returns false if the slots are not held */
  async hold(): Promise<boolean> {
    if (!this.#isHeld) return false;
    this.#holding = this.#change('hold');
    return this.#holding;
  }

  /** Reports the slots of enforced policies if there are any, because the slots of a shadow must not change the caller's result. */
  async #change(action: LeaseChange['action']): Promise<boolean> {
    const { set, key, cost, costs, lease } = this.#query;
    const change = { set, key, cost, costs, lease, action, degraded: this.#degraded };
    const isPlain = !set.policies.some(
      ({ shadow, traits }, i) => traits.holdsSlots && (shadow || !this.#isCharged(i)),
    );
    if (isPlain && costs === undefined) return this.#store.lease(change);
    const ask = async (wanted: boolean): Promise<boolean | undefined> => {
      const at = [...set.policies.keys()].filter((i) => {
        const { shadow, traits } = set.policies[i]!;
        const isTaken = this.#isCharged(i) && costAt(this.#query, i) > 0;
        return traits.holdsSlots && shadow === wanted && isTaken;
      });
      if (at.length === 0) return undefined;
      const some = variant(set, 'slots', () => ({ policies: at.map((i) => set.policies[i]!) }), at.join());
      return this.#store.lease({ ...change, ...costsOfPart(change, at), set: some });
    };
    const [enforced, shadows] = await Promise.all([ask(false), ask(true)]);
    return enforced ?? shadows ?? false;
  }
}
