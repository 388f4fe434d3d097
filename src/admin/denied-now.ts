import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { JudgedKey } from './finds.js';
import type { State } from './state.js';
import { readTraffic } from './traffic.js';

/** The most denied keys of each limiter in the last seconds, if the store counts. They are read once. */
export class DeniedNow {
  readonly #state: State;
  #denied: Promise<ReadonlySet<string>> | undefined;

  constructor(state: State) {
    this.#state = state;
  }

  /** Whether requests of a key are denied by the policy of the verdict. */
  async has({ name, dimension, key, within, policy }: JudgedKey): Promise<boolean> {
    this.#denied ??= this.#read();
    return (await this.#denied).has(
      JSON.stringify([name, dimension ?? DEFAULT_DIMENSION, key, within, policy]),
    );
  }

  async #read(): Promise<ReadonlySet<string>> {
    // A user without permission for the counts still gets the verdicts.
    const { limiters } = await readTraffic(this.#state, { keys: 20, ofPlaces: true }).catch(() => ({
      limiters: [],
    }));
    const denied = limiters.flatMap(({ name, keys }) =>
      keys
        .filter((each) => each.denied > 0)
        .map(({ dimension = DEFAULT_DIMENSION, key, within, policy }) =>
          JSON.stringify([name, dimension, key, within, policy]),
        ),
    );
    return new Set(denied);
  }
}
