import { toMilliseconds, type Duration } from '../common/duration.js';
import { HeadgateError, show } from '../common/errors.js';
import { checkShape } from '../common/validate.js';
import { checkNote, type BanNoteOptions } from '../contract/ban-options.js';
import { costAt, type Cost } from '../contract/costs.js';
import { changeChannel, type ChangeMessage } from '../contract/diagnostics.js';
import type { Key } from '../contract/key.js';
import type { OverridePlace, PolicySet, Store, Subject } from '../contract/store.js';
import { isNothing, MAX_REPETITIONS } from './asking.js';
import type { Account } from './charge.js';
import type { Lifetime } from './lifetime.js';
import type { LiveLimits } from './live-limits.js';
import type { Override, OverrideChange, OverrideNote } from './overrides/override.js';
import type { OverrideWriter } from './overrides/override-writer.js';
import type { TierOption } from './options.js';
import type { Scope } from './scope.js';
import type { Setup } from './setup.js';
import type { Tiers } from './tiers.js';
import { askUsage, NO_USAGE, usageOf, type Usage } from './usage.js';
import { wake } from './waiting/rooms.js';

/** The changes by operators: refunds, resets, bans and overrides. The methods of `Limiter` with the same names explain the changes. */
export class Operations {
  readonly #set: PolicySet;
  readonly #tiers: Tiers;
  readonly #scope: Scope;
  readonly #source: Store;
  readonly #store: Store;
  readonly #live: LiveLimits | undefined;
  readonly #account: Account;
  readonly #life: Lifetime;

  constructor({ set, tiers, scope, source, store, live }: Setup, account: Account, life: Lifetime) {
    this.#set = set;
    this.#tiers = tiers;
    this.#scope = scope;
    this.#source = source;
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
    const setOf = () => (options.tier === undefined ? this.#scope.everything : this.#tiers.of(options.tier));
    let subject = this.#chargedTo(key, setOf());
    // An override may have given the key a kind of policy by which this process has not decided yet.
    if (this.#live) {
      await this.#live.refresh(key, this.#set);
      subject = this.#chargedTo(key, setOf());
    }
    if (subject.set.policies.length > 0) await this.#store.reset(subject);
    this.#publish('reset', key);
    this.#wake(subject);
  }

  async usage(key: Key, options: TierOption): Promise<Usage> {
    checkShape('options', options, ['tier']);
    const set = this.#tiers.of(options.tier);
    this.#life.checkOpen();
    // Each repetition follows a change of the override.
    for (let left = MAX_REPETITIONS; left > 0; left--) {
      const subject = this.#scope.subject(this.#live ? await this.#live.current(key, set) : set, key);
      if (isNothing(subject.set)) return NO_USAGE;
      const reply = await askUsage(this.#store, subject);
      if (!reply.clientChanges || !this.#live) return usageOf(subject, reply);
      this.#live.learn(key, set, reply.clientChanges);
    }
    throw new HeadgateError('HEADGATE_OVERRIDES', `The override of ${show(key)} changes all the time.`);
  }

  async ban(key: Key, duration: Duration, note: BanNoteOptions): Promise<void> {
    const subject = this.#bannable(key);
    await this.#store.ban(subject, toMilliseconds('duration', duration), checkNote('ban', note));
    this.#publish('ban', key, note);
  }

  async unban(key: Key, note: BanNoteOptions): Promise<void> {
    const subject = this.#bannable(key);
    await this.#store.ban(subject, 0, checkNote('unban', note));
    this.#publish('unban', key, note);
    this.#wake(subject);
  }

  async override(key: Key, change: OverrideChange, note?: OverrideNote): Promise<void> {
    this.#wakeAt(await this.#overriding().set(someKey(key), change, note));
    this.#publish('override', key, note);
  }

  async overrideAll(change: OverrideChange, note?: OverrideNote): Promise<void> {
    await this.#overriding().set(undefined, change, note);
    this.#publish('override', undefined, note);
  }

  async overrideOf(key?: Key): Promise<Override | undefined> {
    return this.#overriding().of(key);
  }

  async removeOverride(key: Key | undefined, note: BanNoteOptions): Promise<boolean> {
    const [place, was] = await this.#overriding().remove(key, note);
    this.#wakeAt(place);
    if (was) this.#publish('remove-override', key, note);
    return was;
  }

  /** Throws every error of `override` about the arguments, and stores nothing. */
  checkOverride(key: Key | undefined, change: OverrideChange, note: OverrideNote): void {
    this.#overriding().check(key, change, note);
  }

  #overriding(): OverrideWriter {
    this.#life.checkOpen();
    if (this.#live) return this.#live.writer;
    throw new HeadgateError(
      'HEADGATE_OVERRIDES',
      'override: this limiter does not support overrides. Create it with overrides: true.',
    );
  }

  #chargedTo(key: Key, set: PolicySet): Subject {
    this.#life.checkOpen();
    return this.#scope.chargedTo(set, key);
  }

  #bannable(key: Key): Subject {
    this.#life.checkOpen();
    return this.#scope.checkBan(this.#scope.subject(this.#set, key), key);
  }

  #publish(change: ChangeMessage['change'], key: Key | undefined, { by, reason }: BanNoteOptions = {}): void {
    if (!changeChannel.hasSubscribers) return;
    const message: ChangeMessage = { limiter: this.#set.name, change, key, by, reason };
    changeChannel.publish(message);
  }

  #wake(subject: Subject): void {
    wake(this.#source, this.#set.name, subject);
  }

  #wakeAt(place: OverridePlace): void {
    if ('subject' in place) this.#wake(place.subject);
  }
}

/** @throws HeadgateError `HEADGATE_INVALID_KEY` */
function someKey(key: Key): Key {
  if (key !== undefined && key !== null) return key;
  throw new HeadgateError(
    'HEADGATE_INVALID_KEY',
    'key: missing. Pass the key whose limits you want to change, or call overrideAll.',
  );
}
