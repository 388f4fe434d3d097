/** The most names of limiters and policies. Further names are counted as `other`, because tiers may produce any number of names. */
const MAX_NAMES = 200;

/** Bounds the number of different strings that are reported. Keys are never reported. */
export class Names {
  readonly #known = new Set<string>();

  bounded(name: string): string {
    if (this.#known.has(name)) return name;
    if (this.#known.size >= MAX_NAMES) return 'other';
    this.#known.add(name);
    return name;
  }
}
