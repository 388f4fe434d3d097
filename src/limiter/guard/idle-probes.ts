import { clearTimeout, performance, setTimeout } from '../../common/real-time.js';
import type { Circuit, Prober } from './circuit.js';

/** The silence after which a store is probed, ms. A call that stays open for so long proves that the store hangs. */
const IDLE_MS = 1000;

/** The pause between probes of a store that fails at once, ms. */
const PAUSE_MS = 30;

/** The time for which the store is probed after its health was read, ms. */
const INTEREST_MS = 60_000;

/** The facts about the store that the probes need. */
interface StoreFacts {
  /** Calls that were answered in time. */
  readonly answers: number;
  readonly hasAnswered: boolean;
  /** The circuits of servers that fail, but are not down yet. */
  readonly failing: readonly Circuit[];
  /** The servers to probe. `undefined` represents the only server of a store. */
  servers(): readonly (string | undefined)[];
  isDown(server: string | undefined): boolean;
}

/**
 * Keeps the health of a store current without traffic. Listeners, and callers that read `health` at least once a minute, learn within seconds
 * that an idle store is down. No probes are sent while decisions are answered, or while the health has no readers.
 */
export class IdleProbes {
  readonly #facts: StoreFacts;
  /** The limiters that can probe, each with the time until which its health has readers. */
  readonly #probers = new Map<Prober, number>();
  #timer: NodeJS.Timeout | undefined;
  #asking = false;
  #answers = 0;

  constructor(facts: StoreFacts) {
    this.#facts = facts;
  }

  /** Records interest in the health. @param ms the time for which it lasts */
  watch(prober: Prober, ms = INTEREST_MS): void {
    const until = performance.now() + ms;
    if (until > (this.#probers.get(prober) ?? 0)) this.#probers.set(prober, until);
    // A store that has never answered is probed at once.
    if (!this.#timer && !this.#asking) this.#arm(this.#facts.answers === 0 ? 0 : IDLE_MS);
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
    const { answers } = this.#facts;
    if (answers === this.#answers) {
      this.#asking = true;
      const now = performance.now();
      for (const [prober, until] of this.#probers) if (until < now) this.#probers.delete(prober);
      const [prober] = this.#probers.keys();
      if (prober) await Promise.all(this.#facts.servers().map((server) => this.#ask(prober, server)));
      this.#asking = false;
    }
    this.#answers = this.#facts.answers;
    if (this.#probers.size > 0 && !this.#timer) this.#arm(IDLE_MS);
  }

  /** Probes a server until it has answered or is down. From then on its circuit probes the server. */
  async #ask(prober: Prober, server: string | undefined): Promise<void> {
    while (this.#probers.has(prober) && !this.#facts.isDown(server)) {
      let isOver = false;
      const probing = prober.probe(server, undefined).then(() => (isOver = true));
      while (!isOver) {
        await Promise.race([probing, pause(IDLE_MS)]);
        if (!isOver) for (const circuit of this.#facts.failing) circuit.giveUp(prober);
        if (this.#facts.isDown(server)) return;
      }
      if (this.#facts.failing.length === 0) return;
      // A store that has never answered is more likely set up wrongly than broken, and five failures would not prove more than one.
      if (!this.#facts.hasAnswered) for (const circuit of this.#facts.failing) circuit.giveUp(prober);
      await pause(PAUSE_MS);
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
