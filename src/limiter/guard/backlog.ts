import { clearTimeout, setTimeout } from '../../common/real-time.js';
import { MAX_CONCURRENT_REFUNDS, MAX_WAITING_REFUNDS, REFUND_RETRY_MS } from './guard-options.js';

/** Gives units or slots back. Resolves once the store has done so, or the refund is in the backlog again. */
export type GiveBack = () => Promise<unknown>;

/** Keeps refunds that could not be made until the store is up. */
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
      if (this.#waiting.size < MAX_WAITING_REFUNDS) break;
      this.#waiting.delete(oldest);
    }
    this.#waiting.add(giveBack);
    if (this.#isUp()) this.#timer ??= setTimeout(() => this.drain(), REFUND_RETRY_MS).unref();
  }

  /** Called when the store is up. A refund that fails now is not repeated at once. */
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
    for (let i = 0; i < MAX_CONCURRENT_REFUNDS; i++) void work();
  }
}
