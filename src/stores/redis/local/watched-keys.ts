import { hasBan } from '../../../features/bans/ban-operations.js';
import { oncePer } from '../../../common/lazy.js';
import { clearTimeout, performance, setTimeout } from '../../../common/real-time.js';
import { setsByDimension, type DimensionSet } from '../../../contract/dimension-sets.js';
import type { Keys, PolicySet, Subject } from '../../../contract/store.js';
import type { Commands } from '../clients/commands.js';
import { Connections } from './connections.js';
import { HotKey, type Keeping } from './hot-key.js';

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

/** The watched keys of the stores on a client, by the identity of their counts. */
export class Shared extends Map<string, HotKeys> {
  readonly connections = new Connections();
}

/** The common state of the stores on a client. A slice ends with the connection through which it was charged. */
export const sharedBy = oncePer((commands: Commands): Shared => {
  const shared = new Shared();
  // The next server may not know the charges on the last one.
  commands.onLost((server) => shared.connections.lose(server));
  return shared;
});

/** A part of a set, and the place of its keys. */
export interface WatchedPlace {
  readonly part: DimensionSet;
  /** The identity of its counts. */
  readonly id: string;
  hotKeys: HotKeys;
}

/** The keys whose demand a store watches. Stores on a client share the keys with the same counts; the first store to watch such keys owns them. */
export class WatchedKeys {
  readonly #keeping: Keeping;
  readonly #shared: Shared;
  readonly #identity: string;
  readonly #own = new Map<string, HotKeys>();
  #cleaner: NodeJS.Timeout | undefined;

  /** @param identity distinguishes stores on one client that count separately */
  constructor(keeping: Keeping, shared: Shared, identity: string) {
    this.#keeping = keeping;
    this.#shared = shared;
    this.#identity = identity;
  }

  placeOf(part: DimensionSet, { name }: PolicySet): WatchedPlace {
    const owner = this.#ownerOf(part, name);
    const id = JSON.stringify([owner, ...part.set.policies.map((policy) => policy.id)]);
    return { part, id, hotKeys: this.#hotKeys(id, owner) };
  }

  #ownerOf({ scope }: DimensionSet, name: string): string {
    return JSON.stringify([this.#identity, name, scope]);
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

  /** A key at a place. Undefined if too many are watched. */
  at(place: WatchedPlace, key: Keys): HotKey | undefined {
    if (place.hotKeys.isGone) place.hotKeys = this.#hotKeys(place.id, place.hotKeys.owner);
    const { keys } = place.hotKeys;
    const id = place.part.keyOf(key);
    let hot = keys.get(id);
    if (!hot) {
      if (keys.size >= MAX_WATCHED_KEYS) return undefined;
      keys.set(id, (hot = new HotKey(this.#keeping)));
    }
    return hot;
  }

  /** Ends the slices of the key that may be banned, of all tiers and stores, because only the store decides while it is. */
  stop(subject: Subject): void {
    for (const [, hot] of this.#hotOf(subject, hasBan)) hot.stop();
  }

  /** Drops the slices of a key, of all tiers and stores, because the slices were charged before the next call. */
  async drop(subject: Subject): Promise<void> {
    const dropped = this.#hotOf(subject).map(([forget, hot]) => {
      forget();
      return hot.drop();
    });
    await Promise.all(dropped);
  }

  /** The watched keys of a subject, of all tiers and stores, each with a function that forgets it. */
  #hotOf(
    { set, key }: Subject,
    isMeant: (part: DimensionSet) => boolean = () => true,
  ): [forget: () => void, hot: HotKey][] {
    const parts = setsByDimension(set).filter(isMeant);
    const ids = new Map(parts.map((part) => [this.#ownerOf(part, set.name), part.keyOf(key)]));
    return [...this.#shared.values()].flatMap(({ owner, keys }) => {
      const id = ids.get(owner);
      const hot = id === undefined ? undefined : keys.get(id);
      return hot ? [[() => void keys.delete(id!), hot]] : [];
    });
  }

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

  async close(): Promise<void> {
    clearTimeout(this.#cleaner);
    this.#cleaner = undefined;
    const dropped: Promise<void>[] = [];
    for (const [id, hotKeys] of this.#own) {
      this.#disown(id, hotKeys);
      for (const hot of hotKeys.keys.values()) dropped.push(hot.drop());
      // Objects that still refer to the keys, such as a closed limiter, keep no key alive.
      hotKeys.keys.clear();
    }
    await Promise.all(dropped);
  }
}
