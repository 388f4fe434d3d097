import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { createLimiter } from '../../limiter/create-limiter.js';
import type { Limiter } from '../../limiter/limiter.js';
import type { LimiterDecision } from '../../limiter/decision.js';
import type { Policy } from '../../contract/policy.js';
import { isPromise, type MaybePromise, type Store } from '../../contract/store.js';
import { memoryStore } from '../../stores/memory/memory.js';
import type { Verdicts } from '../../contract/verdicts.js';
import { usageError } from '../errors.js';

/** The memory store's most. */
const MAX_KEYS = 16_000_000;

/** The real limiter on the real memory store, in the log's time. */
export class Engine {
  readonly limiter: Limiter;
  readonly #store: Store;
  #now = 0;

  /** @throws CliError `USAGE` for policies that a log says nothing about */
  constructor(policies: readonly Policy[]) {
    const slots = policies.find(({ algorithm }) => algorithm === 'concurrency');
    if (slots) {
      throw usageError(
        'A concurrency policy cannot be replayed: an access log says when requests came, not how long each was being served. ' +
          'Replay the others.',
      );
    }
    this.#store = memoryStore({ clock: () => this.#now, maxKeys: MAX_KEYS });
    this.limiter = createLimiter({ name: 'replay', store: this.#store, policies: byTheKey(policies) });
  }

  /** Decides a request that came at `time`; no time is before the last. */
  decide(key: string, time: number): LimiterDecision {
    this.#now = time;
    return now(this.limiter.decide(key));
  }

  /** The bare verdicts of the same. */
  verdicts(key: string, time: number): Verdicts {
    this.#now = time;
    const reply = this.#store.decide({ set: this.limiter.set, key, cost: 1, peek: false, lease: '' });
    return now(reply).verdicts;
  }
}

/** A log's key is that of the policies' dimension, whatever that is. @throws CliError `USAGE` if there are several */
function byTheKey(policies: readonly Policy[]): Policy[] {
  const dimensions = new Set(policies.map(({ by }) => by ?? DEFAULT_DIMENSION));
  if (dimensions.size > 1) {
    throw usageError(
      `These policies are by keys of several dimensions (${[...dimensions].join(', ')}), and a log is replayed by one: --key. Replay the ` +
        'policies of each dimension by themselves.',
    );
  }
  return policies.map(({ by: _, ...policy }) => policy as Policy);
}

function now<T>(value: MaybePromise<T>): T {
  if (isPromise(value)) throw new TypeError('The memory store answers at once.');
  return value;
}
