import type { Key } from '../../contract/key.js';
import { createLimiter } from '../../limiter/create-limiter.js';
import type { Limiter } from '../../limiter/limiter.js';
import type { LimiterDecision } from '../../limiter/decision.js';
import type { Policy } from '../../contract/policy.js';
import { isPromise, type MaybePromise, type Store } from '../../contract/store.js';
import { memoryStore } from '../../stores/memory/memory.js';
import type { Verdicts } from '../../contract/verdicts.js';
import { usageError } from '../errors.js';
import { dimensionsOf } from './dimensions.js';
import { countsSlots } from './shapes.js';

/** The most keys of the memory store. */
const MAX_KEYS = 16_000_000;

/** The real limiter on the real memory store. Its clock is the time in the log. */
export class Engine {
  readonly limiter: Limiter;
  readonly #store: Store;
  /** The dimensions of the policies. */
  readonly #dimensions: readonly string[];
  #now = 0;

  /**
   * @param several whether requests have keys of several dimensions; otherwise their key is that of the policies' dimension
   * @throws CliError `USAGE` for policies that cannot be replayed from a log
   */
  constructor(policies: readonly Policy[], several = false) {
    if (policies.some(countsSlots)) {
      throw usageError(
        'A concurrency policy cannot be replayed, because an access log lacks the duration of each request. Replay the others.',
      );
    }
    this.#store = memoryStore({ clock: () => this.#now, maxKeys: MAX_KEYS });
    this.#dimensions = dimensionsOf(policies);
    const own = several ? policies : policies.map(({ by: _, ...policy }) => policy as Policy);
    this.limiter = createLimiter({ name: 'replay', store: this.#store, policies: own });
  }

  /** Decides a request at a given time, which must not be before the last one. Undefined: no policy applies to any of its keys. */
  decide(key: Key, time: number): LimiterDecision | undefined {
    this.#now = time;
    if (typeof key === 'string') return now(this.limiter.decide(key));
    const own = this.#dimensions.filter((name) => key[name] !== undefined);
    if (own.length === 0) return undefined;
    return now(this.limiter.decide(Object.fromEntries(own.map((name) => [name, key[name]]))));
  }

  /** The same, but only the verdicts. */
  verdicts(key: string, time: number): Verdicts {
    this.#now = time;
    const reply = this.#store.decide({ set: this.limiter.set, key, cost: 1, peek: false, lease: '' });
    return now(reply).verdicts;
  }
}

function now<T>(value: MaybePromise<T>): T {
  if (isPromise(value)) throw new TypeError('The memory store answers at once.');
  return value;
}
