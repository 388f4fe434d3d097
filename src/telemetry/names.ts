/**
 * The most different names of limiters and policies. Further ones are counted as `other`, because tiers may produce any number of names.
 */
const MOST_NAMES = 200;

/** Bounds the number of different strings that are reported. Keys are never among them. */
export class Names {
  readonly #known = new Set<string>();

  bounded(name: string): string {
    if (this.#known.has(name)) return name;
    if (this.#known.size >= MOST_NAMES) return 'other';
    this.#known.add(name);
    return name;
  }
}
