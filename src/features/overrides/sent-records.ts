import { performance } from '../../common/real-time.js';
import {
  AS_CONFIGURED,
  isAsConfigured,
  OVERRIDE_TAG,
  recordDimensions,
  recordIdOf,
  textOfDimension,
} from './contract/records.js';
import type { PolicySet, Query } from '../../contract/store.js';
import type { Sender, SenderParts } from '../feature.js';
import { overriddenKey } from './record-keys.js';

/** The signal of a call without records of overrides, although the limiter has some. Nothing was decided. */
const OVERRIDDEN_SIGNAL = 'HEADGATE_OVERRIDDEN';

/** The time for which a process sends the records of overrides with each decision, after it learned that there are some, ms. */
const RECORDS_SENT_MS = 60_000;

/** The argument behind all others of a call that sends the records. */
export const RECORDS_SENT = 'r';

/** Sends the records of overrides with a set's decisions, as long as there are some. */
export class SentRecords implements Sender {
  /** The key that exists while the limiter has overrides. */
  readonly #flag: string;
  readonly #keys: SenderParts['keys'];
  readonly #always: boolean;
  /** The arguments of a call with the records: see `evaluate-single.lua` and `evaluate.lua`. */
  readonly #args: readonly string[];
  /** The end of the time in which records are sent, by flag, because all sets of a name have the same flag. */
  readonly #until: Map<string, number>;

  constructor(set: PolicySet, { prefix, keys, single, memory }: SenderParts) {
    const { overrides: applied = AS_CONFIGURED } = set;
    this.#until = memory;
    this.#flag = overriddenKey(prefix, set.name);
    this.#keys = keys;
    this.#always = !isAsConfigured(applied);
    const revision = textOfDimension(applied.revisions, recordDimensions(set)[0] ?? '');
    if (!single) this.#args = [RECORDS_SENT + (applied.from ?? '')];
    else this.#args = this.#always ? [revision, applied.all, 'a'] : [];
  }

  /**
   * Appends the records of all keys; or, as long as the limiter has no overrides, one key that exists while it has any. In a cluster that
   * key would be in another slot.
   */
  push(queries: readonly Query[], keys: string[], args: string[], isCluster: boolean): void {
    const areSent = this.#always || performance.now() < (this.#until.get(this.#flag) ?? 0);
    if (areSent || queries.length === 1 || isCluster) {
      for (const { key } of queries) this.#keys.pushTagged(keys, key, OVERRIDE_TAG);
      args.push(...this.#args);
    } else {
      keys.push(this.#flag);
      args.push('f');
    }
  }

  /** Whether a call failed because the limiter has overrides by now. From then on the records are sent. */
  learns(error: unknown): boolean {
    if (!(error instanceof Error) || !error.message.startsWith(OVERRIDDEN_SIGNAL)) return false;
    this.#until.set(this.#flag, performance.now() + RECORDS_SENT_MS);
    return true;
  }
}

/** The arguments of `evaluate.lua` behind those of the other features. */
export function decisionArgs(set: PolicySet): string[] {
  const { policies, overrides: applied } = set;
  const dimensions = recordDimensions(set);
  const revisions = dimensions.map((name) => textOfDimension(applied!.revisions, name));
  const numbered = policies.flatMap((policy) => [
    recordIdOf(policy),
    String(dimensions.indexOf(policy.by) + 1),
  ]);
  return [String(dimensions.length), ...revisions, applied!.all, ...numbered];
}

export function changeArgs({ policies, overrides: applied }: PolicySet): string[] {
  return [applied!.all, ...policies.map(recordIdOf)];
}
