/** So few resets are kept even when they matter no more; of more than `MOST` the oldest give way. */
const FEW = 1000;
const MOST = 100_000;

/**
 * The last reset of each policy's state of a key, for as long as a charge from before it would count: such a charge cannot be given
 * back any more, as what is charged now is others'.
 */
export class Resets {
  readonly #resets = new Map<string, { readonly step: number; readonly until: number }>();

  /** @param step of the store, no less than that of any charge before it @param life how long a charge counts, ms */
  note(policy: string, key: string, step: number, now: number, life: number): void {
    const id = idOf(policy, key);
    this.#resets.delete(id);
    this.#resets.set(id, { step, until: now + life });
    for (const [oldest, { until }] of this.#resets) {
      if (this.#resets.size <= (until > now ? MOST : FEW)) break;
      this.#resets.delete(oldest);
    }
  }

  /** Whether a key was reset since a charge of this step. */
  since(policy: string, key: string, step: number): boolean {
    return this.#resets.size > 0 && (this.#resets.get(idOf(policy, key))?.step ?? 0) >= step;
  }
}

/** Policies' names are printable. */
function idOf(policy: string, key: string): string {
  return `${policy}\0${key}`;
}
