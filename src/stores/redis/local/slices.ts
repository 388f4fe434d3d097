import { inBackground } from '../../../common/background.js';
import type { Announced, Announcement } from '../../../contract/announcement.js';
import type { ChangeNote } from '../../../contract/change-note.js';
import { setsByDimension, select, withinSlot, type DimensionSet } from '../../../contract/dimension-sets.js';
import type { CompiledPolicy } from '../../../contract/policy.js';
import type { ChangeReply, Reply } from '../../../contract/reply.js';
import {
  perSet,
  type ChargeChange,
  type Keys,
  type MaybePromise,
  type OverrideStore,
  type PolicySet,
  type Query,
  type Store,
  type Subject,
} from '../../../contract/store.js';
import { featuresOf, kindOf, needsStore } from '../../../features/features.js';
import { performance } from '../../../common/real-time.js';
import { warnOnce } from '../../../common/warnings.js';
import { within } from '../../../common/within.js';
import { merged } from '../across-slots.js';
import { tapped, type HotKey } from './hot-key.js';
import { SliceRests } from './slice-rests.js';
import type { Slicing } from './slice-options.js';
import { Shared, WatchedKeys, type WatchedPlace } from './watched-keys.js';

/** A store that slices can be charged to. */
export interface Sliceable extends Store {
  /** Returns several charges. Rejects if one could not be returned. */
  giveBack(changes: readonly ChargeChange[]): Promise<void>;
}

/**
 * A store that charges slices of hot keys' quota in advance, and admits requests from the slices. `Ahead` explains why no limit is exceeded. A
 * decision by several keys needs a slice of each key. Limiters, tiers, sets and stores with the same counts on a client share slices.
 */
