import { merged } from '../across.js';
import { partsOf, select, withinSlot, type Part } from '../../../contract/parts.js';
import { clearTimeout, performance, setTimeout } from '../../../common/real-time.js';
import { warnOnce } from '../../../common/warnings.js';
import { within } from '../../../common/within.js';
import { isAsConfigured } from '../../../contract/overrides.js';
import type { CompiledPolicy } from '../../../contract/policy.js';
import {
  perSet,
  type Announced,
  type Announcement,
  type Change,
  type ChangeReply,
  type Keys,
  type LeaseChange,
  type MaybePromise,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from '../../../contract/store.js';
import type { BanNote } from '../../../contract/ban-options.js';
import { HotKey, SWEEPS_PER_HOLD, tapped, type Keeping } from './hot-key.js';
import type { Commands } from '../clients/commands.js';
import { Connections } from './connections.js';
import type { Slice } from './slice.js';
import type { Slicing } from './slice-options.js';

/** The most watched keys per dimension of a scope. */
const MAX_WATCHED_KEYS = 10_000;

/** The watched keys of one dimension with the same counts. */
interface HotKeys {
  /** The owner of the keys: a text for the quota's scope and the dimension. */
  readonly owner: string;
  readonly keys: Map<string, HotKey>;
  /** Whether these keys were removed from the shared ones. */
  isGone: boolean;
}

/** The watched keys that stores on one client share, by the identity of their counts. */
class Shared extends Map<string, HotKeys> {
  readonly connections = new Connections();
}

const known = new WeakMap<Commands, Shared>();

/** The state that the stores on one client share. A slice ends with the connection through which it was charged. */
export function sharedOf(commands: Commands): Shared {
  const before = known.get(commands);
  if (before) return before;
  const shared = new Shared();
  known.set(commands, shared);
  // The next server may not know the charges on the last one.
  commands.onLost((server) => shared.connections.lose(server));
  return shared;
}

/** A part of a set, and the place of its keys. */
interface Place {
  readonly part: Part;
  /** The identity of its counts. */
  readonly id: string;
  readonly owner: string;
  hotKeys: HotKeys;
}

/** A store that slices can be charged to. */
export interface Sliceable extends Store {
  /** Returns several charges. Rejects if one could not be returned. */
  giveBack(changes: readonly Change[]): Promise<void>;
}

/**
 * A store that charges slices of hot keys' quota in advance, and admits requests from them. `Ahead` explains why no limit is exceeded. A
 * decision by several keys needs a slice of each key. Limiters, tiers, sets and stores with the same counts on one client share their
 * slices.
 */
export class Slices implements Store {
  readonly #store: Sliceable;
  readonly #keeping: Keeping;
  /** The keys that have slices. */
  readonly #holding = new Set<HotKey>();
  /** The units that are returned next, with their slices. */
  #rests: [rest: Change, slice: Slice][] = [];
  readonly #shared: Shared;
  readonly #identity: string;
  /** The shared keys with slices that this store charges. */
  readonly #own = new Map<string, HotKeys>();
  /** The places of a set's parts. Undefined if the set cannot be decided from slices. */
  readonly #placesOf = perSet((set): readonly Place[] | undefined => {
    const parts = partsOf(set);
    if (!parts.every((part) => canBeSliced(part.set))) return undefined;
    this.#timeout = Math.max(this.#timeout, set.timeout);
    return parts.map((part) => {
      const owner = JSON.stringify([this.#identity, set.name, part.scope]);
      const id = JSON.stringify([owner, ...part.set.policies.map((policy) => policy.id)]);
      return { part, id, owner, hotKeys: this.#hotKeys(id, owner) };
    });
  });
  /** The longest time that a limiter waits for the store, ms. */
  #timeout = 0;
  #sweeper: NodeJS.Timeout | undefined;
  #cleaner: NodeJS.Timeout | undefined;

  /** @param shared the state of the stores on one client @param identity distinguishes stores on one client that count separately */
  constructor(store: Sliceable, { size, hold }: Slicing, shared = new Shared(), identity = '') {
    this.#store = store;
    this.#shared = shared;
    this.#identity = identity;
    const holds = (hot: HotKey): void => {
      this.#holding.add(hot);
      this.#arm();
    };
    const giveBack = (rest: Change, slice: Slice): void => {
      this.#rests.push([rest, slice]);
      this.#arm();
    };
    const connectionOf = (subject: Subject) => shared.connections.to(store.serverOf?.(subject));
    this.#keeping = { store, size, hold, holds, giveBack, connectionOf };
  }

  #hotKeys(id: string, owner: string): HotKeys {
    let hotKeys = this.#shared.get(id);
    if (!hotKeys) {
      hotKeys = { owner, keys: new Map(), isGone: false };
      this.#shared.set(id, hotKeys);
      this.#own.set(id, hotKeys);
      this.#cleaner ??= setTimeout(this.#clean, this.#keeping.hold).unref();
    }
    return hotKeys;
  }

  #hotKey(place: Place, key: Keys): HotKey | undefined {
    if (place.hotKeys.isGone) place.hotKeys = this.#hotKeys(place.id, place.owner);
    const { keys } = place.hotKeys;
    const id = place.part.keyOf(key);
    let hot = keys.get(id);
    if (!hot) {
      if (keys.size >= MAX_WATCHED_KEYS) return undefined;
      keys.set(id, (hot = new HotKey(this.#keeping)));
    }
    return hot;
  }

  /** A key's slices were charged by its earlier limits, so they are returned. Other processes keep theirs for `hold` at most. */
  get overrides(): Store['overrides'] {
    const { overrides } = this.#store;
    if (!overrides) return undefined;
    return {
      read: (place) => overrides.read(place),
      change: async (place, change) => {
        if ('subject' in place) void this.#drop(place.subject);
        await this.#giveBack();
        return overrides.change(place, change);
      },
    };
  }

  /** @throws HeadgateError `HEADGATE_DIMENSIONS` */
  checkDimensions(set: PolicySet): void {
    this.#store.checkDimensions?.(set);
  }

  decide(query: Query): MaybePromise<Reply> {
    const { set, key, cost, costs, peek } = query;
    // A slice has the same units of each policy, as configured.
    const isPlain = costs === undefined && (!set.overrides || isAsConfigured(set.overrides));
    const places = peek || cost === 0 || !isPlain ? undefined : this.#placesOf(set);
    if (!places) return this.#store.decide(query);
    if (places.length > 1) return this.#decideByAll(query, places);
    const { part } = places[0]!;
    const hot = this.#hotKey(places[0]!, key);
    if (!hot) return this.#store.decide(query);
    const now = performance.now();
    hot.ask(part.set, cost, now);
    const slice = hot.take(part.set, cost, now);
    if (!slice) return hot.decide(query, subjectOf(part, set, key), now);
    const reply = slice.spend(part.set, cost, now);
    if (hot.isLow(now)) hot.refill(subjectOf(part, set, key), 1, now);
    return reply;
  }

  #decideByAll(query: Query, places: readonly Place[]): MaybePromise<Reply> {
    const { set, key, cost } = query;
    const now = performance.now();
    const hots = places.map((place) => this.#hotKey(place, key));
    places.forEach(({ part }, i) => hots[i]?.ask(part.set, cost, now));
    const slices = places.map(({ part }, i) => hots[i]?.take(part.set, cost, now));
    const has = slices.every((slice) => slice !== undefined);
    const replies = has ? slices.map((slice, i) => slice.spend(places[i]!.part.set, cost, now)) : [];
    // A slice of one key is useless as long as another key of the decision lacks one.
    const isLow = hots.map((hot, i) => !slices[i] || hot!.isLow(now));
    const isWorthIt = places.every(
      ({ part }, i) => !isLow[i] || hots[i]?.worth(part.set, cost, now) || slices[i],
    );
    const answer = has ? merged(partsOf(set), replies) : this.#learning(query, places, hots);
    if (!isWorthIt) return answer;
    places.forEach(({ part }, i) => {
      if (isLow[i]) hots[i]!.refill(subjectOf(part, set, key), cost, now);
    });
    return answer;
  }

  #learning(
    query: Query,
    places: readonly Place[],
    hots: readonly (HotKey | undefined)[],
  ): MaybePromise<Reply> {
    return tapped(this.#store.decide(query), (reply) => {
      places.forEach(({ part }, i) => hots[i]?.learn(part.set, reply, query.cost, part.at));
    });
  }

  #arm(): void {
    this.#sweeper ??= setTimeout(this.#sweep, this.#keeping.hold / SWEEPS_PER_HOLD).unref();
  }

  /** Returns slices that have ended or are idle. */
  readonly #sweep = (): void => {
    this.#sweeper = undefined;
    const now = performance.now();
    for (const hot of this.#holding) if (!hot.sweep(now)) this.#holding.delete(hot);
    void this.#giveBack();
    if (this.#holding.size > 0) this.#arm();
  };

  /** Units that cannot be returned stay charged until they expire. */
  async #giveBack(): Promise<void> {
    const rests = this.#rests.splice(0).flatMap(([rest, { isLost }]) => (isLost ? [] : rest));
    if (rests.length > 0) await this.#store.giveBack(rests).catch(() => {});
  }

  /** Forgets keys without recent demand. */
  readonly #clean = (): void => {
    this.#cleaner = undefined;
    const now = performance.now();
    for (const [id, hotKeys] of this.#own) {
      for (const [key, hot] of hotKeys.keys) if (hot.isCold(now)) hotKeys.keys.delete(key);
      if (hotKeys.keys.size === 0) this.#disown(id, hotKeys);
    }
    if (this.#own.size > 0) this.#cleaner = setTimeout(this.#clean, this.#keeping.hold).unref();
  };

  #disown(id: string, hotKeys: HotKeys): void {
    hotKeys.isGone = true;
    this.#own.delete(id);
    this.#shared.delete(id);
  }

  async adjust(change: Change): Promise<ChangeReply> {
    // A refund without a charge must not return units that slices have not spent yet.
    if (!change.charged && change.units.some((units) => units < 0)) {
      await this.#drop(change);
      await this.#giveBack();
    }
    return this.#store.adjust(change);
  }

  lease(change: LeaseChange): MaybePromise<boolean> {
    return this.#store.lease(change);
  }

  reset(subject: Subject, isLogged?: boolean): MaybePromise<void> {
    void this.#drop(subject);
    return this.#store.reset(subject, isLogged);
  }

  ban(subject: Subject, duration: number, note?: BanNote): MaybePromise<void> {
    void this.#drop(subject);
    return this.#store.ban(subject, duration, note);
  }

  /** Drops the slices of a key, of all tiers and stores, because they were charged before the next call. */
  async #drop({ set, key }: Subject): Promise<void> {
    const owners = partsOf(set).map(({ scope, keyOf }) => ({
      owner: JSON.stringify([this.#identity, set.name, scope]),
      id: keyOf(key),
    }));
    const dropped: Promise<void>[] = [];
    for (const { owner, keys } of this.#shared.values()) {
      const id = owners.find((each) => each.owner === owner)?.id;
      const hot = id === undefined ? undefined : keys.get(id);
      if (!hot) continue;
      keys.delete(id!);
      dropped.push(hot.drop());
    }
    await Promise.all(dropped);
  }

  servers(): readonly string[] {
    return this.#store.servers?.() ?? [];
  }

  serverOf(subject: Subject): string | undefined {
    return this.#store.serverOf?.(subject);
  }

  whenReady(): Promise<void> | undefined {
    return this.#store.whenReady?.();
  }

  waitsFor(): string | undefined {
    return this.#store.waitsFor?.();
  }

  announce(limiter: Announcement): Announced | undefined {
    for (const policies of [limiter.policies(), ...limiter.tiers.values()]) warnOfUnfit(policies);
    return this.#store.announce?.(limiter);
  }

  /** Returns all slices. A server that hangs delays this only for the time that a decision would wait. */
  async close(): Promise<void> {
    clearTimeout(this.#sweeper);
    clearTimeout(this.#cleaner);
    this.#sweeper = this.#cleaner = undefined;
    const returns: Promise<void>[] = [];
    for (const [id, hotKeys] of this.#own) {
      this.#disown(id, hotKeys);
      for (const hot of hotKeys.keys.values()) returns.push(hot.drop());
      // Objects that still refer to the keys, such as a closed limiter, keep none of them alive.
      hotKeys.keys.clear();
    }
    const returned = Promise.all(returns).then(() => this.#giveBack());
    await within<unknown>(this.#timeout, returned, () => undefined);
    await this.#store.close?.();
  }
}

/** One key of a decision, with only the policies of its dimension. */
function subjectOf({ name, set: part, keyOf }: Part, set: PolicySet, key: Keys): Subject {
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
  return policies.length > 0 && policies.every(({ traits }) => traits.slices !== undefined);
}
