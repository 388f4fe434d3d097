import { isAsConfigured, recordDimensions, type AppliedOverrides } from '../../../contract/overrides.js';
import { holdsSlots, perSet, type Clock, type PolicySet, type Query } from '../../../contract/store.js';
import { performance } from '../../../common/real-time.js';
import { hasThresholds } from '../../../contract/thresholds.js';
import { KeyMaker, overriddenKey } from '../../keys.js';
import type { KeyHashing } from '../secret-keys.js';
import { streamKey, thresholdArgs } from '../operators/threshold-stream.js';
import { assemble, hasWeights, type Extra, type Script } from '../scripts.js';
import { paramArgs, policyArgs } from './wire.js';

/** The first argument of each script: its deadline, which is set when the call is sent. */
export const DEADLINE = '';

/** The error of a call that was sent for a time other than the server's, and changed nothing. */
const PERIOD_ERROR = /HEADGATE_PERIOD (\d+)/;

/** The error of a call without records of overrides, although the limiter has some. Nothing was decided. */
const OVERRIDDEN_ERROR = 'HEADGATE_OVERRIDDEN';

/** The time for which a process sends the records of overrides with each decision, after it learned that there are some, ms. */
const RECORDS_SENT_MS = 60_000;

/** Sends the records of overrides with a set's decisions, as long as there are some. */
class Records {
  /** The key that exists while the limiter has overrides. */
  readonly #flag: string;
  readonly #keys: KeyMaker;
  readonly #always: boolean;
  /** The arguments of a call with the records: see `evaluate-single.lua` and `evaluate.lua`. */
  readonly #args: readonly string[];
  /** The end of the time in which records are sent, by flag, because all sets of a name have the same flag. */
  readonly #until: Map<string, number>;

  constructor(
    set: PolicySet,
    applied: AppliedOverrides,
    prefix: string,
    keys: KeyMaker,
    until: Map<string, number>,
    single: boolean,
  ) {
    this.#until = until;
    this.#flag = overriddenKey(prefix, set.name);
    this.#keys = keys;
    this.#always = !isAsConfigured(applied);
    const revision = applied.revisions[recordDimensions(set)[0] ?? ''] ?? '';
    if (!single) this.#args = ['r'];
    else this.#args = this.#always ? [revision, applied.all, 'a'] : [];
  }

