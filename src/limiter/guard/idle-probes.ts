import { clearTimeout, performance, setTimeout } from '../../common/real-time.js';
import type { Circuit, Prober } from './circuit.js';
import { HEALTH_INTEREST_MS, IDLE_MS, IDLE_PROBE_PAUSE_MS } from './guard-options.js';

/** The facts about a store that the probes need: see `Breaker`. */
interface StoreFacts {
  readonly answers: number;
  readonly failing: readonly Circuit[];
  servers(): readonly (string | undefined)[];
  isDown(server: string | undefined): boolean;
}

/**
 * Keeps the health of a store current without traffic. Listeners, and callers that read `health` at least once a minute, learn within
 * seconds that an idle store is down. No probes are sent while decisions are answered, or while the health has no readers.
 */
export class IdleProbes {
  readonly #store: StoreFacts;
  /** The limiters that can probe, each with the end of the interest in the health. */
  readonly #probers = new Map<Prober, number>();
  #timer: NodeJS.Timeout | undefined;
  #asking = false;
  #answers = 0;

  constructor(store: StoreFacts) {
    this.#store = store;
  }

  /** Records interest in the health. @param ms the length of the interest */
  watch(prober: Prober, ms = HEALTH_INTEREST_MS): void {
    const until = performance.now() + ms;
    if (until > (this.#probers.get(prober) ?? 0)) this.#probers.set(prober, until);
    // A store that has never answered is probed at once.
    if (!this.#timer && !this.#asking) this.#arm(this.#store.answers === 0 ? 0 : IDLE_MS);
  }

  unwatch(prober: Prober): void {
    this.#probers.delete(prober);
    if (this.#probers.size > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #arm(ms: number): void {
    this.#timer = setTimeout(() => void this.#look(), ms).unref();
  }

  async #look(): Promise<void> {
    this.#timer = undefined;
    if (this.#store.answers === this.#answers) {
      this.#asking = true;
      const now = performance.now();
      for (const [prober, until] of this.#probers) if (until < now) this.#probers.delete(prober);
      const [prober] = this.#probers.keys();
      if (prober) await Promise.all(this.#store.servers().map((server) => this.#ask(prober, server)));
      this.#asking = false;
    }
    this.#answers = this.#store.answers;
    if (this.#probers.size > 0 && !this.#timer) this.#arm(IDLE_MS);
  }

  /** Probes a server until the server has answered or is down. From then on the circuit probes. */
  async #ask(prober: Prober, server: string | undefined): Promise<void> {
    const giveUp = (): void => this.#store.failing.forEach((circuit) => circuit.giveUp(prober));
    while (this.#probers.has(prober) && !this.#store.isDown(server)) {
      let isOver = false;
      const probing = prober.probe(server, undefined).then(() => (isOver = true));
      while (!isOver) {
        await Promise.race([probing, pause(IDLE_MS)]);
        if (!isOver) giveUp();
        if (this.#store.isDown(server)) return;
      }
      if (this.#store.failing.length === 0) return;
      // A store that has never answered is more likely set up wrongly than broken, and five failures would not prove more than one.
      if (this.#store.answers === 0) giveUp();
      await pause(IDLE_PROBE_PAUSE_MS);
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
