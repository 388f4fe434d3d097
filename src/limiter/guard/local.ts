import { compilePolicies, orUnlimited, policyWith } from '../../contract/compile-policies.js';
import type { Policy } from '../../contract/policy.js';
import { visiblePolicies } from '../../features/shares/contract/shares.js';
import { memoryStore } from '../../stores/memory/memory.js';
import type { ChangeReply, Reply } from '../../contract/reply.js';
import type {
  ChargeChange,
  LeaseChange,
  MaybePromise,
  PolicySet,
  Query,
  Store,
  Subject,
} from '../../contract/store.js';
import { variant } from '../../contract/variant.js';
import type { Circuit } from './circuit.js';

/** The substitute of each store that is down. Limiters with the same name share their quota here, too. */
const stores = new WeakMap<Store, Store>();

/** Decides in this process instead of a store, with a share of each limit. */
export class Local {
  readonly #of: Store;
  readonly #set: (set: PolicySet) => PolicySet;

  constructor(of: Store, share: number) {
    this.#of = of;
    this.#set = (set) => variant(set, 'local', () => localFields(set, share), share);
  }

  /** @param failing the circuit of the failing server. Absent if the process was late, or may not ask */
  decide(query: Query, failing: Circuit | undefined): Reply {
    const subject = { ...query, set: this.#set(query.set) };
    const reply = this.#store.decide(subject) as Reply;
    // Operators cannot end a ban that only this process knows, so it ends with the failure.
    if (reply.ban < 0) {
      const end = (): void => this.forgive(query);
      if (failing) failing.afterwards(end);
      else end();
    }
    return { ...reply, degraded: 'local' };
  }

  /** Ends the ban of a key here, as an `unban` in the store does. */
  forgive({ set, key }: Subject): void {
    void stores.get(this.#of)?.ban({ set: this.#set(set), key }, 0, undefined, false);
  }

  reset({ set, key }: Subject): void {
    void stores.get(this.#of)?.reset({ set: this.#set(set), key }, false);
  }

  adjust(change: ChargeChange): MaybePromise<ChangeReply> {
    return this.#store.adjust({ ...change, set: this.#set(change.set) });
  }

  lease(change: LeaseChange): MaybePromise<boolean> {
    return this.#store.lease({ ...change, set: this.#set(change.set) });
  }

  keysOf(name: string): number {
    return stores.get(this.#of)?.keysOf?.(name) ?? 0;
  }

  get #store(): Store {
    let store = stores.get(this.#of);
    if (!store) stores.set(this.#of, (store = memoryStore()));
    return store;
  }
}

/** The fields of a set with this process' share of each limit, at least 1, because otherwise nothing would be admitted. */
function localFields(set: PolicySet, share: number): Partial<PolicySet> {
  const scale = (units: number): number => Math.max(1, Math.floor(units * share));
  // No other process waits for the substitute.
  const own = visiblePolicies(set.policies).filter(({ kernel }) => kernel !== 'line');
  const policies = own.map(({ name, source }): Policy => {
    const burst = 'burst' in source && source.burst !== undefined ? { burst: scale(source.burst) } : {};
    return { ...source, ...burst, name, limit: scale(source.limit) };
  });
  // A waiting request is not an attempt: see `patient`.
  const compiled = compilePolicies('policies', orUnlimited(policies)).map((policy, i) => {
    // Every process has a substitute, and a threshold is reported once.
    return policyWith(policy, { attempts: own[i]?.attempts ?? false, thresholds: undefined });
  });
  // The substitute has no override records, so the overrides known now decide.
  return { policies: compiled, overrides: undefined, freshBans: undefined, isInLine: false, scaledFrom: set };
}
