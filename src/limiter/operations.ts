import { checkShape } from '../common/validate.js';
import { costAt, type Cost } from '../contract/costs.js';
import { publishChange } from '../contract/diagnostics.js';
import type { Key } from '../contract/key.js';
import { isNothing, type PolicySet, type Store, type Subject } from '../contract/store.js';
import type { Account } from './charge.js';
import type { Lifetime } from './lifetime.js';
import type { LiveLimits } from './live-limits.js';
import type { TierOption } from './options.js';
import type { Scope } from './scope.js';
import type { CheckedOptions } from './checked-options.js';
import type { Tiers } from './tiers.js';
import { askUsage, NO_USAGE, usageOf, type Usage } from './usage.js';
import { wake } from './waiting/wake-ups.js';

/** The changes by operators: refunds and resets, and usage. The methods of `Limiter` with the same names explain the changes. */
export class Operations {
  readonly #set: PolicySet;
  readonly #tiers: Tiers;
  readonly #scope: Scope;
  readonly #store: Store;
  readonly #live: LiveLimits | undefined;
  readonly #account: Account;
  readonly #life: Lifetime;

  constructor({ set, tiers, scope, store, live }: CheckedOptions, account: Account, life: Lifetime) {
    this.#set = set;
    this.#tiers = tiers;
    this.#scope = scope;
    this.#store = store;
    this.#live = live;
    this.#account = account;
    this.#life = life;
  }

  async refund(key: Key, cost: Cost, options: TierOption): Promise<void> {
    checkShape('options', options, ['tier']);
    const set = this.#tiers.of(options.tier);
    this.#chargedTo(key, set);
    const subject = this.#chargedTo(key, this.#live ? await this.#live.refresh(key, set) : set);
    const costs = this.#scope.costs(cost, subject.set);
    const units = subject.set.policies.map((_, i) => 0 - costAt(costs, i));
    if (costs.cost > 0 && units.length > 0)
      await this.#account.adjust({ ...subject, units, charged: undefined, degraded: undefined });
  }

  async reset(key: Key, options: TierOption): Promise<void> {
    checkShape('options', options, ['tier']);
    const { tier } = options;
    const setOf = () =>
      tier === undefined ? this.#scope.everything : this.#scope.withTemporary(this.#tiers.of(tier));
    let subject = this.#chargedTo(key, setOf());
    // An override may have given the key a kind of policy by which this process has not decided yet.
    if (this.#live) {
      await this.#live.refresh(key, this.#set);
      subject = this.#chargedTo(key, setOf());
    }
    if (subject.set.policies.length > 0) await this.#store.reset(subject);
    publishChange(this.#set.name, 'reset', key);
    wake(this.#set.name, subject);
  }

  async usage(key: Key, options: TierOption): Promise<Usage> {
    checkShape('options', options, ['tier']);
    const set = this.#tiers.of(options.tier);
    this.#life.checkOpen();
    if (this.#live) return this.#live.usage(key, set);
    const subject = this.#scope.subject(set, key);
    return isNothing(subject.set) ? NO_USAGE : usageOf(subject, await askUsage(this.#store, subject));
  }

  #chargedTo(key: Key, set: PolicySet): Subject {
    this.#life.checkOpen();
    return this.#scope.chargedTo(set, key);
  }
}
