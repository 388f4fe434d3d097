import { clearTimeout, performance, setTimeout } from '../../common/real-time.js';
import type { Circuit, Prober } from './circuit.js';

/** A store that has not answered for so long is asked, ms. A call that stays open for so long proves that the store hangs. */
const IDLE = 1000;

/** The pause between probes of a store that fails at once, ms. */
const PAUSE = 30;

/** For how long the store is asked after somebody has read its health, ms. */
const INTEREST = 60_000;

/** What is known of the store. */
interface Known {
  /** How many calls were answered in time. */
  readonly answers: number;
  readonly hasAnswered: boolean;
  /** The circuits of servers that fail, but are not down yet. */
  readonly failing: readonly Circuit[];
  /** The servers to ask; undefined stands for the store's only one. */
  servers(): readonly (string | undefined)[];
  isDown(server: string | undefined): boolean;
}

/**
 * Keeps the health of a store right without traffic. Who listens to it is told within seconds that an idle store is gone, and so is who
 * reads it every minute or more often. Nothing is sent while decisions are answered, or while nobody wants to know.
 */
export class IdleProbes {
  readonly #known: Known;
  /** The limiters that can ask, and until when somebody wants to know. */
  readonly #probers = new Map<Prober, number>();
  #timer: NodeJS.Timeout | undefined;
  #asking = false;
  #answers = 0;

  constructor(known: Known) {
    this.#known = known;
  }

  /** Somebody wants to know. @param ms for how long */
  watch(prober: Prober, ms = INTEREST): void {
    const until = performance.now() + ms;
    if (until > (this.#probers.get(prober) ?? 0)) this.#probers.set(prober, until);
    // A store that has never answered is asked at once.
    if (!this.#timer && !this.#asking) this.#arm(this.#known.answers === 0 ? 0 : IDLE);
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
    const { answers } = this.#known;
    if (answers === this.#answers) {
      this.#asking = true;
      const now = performance.now();
      for (const [prober, until] of this.#probers) if (until < now) this.#probers.delete(prober);
      const [prober] = this.#probers.keys();
      if (prober) await Promise.all(this.#known.servers().map((server) => this.#ask(prober, server)));
      this.#asking = false;
    }
    this.#answers = this.#known.answers;
    if (this.#probers.size > 0 && !this.#timer) this.#arm(IDLE);
  }

  /** Asks a server until it has answered or is down. A server that is down is probed by its circuit. */
  async #ask(prober: Prober, server: string | undefined): Promise<void> {
    while (this.#probers.has(prober) && !this.#known.isDown(server)) {
      let isOver = false;
      const probing = prober.probe(server, undefined).then(() => (isOver = true));
      while (!isOver) {
        await Promise.race([probing, pause(IDLE)]);
        if (!isOver) for (const circuit of this.#known.failing) circuit.giveUp(prober);
        if (this.#known.isDown(server)) return;
      }
      if (this.#known.failing.length === 0) return;
      // A store that has never answered is more likely set up wrongly than out of order: five failures prove no more than one.
      if (!this.#known.hasAnswered) for (const circuit of this.#known.failing) circuit.giveUp(prober);
      await pause(PAUSE);
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
