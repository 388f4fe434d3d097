/** Above this many different names of limiters and policies, further ones are counted as `other`: tiers may make names up. */
const MOST_NAMES = 200;

/** At most so many different strings go out; never a key. */
export class Names {
  readonly #known = new Set<string>();

  bounded(name: string): string {
    if (this.#known.has(name)) return name;
    if (this.#known.size >= MOST_NAMES) return 'other';
    this.#known.add(name);
    return name;
  }
}