export class Slices implements Partial<Store> {
  readonly #store: Sliceable;
  readonly #watched: WatchedKeys;
  readonly #rests: SliceRests;
  /** The longest time that a limiter waits for the store, ms. */
  #timeout = 0;
  /** The places of a set's parts. Undefined if the set cannot be decided from slices. */
  readonly #placesOf = perSet((set): readonly WatchedPlace[] | undefined => {
    const parts = setsByDimension(set);
    if (!parts.every((part) => canBeSliced(part.set))) return undefined;
    if (featuresOf(set).some(({ mayChargeAhead }) => mayChargeAhead?.(set) === false)) return undefined;
    this.#timeout = Math.max(this.#timeout, set.timeout);
    return parts.map((part) => this.#watched.placeOf(part, set));
  });

  /** @param store the store around which `wrap` puts the slices @param shared the state of the stores on a client @param identity distinguishes stores on the same client that count separately */
  constructor(store: Sliceable, slicing: Slicing, shared = new Shared(), identity = '') {
    this.#store = store;
    const rests = new SliceRests((changes) => store.giveBack(changes), slicing.hold);
    this.#rests = rests;
    const keeping = {
      ...slicing,
      store: { decide: (query: Query) => this.#ask(query) },
      holds: (hot: HotKey) => rests.watch(hot),
      giveBack: rests.add.bind(rests),
      connectionOf: (subject: Subject) => shared.connections.to(store.serverOf?.(subject)),
    };
    this.#watched = new WatchedKeys(keeping, shared, identity);
  }

  decide(query: Query): MaybePromise<Reply> {
    const { set, key, cost, costs, peek } = query;
    // A slice has the same units of each policy.
    const isPlain = costs === undefined && !needsStore(kindOf(query));
    const places = peek || cost === 0 || !isPlain ? undefined : this.#placesOf(set);
    if (!places) return this.#ask(query);
    if (places.length > 1) return this.#decideByAll(query, places);
    const { part } = places[0]!;
    const hot = this.#watched.at(places[0]!, key);
    if (!hot) return this.#ask(query);
    const now = performance.now();
    hot.ask(part.set, cost, now);
    const slice = hot.take(part.set, cost, now);
    if (!slice) {
      // The store would deny units that this process has not spent.
      void this.#rests.send();
      return hot.decide(query, subjectOf(part, set, key), now);
    }
    const reply = slice.spend(part.set, cost, now);
    if (hot.isLow(now)) hot.refill(subjectOf(part, set, key), 1, now);
    return reply;
  }

  /** Asks the store, also for requests that no slice can admit. A ban that the answer shows ends the slices of the key. */
  #ask(query: Query): MaybePromise<Reply> {
    const answer = this.#store.decide(query);
    if (!query.set.ban) return answer;
    return tapped(answer, ({ ban }) => {
      if (ban !== 0) this.#watched.stop(query);
    });
  }

  #decideByAll(query: Query, places: readonly WatchedPlace[]): MaybePromise<Reply> {
    const { set, key, cost } = query;
    const now = performance.now();
    const asked = places.map((place) => {
      const { part } = place;
      const hot = this.#watched.at(place, key);
      hot?.ask(part.set, cost, now);
      return { part, hot, slice: hot?.take(part.set, cost, now) };
    });
    let answer: MaybePromise<Reply>;
    if (asked.every(({ slice }) => slice)) {
      const replies = asked.map(({ part, slice }) => slice!.spend(part.set, cost, now));
      answer = merged(setsByDimension(set), replies);
    } else {
      void this.#rests.send();
      answer = tapped(this.#ask(query), (reply) => {
        for (const { part, hot } of asked) hot?.learn(part.set, reply, cost, part.at);
      });
    }
    const low = asked.filter(({ hot, slice }) => !slice || hot!.isLow(now));
    // A slice of one key is useless as long as another key of the decision lacks a slice.
    if (low.every(({ part, hot, slice }) => slice || hot?.worth(part.set, cost, now)))
      for (const { part, hot } of low) hot!.refill(subjectOf(part, set, key), cost, now);
    return answer;
  }

  async adjust(change: ChargeChange): Promise<ChangeReply> {
    // A refund without a charge must not return units that slices have not spent yet.
    if (!change.charged && change.units.some((units) => units < 0)) {
      await this.#watched.drop(change);
      await this.#rests.send();
    }
    return this.#store.adjust(change);
  }

  #drop(subject: Subject): void {
    void inBackground('The slices of a key were not given back', this.#watched.drop(subject));
  }

  reset(subject: Subject, isLogged?: boolean): MaybePromise<void> {
    this.#drop(subject);
    return this.#store.reset(subject, isLogged);
  }

  ban(subject: Subject, duration: number, note?: ChangeNote): MaybePromise<void> {
    this.#drop(subject);
    return this.#store.ban(subject, duration, note);
  }

  /** A key's slices were charged by the earlier limits, so the slices are returned. Other processes keep their slices for `hold` at most. */
  get overrides(): Store['overrides'] {
    const { overrides } = this.#store;
    const change: OverrideStore['change'] = async (place, record) => {
      if ('subject' in place) this.#drop(place.subject);
      await this.#rests.send();
      return overrides!.change(place, record);
    };
    return overrides && { ...overrides, change };
  }

  announce(limiter: Announcement): Announced | undefined {
    for (const policies of [limiter.policies(), ...limiter.tiers.values()]) warnOfUnfit(policies);
    return this.#store.announce?.(limiter);
  }

  /** Returns all slices. A server that hangs delays the return only for the time that a decision would wait. */
  async close(): Promise<void> {
    const returned = this.#watched.close().then(() => this.#rests.send());
    await within<unknown>(this.#timeout, returned, () => undefined);
    this.#rests.close();
    await this.#store.close?.();
  }
}

/** A key of a decision, with only the policies of the key's dimension. */
function subjectOf({ name, set: part, keyOf }: DimensionSet, set: PolicySet, key: Keys): Subject {
  const { names = [], slotBy } = set.dimensions ?? {};
  if (typeof key === 'string' || slotBy === undefined || name === slotBy)
    return { set: part, key: keyOf(key) };
  const at = [slotBy, name].flatMap((each) => (names.includes(each) ? names.indexOf(each) : []));
  at.sort((a, b) => a - b);
  const selected = select(
    set,
    at.reduce((bits, i) => bits | (1 << i), 0),
  );
  return { set: withinSlot(selected), key: at.map((i) => key[i]!) };
}

/** Warns of policies with units that cannot be charged ahead, except for slots, for which this is expected. */
function warnOfUnfit(policies: readonly CompiledPolicy[]): void {
  const unfit = policies.find(({ traits }) => traits.slices === undefined && !traits.holdsSlots);
  if (!unfit) return;
  warnOnce(
    'HEADGATE_NOT_SLICED',
    `The units of the policy '${unfit.name}' (${unfit.algorithm}) cannot be charged in advance, because each counts from its own moment. ` +
      'Each decision by the policy is therefore a call, although the store has slices. For hot keys, choose another algorithm, without maxDelay.',
  );
}

/** Whether units of each policy can be spent later than they are charged. */
function canBeSliced({ policies }: PolicySet): boolean {
  return policies.length > 0 && policies.every(({ traits }) => traits.slices);
}
