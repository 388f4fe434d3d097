import { silentMs, type Instance } from 'headgate/admin';

/** The time of a reading from which the store counts as frozen, ms. */
const SLOW_MS = 2_000;

/** The shares of the time between two publications after which the next one is made: processes do not publish at once. */
const DUE_SHARES = [0.9, 1.1];

/** The last time in which the store did not answer. Processes could not publish then, so none of them counts as silent because of it. */
export class Pauses {
  readonly #now: () => number;
  /** The start of the first reading that failed, since the last that did not. */
  #failing: number | undefined;
  #last: { readonly from: number; readonly to: number } | undefined;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Records the result of a reading that began at a time. */
  note(startedAt: number, hasFailed: boolean): void {
    const now = this.#now();
    if (hasFailed) {
      this.#failing ??= startedAt;
      return;
    }
    const from = this.#failing ?? (now - startedAt > SLOW_MS ? startedAt : undefined);
    if (from !== undefined) this.#last = { from, to: now };
    this.#failing = undefined;
  }

  /**
   * The time since the last publication of a process, ms, if the next one is late. Otherwise 0. A publication that was due while the store did
   * not answer was lost, and the next one comes as long after it as usual.
   */
  readonly silentMs = (instance: Pick<Instance, 'at' | 'every'>): number => {
    const now = this.#now();
    const silent = silentMs(instance, now);
    if (silent === 0 || !this.#last) return silent;
    const { from, to } = this.#last;
    const { every } = instance;
    const [earliest, latest] = DUE_SHARES.map((share) => Date.parse(instance.at) + share * every) as [
      number,
      number,
    ];
    const isLost = earliest <= to && latest >= from;
    return isLost && silentMs({ at: new Date(to).toISOString(), every }, now) === 0 ? 0 : silent;
  };
}
