import { setImmediate } from '../../common/real-time.js';

/**
 * While traffic is light, only every 17th decision checks whether the current turn of the event loop brings more. 17 is odd: of pairs of
 * decisions, it is not always the same half that is checked.
 */
const LOOK_EVERY = 17;

/** How long the loop counts as busy after a busy turn, in turns. Even a busy process has turns with a single decision. */
const LINGER = 8;

/**
 * Tells whether several callbacks in one turn of the event loop ask for decisions, as on a busy server. Several decisions of one callback
 * count once.
 */
export class EventLoopTurns {
  #untilLook = LOOK_EVERY;
  #isLooking = false;
  #callbacks = 0;
  #isInCallback = false;
  #busyTurnsLeft = 0;

  get areBusy(): boolean {
    return this.#busyTurnsLeft > 0;
  }

  /** Call this for each decision. */
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