  /**
   * Appends the records of all keys; or, as long as the limiter has no overrides, one key that exists while it has any. In a cluster that
   * key would be in another slot.
   */
  push(queries: readonly Query[], keys: string[], args: string[], isCluster: boolean): void {
    const areSent = this.#always || performance.now() < (this.#until.get(this.#flag) ?? 0);
    if (areSent || queries.length === 1 || isCluster) {
      for (const { key } of queries) this.#keys.pushRecords(keys, key);
      args.push(...this.#args);
    } else {
      keys.push(this.#flag);
      args.push('f');
    }
  }

  /** Whether a call failed because the limiter has overrides by now. From then on the records are sent. */
  learns(error: unknown): boolean {
    if (!(error instanceof Error) || !error.message.startsWith(OVERRIDDEN_ERROR)) return false;
    this.#until.set(this.#flag, performance.now() + RECORDS_SENT_MS);
    return true;
  }
}

/** The keys, scripts and arguments to decide by a policy set. */
export interface Plan {
  readonly keys: KeyMaker;
  readonly evaluate: Script;
  readonly adjust: Script;
  /** Whether the set has one policy, and perhaps a ban or overrides, so that the short script suffices. */
  readonly single: boolean;
  /** Whether the arguments depend on the time. */
  readonly moves: boolean;
  /** The deadline, the count of policies, the policies, the ban. */
  readonly evaluateArgs: readonly string[];
  readonly adjustArgs: readonly string[];
  readonly leases: boolean;
  /** Whether a limit is shared, so that each request has a weight. */
  readonly shares: boolean;
  /** Whether a policy has thresholds, and the arguments about them. */
  readonly watches: boolean;
  readonly watched: readonly string[];
  /** The key of the stream of crossings, if the set has thresholds and the store has such a stream. */
  readonly stream: readonly string[];
  /** Undefined if the limiter does not support overrides. */
  readonly records: Records | undefined;
}

/** The keys, scripts and arguments of policy sets, created once except for arguments that depend on the time. */
export class Plans {
  readonly prefix: string;
  /** Whether crossings of thresholds are appended to a stream. */
  readonly stream: boolean;
  /** The notation of keys. */
  readonly text: KeyHashing['text'];
  readonly #clock: Clock | undefined;
  readonly #known = perSet((set) => this.#make(set, false));
  /** The plans of requests with ids. */
  readonly #knownWithIds = perSet((set) => this.#make(set, true));
  readonly #sendsUntil = new Map<string, number>();
  /** The server's clock minus this process' clock, ms. 0 until a call fails because of the difference. */
  #skew = 0;

  constructor(prefix: string, text: KeyHashing['text'], clock: Clock | undefined, stream: boolean) {
    this.prefix = prefix;
    this.stream = stream;
    this.text = text;
    this.#clock = clock;
  }

  /** @param withIds whether the requests have ids */
  of(set: PolicySet, withIds = false): Plan {
    const plan = withIds ? this.#knownWithIds(set) : this.#known(set);
    return plan.moves ? { ...plan, ...argsOf(set, plan.single, this.now, plan.watched) } : plan;
  }

  #make(set: PolicySet, withIds: boolean): Plan {
    const kernels = set.policies.map(({ kernel }) => kernel);
    const leases = holdsSlots(set);
    const watches = hasThresholds(set);
    const watched = watches ? thresholdArgs(set.policies, this.stream) : [];
    const [policy] = set.policies;
    const isPlain = kernels.length === 1 && !leases && !withIds && !watches;
    // A denial by a shadow does not count for a ban.
    const single = isPlain && !(set.ban && policy?.shadow);
    const extras: Extra[] = [
      ...(withIds ? ['ids' as const] : []),
      ...(watches ? ['thresholds' as const] : []),
    ];
    const live = set.overrides !== undefined;
    const keys = new KeyMaker(this.prefix, set, this.text);
    return {
      keys,
      evaluate: assemble(
        single ? 'evaluate-single' : 'evaluate',
        kernels,
        set.ban !== undefined,
        live,
        extras,
      ),
      adjust: assemble('adjust', kernels, false, live, extras),
      single,
      moves: set.policies.some(({ sent }) => sent !== undefined),
      ...argsOf(set, single, this.now, watched),
      watched,
      leases,
      shares: hasWeights(kernels),
      watches,
      stream: watches && this.stream ? [streamKey(this.prefix)] : [],
      records: set.overrides && new Records(set, set.overrides, this.prefix, keys, this.#sendsUntil, single),
    };
  }

  /** The best estimate of the server's time, ms since the epoch. */
  get now(): number {
    return this.#clock ? this.#clock() : Date.now() + this.#skew;
  }

  /**
   * Whether the server refused a call because the estimate of its time was wrong. The call was not run, and the server's time is now known.
   */
  learnsTime(error: unknown): boolean {
    const time = timeToldBy(error);
    if (time === undefined) return false;
    this.#skew = time - Date.now();
    return true;
  }
}

/** The server's time in an error, ms since the epoch. Undefined unless the call was sent for a different time. */
export function timeToldBy(error: unknown): number | undefined {
  const time = error instanceof Error ? PERIOD_ERROR.exec(error.message)?.[1] : undefined;
  return time === undefined ? undefined : Number(time);
}

/** The arguments of a set's scripts at a moment. @param single whether they are for the short script @param watched those of thresholds.lua */
export function argsOf(
  set: PolicySet,
  single: boolean,
  now: number,
  watched: readonly string[] = [],
): Pick<Plan, 'evaluateArgs' | 'adjustArgs'> {
  const { policies, ban, overrides: applied } = set;
  const args = policyArgs(policies, now);
  const dimensions = recordDimensions(set);
  const revisions = dimensions.map((name) => applied?.revisions[name] ?? '');
  const ids = policies.map(({ id }) => id);
  const adjustArgs = [...args, ...watched, ...(applied ? [applied.all, ...ids] : [])];
  // One text, because each argument costs the server time, and the ban's params are rarely needed.
  const banArgs = ban ? [Object.values(ban).join(' ')] : [];
  if (single) {
    const first = applied ? [ids[0]!] : [];
    return { evaluateArgs: [DEADLINE, ...first, ...banArgs, ...paramArgs(policies[0]!, now)], adjustArgs };
  }
  const numbered = policies.flatMap(({ id, by }) => [id, String(dimensions.indexOf(by) + 1)]);
  const last = applied ? [String(dimensions.length), ...revisions, applied.all, ...numbered] : [];
  return { evaluateArgs: [DEADLINE, ...args, ...banArgs, ...watched, ...last], adjustArgs };
}
