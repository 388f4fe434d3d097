import { clearTimeout, setTimeout } from '../../common/real-time.js';

/** The most give-backs that wait. After that the oldest is dropped: its charge and its slots expire by themselves. */
const MOST = 10_000;

/** How many give-backs are under way at a time. */
const AT_A_TIME = 64;

/** The pause before a give-back is repeated that failed while the store was up, ms. */
const AGAIN_AFTER = 200;

/** Gives something back. Resolves when that is done, or is in the backlog again. */
export type GiveBack = () => Promise<unknown>;

/** Keeps what could not be given back until the store is up. */
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

  /** Called when the store is up. A give-back that fails now is not repeated at once. */
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
