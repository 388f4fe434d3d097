/** The removals after which a map is replaced, unless it still has a quarter as many entries. */
const MAX_REMOVALS = 256;

/**
 * A map whose entries come and go all the time. When a `Map` has no place left, V8 moves its entries to another table, and the old table keeps a
 * reference to the new one. Once a collection of young objects has moved one table to the old ones, the whole chain lives, with all that its entries
 * refer to, until a collection of old objects: each entry is then copied twice. A new map ends the chain.
 */
export class PassingMap<K, V> {
  #map = new Map<K, V>();
  #removals = 0;

  get(key: K): V | undefined {
    return this.#map.get(key);
  }

  set(key: K, value: V): void {
    this.#map.set(key, value);
  }

  delete(key: K): void {
    this.#map.delete(key);
    if (++this.#removals < Math.max(MAX_REMOVALS, 4 * this.#map.size)) return;
    this.#map = new Map(this.#map);
    this.#removals = 0;
  }
}
