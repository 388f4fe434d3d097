import { checkShape } from '../common/validate.js';
import { costAt, type Cost } from '../contract/costs.js';
import { publishChange } from '../contract/diagnostics.js';
import type { Key } from '../contract/key.js';
import { isNothing, type PolicySet, type Subject } from '../contract/store.js';
import type { Account } from './charge.js';
import type { TierOption } from './options.js';
import type { CheckedOptions } from './checked-options.js';
import { askUsage, NO_USAGE, usageOf, type Usage } from './usage.js';
import { wake } from './waiting/wake-ups.js';

/** The changes by operators: refunds and resets, and usage. The methods of `Limiter` with the same names explain the changes. */
export class Operations {
  readonly #setup: CheckedOptions;
  readonly #account: Account;

  constructor(setup: CheckedOptions, account: Account) {
    this.#setup = setup;
    this.#account = account;
  }

  async refund(key: Key, cost: Cost, options: TierOption): Promise<void> {
    checkShape('options', options, ['tier']);
    const { tiers, scope, live } = this.#setup;
    const set = tiers.of(options.tier);
    this.#chargedTo(key, set);
    const subject = this.#chargedTo(key, live ? await live.refresh(key, set) : set);
    const costs = scope.costs(cost, subject.set);
    const units = subject.set.policies.map((_, i) => 0 - costAt(costs, i));
    if (costs.cost === 0 || units.length === 0) return;
    await this.#account.adjust({ ...subject, units, charged: undefined, degraded: undefined });
    this.#account.wake(subject);
  }

  async reset(key: Key, options: TierOption): Promise<void> {
    checkShape('options', options, ['tier']);
    const { tier } = options;
    const { set, tiers, scope, store, live } = this.#setup;
    const setOf = () => (tier === undefined ? scope.everything : scope.withTemporary(tiers.of(tier)));
    let subject = this.#chargedTo(key, setOf());
    // An override may have given the key a kind of policy by which this process has not decided yet.
    if (live) {
      await live.refresh(key, set);
      subject = this.#chargedTo(key, setOf());
    }
    if (subject.set.policies.length > 0) await store.reset(subject);
    publishChange(set.name, 'reset', key);
    wake(set.name, subject);
  }

  async usage(key: Key, options: TierOption): Promise<Usage> {
    checkShape('options', options, ['tier']);
    const { tiers, scope, store, live, life } = this.#setup;
    const set = tiers.of(options.tier);
    life.checkOpen();
    if (live) return live.usage(key, set);
    const subject = scope.subject(set, key);
    return isNothing(subject.set) ? NO_USAGE : usageOf(subject, await askUsage(store, subject));
  }

  #chargedTo(key: Key, set: PolicySet): Subject {
    const { life, scope } = this.#setup;
    life.checkOpen();
    return scope.chargedTo(set, key);
  }
}
