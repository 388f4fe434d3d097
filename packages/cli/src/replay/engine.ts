import {
  createLimiter,
  memoryStore,
  type Decision,
  type Key,
  type Limiter,
  type Policy,
  type Store,
} from 'headgate';
import type { CompiledPolicy, MaybePromise, PolicySet, Verdicts } from 'headgate/stores';
import { usageError } from '../errors.js';
import { dimensionsOf } from './dimensions.js';
import { countsSlots } from './policies.js';

const MAX_KEYS = 16_000_000;

/** The real limiter on the real memory store. Its clock is the time in the log. */
export class Engine {
  readonly #limiter: Limiter;
  readonly #store: Store;
  readonly #set: PolicySet;
  readonly #dimensions: readonly string[];
  #now = 0;

  /**
   * @param several whether requests have keys of several dimensions; otherwise their key is that of the policies' dimension
   * @throws CliError `USAGE` for policies that cannot be replayed from a log
   */
  constructor(policies: readonly Policy[], several = false) {
    if (policies.some(countsSlots)) {
      throw usageError(
        'replay cannot decide by concurrency policies, because an access log lacks the duration of each request. Pass other policies.',
      );
    }
    this.#store = memoryStore({ clock: () => this.#now, maxKeys: MAX_KEYS });
    this.#dimensions = dimensionsOf(policies);
    const undimensioned = policies.map(({ by: _, ...policy }) => policy as Policy);
    const own = several ? policies : undimensioned;
    this.#limiter = createLimiter({ name: 'replay', store: this.#store, policies: own });
    this.#set = this.#limiter.compile(own);
  }

  get policies(): readonly CompiledPolicy[] {
    return this.#limiter.policies;
  }

  /** Decides a request at a given time, which must not be before the last one. Undefined: no policy applies to any of its keys. */
  decide(key: Key, time: number): Decision | undefined {
    this.#now = time;
    if (typeof key === 'string') return now(this.#limiter.decide(key));
    const own = this.#dimensions.filter((name) => key[name] !== undefined);
    if (own.length === 0) return undefined;
    return now(this.#limiter.decide(Object.fromEntries(own.map((name) => [name, key[name]]))));
  }

  verdicts(key: string, time: number): Verdicts {
    this.#now = time;
    return now(this.#store.decide({ set: this.#set, key, cost: 1, peek: false, lease: '' })).verdicts;
  }
}

function now<T extends object>(value: MaybePromise<T>): T {
  if ('then' in value) throw new TypeError('The memory store did not decide at once.');
  return value;
}
