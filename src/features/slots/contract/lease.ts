import type { Costs } from '../../../contract/costs.js';
import type { MaybePromise, Subject } from '../../../contract/policy-set.js';

export interface SlotQuery {
  /** A unique name for the slots of concurrency policies that the query takes. Empty for a set without concurrency policies. */
  readonly lease: string;
}

/** An action on the concurrency slots that a query took. */
export interface LeaseChange extends Subject, Costs {
  /** The `lease` of the query. */
  readonly lease: string;
  /**
   * Whether to give the slots back, or to renew the slots for another full lease. `hold` renews, too, but takes the slots of an ended lease again,
   * even beyond the limit, because the request still runs.
   */
  readonly action: 'release' | 'renew' | 'hold';
  /** The substitute behind the answer: see `Reply.degraded`. Only the guard can change its own slots. */
  readonly degraded: 'local' | 'allow' | 'deny' | undefined;
}

export interface SlotStore {
  /** Changes concurrency slots. @returns false if they were no longer held; after `hold`, if the store has no room. Nothing has then changed */
  lease(change: LeaseChange): MaybePromise<boolean>;
}
