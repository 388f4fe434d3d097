/** The most that waits: then the oldest is forgotten. Its charge leaves the account, and its slots are free, in their time. */
const MOST = 10_000;

/** How many are under way at a time. */
const AT_A_TIME = 64;

/** What failed while the store is up is tried again after so long, ms. */
const AGAIN_AFTER = 200;

/** Gives back; resolves when it is done or is in the backlog again. */
export type GiveBack = () => Promise<unknown>;

/** What could not be given back as the store was away, until it is up. */
export class Backlog {
  readonly #isUp: () => boolean;
  readonly #waiting = new Set<GiveBack>();
  #timer: NodeJS.Timeout | undefined;

  constructor(isUp: () => boolean) {
    this.#isUp = isUp;
  }

  get size(): number {
    return this.#waiting.size;
  }

  add(giveBack: GiveBack): void {
    for (const oldest of this.#waiting) {
      if (this.#waiting.size < MOST) break;
      this.#waiting.delete(oldest);
    }
    this.#waiting.add(giveBack);
    if (this.#isUp()) this.#timer ??= setTimeout(() => this.drain(), AGAIN_AFTER).unref();
  }

  /** To be called when the store is up. What fails then is not tried again at once. */
  drain(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const waiting = [...this.#waiting].values();
    this.#waiting.clear();
    const work = async (): Promise<void> => {
      for (const giveBack of waiting) {
        if (this.#isUp()) await giveBack();
        else this.add(giveBack);
      }
    };
    for (let i = 0; i < AT_A_TIME; i++) void work();
  }
}
