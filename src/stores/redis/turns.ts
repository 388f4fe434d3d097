import { setImmediate } from '../../common/real-time.js';

/**
 * While traffic is light, only every 17th decision measures whether its turn of the event loop brings more. 17 is odd, so that pairs are
 * not always sampled at the same half.
 */
const LOOK_EVERY = 17;

/** For this many turns after a busy one, turns count as busy. Even a busy process has turns with a single decision. */
const LINGER = 8;

/**
 * Tells whether several callbacks in one turn of the event loop ask for decisions, as the requests of a busy server do. All decisions that
 * one callback asks for count once.
 */
export class Turns {
  #untilLook = LOOK_EVERY;
  #isLooking = false;
  #callbacks = 0;
  #isInCallback = false;
  #busyTurnsLeft = 0;

  get areBusy(): boolean {
    return this.#busyTurnsLeft > 0;
  }

  /** To be called for each decision. */
  count(): void {
    if (!this.#isLooking) {
      if (!this.areBusy && --this.#untilLook > 0) return;
      this.#isLooking = true;
      this.#untilLook = LOOK_EVERY;
      this.#callbacks = 0;
      setImmediate(this.#endTurn);
    }
    if (this.#isInCallback) return;
    this.#isInCallback = true;
    this.#callbacks++;
    process.nextTick(this.#endCallback);
  }

  readonly #endCallback = (): void => {
    this.#isInCallback = false;
  };

  readonly #endTurn = (): void => {
    this.#isLooking = false;
    this.#busyTurnsLeft = this.#callbacks > 1 ? LINGER : Math.max(0, this.#busyTurnsLeft - 1);
  };
}
