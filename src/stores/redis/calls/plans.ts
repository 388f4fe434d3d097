import { perSet, type Clock, type PolicySet } from '../../../contract/store.js';
import type { Feature, FeatureSubject, HeadsOf, Sender } from '../../../features/feature.js';
import { besideOf, featuresOf, looksOf, needsStore, ownArgs, tagsOf } from '../../../features/features.js';
import type { OwnArgs } from '../../../features/features.js';
import type { FeatureOptions } from '../../../features/layout.js';
import { KeyMaker } from '../../keys.js';
import type { RememberedDenials, SetDenials } from '../local/remembered-denials.js';
import type { KeyHashing } from '../secret-keys.js';
import { assemble, type Script, type ScriptPart } from '../scripts.js';
import { paramsArg, policiesArg } from './wire.js';

/** The first argument of each script: its deadline, which is set when the call is sent. */
export const DEADLINE = '';

/** The signal of a call that was sent for a time other than the server's, and changed nothing. */
const PERIOD_SIGNAL = /HEADGATE_PERIOD (\d+)/;

/** Everything that a store prepares once for the requests of a kind by a policy set. */
export interface Plan {
  readonly set: PolicySet;
  /** See `kindOf`. */
  readonly kind: number;
  /** Whether the store must see each request, also one that its memory of denials could answer. */
  readonly needsStore: boolean;
  /** The memory of the set's denials. Undefined if denials are not remembered. */
  readonly denials: SetDenials | undefined;
  readonly keys: KeyMaker;
  readonly evaluate: Script;
  readonly adjust: Script;
  /** Whether the set has one policy, and only features for which the short script suffices. */
  readonly single: boolean;
  /** Whether the arguments depend on the time. */
  readonly moves: boolean;
  /** Whether nothing of the plan ever changes. If not, see `Plans.renew`. */
  readonly isFixed: boolean;
  /** The deadline, the policies, the arguments of features. */
  readonly evaluateArgs: readonly string[];
  readonly adjustArgs: readonly string[];
  readonly features: readonly Feature[];
  readonly own: OwnArgs;
  /** See `Feature.beside`. */
  readonly beside: PolicySet | undefined;
  readonly senders: readonly Sender[];
}

interface PlanOptions extends FeatureOptions, Pick<KeyHashing, 'text'> {
  /** The clock of a test, in place of the server's. */
  readonly clock: Clock | undefined;
  readonly denials?: RememberedDenials | undefined;
}

/** The plans of policy sets, created once except for arguments that depend on the time. */
export class Plans implements FeatureOptions {
  readonly prefix: string;
  readonly stream: boolean;
  readonly text: KeyHashing['text'];
  readonly #clock: Clock | undefined;
  readonly #denials: RememberedDenials | undefined;
  /** The plans of a set, by the kind of the requests. */
  readonly #plansOf = perSet((): Plan[] => []);
  readonly #memory = new Map<string, number>();
  /** The server's clock minus this process' clock, ms. 0 until a call fails because of the difference. */
  #skew = 0;

  constructor({ prefix, text, stream, clock, denials }: PlanOptions) {
    this.prefix = prefix;
    this.stream = stream;
    this.text = text;
    this.#clock = clock;
    this.#denials = denials;
  }

  /** The plan for requests of a kind (see `kindOf`), to be sent now. */
  of(set: PolicySet, kind = 0): Plan {
    return this.renew(this.known(set, kind));
  }

  /** The same plan, of which the parts that change may be out of date. */
  known(set: PolicySet, kind = 0): Plan {
    const plans = this.#plansOf(set);
    return (plans[kind] ??= this.#make(set, kind));
  }

  /** Brings a plan up to date. */
  renew(plan: Plan): Plan {
    if (plan.isFixed) return plan;
    const { set, kind, beside, moves, single, own } = plan;
    if (beside !== undefined && beside !== besideOf(set)) return Object.assign(plan, this.#make(set, kind));
    return moves ? Object.assign(plan, argsOf(set, single, this.now, own)) : plan;
  }

  #make(set: PolicySet, kind: number): Plan {
    const kernels = set.policies.map(({ kernel }) => kernel);
    const features = featuresOf(set, kind);
    const own = ownArgs(features, set, this);
    const single = kernels.length === 1 && features.every(({ isInSingle }) => isInSingle?.(set));
    const parts = [...partsOfLooks(set), ...features.map(({ name }) => name)];
    const keys = new KeyMaker(this.prefix, set, this.text, tagsOf(set));
    const moves = set.policies.some(({ sent }) => sent !== undefined);
    const beside = besideOf(set);
    return {
      set,
      kind,
      needsStore: needsStore(kind),
      denials: this.#denials?.of(set),
      keys,
      evaluate: assemble(single ? 'evaluate-single' : 'evaluate', kernels, parts),
      adjust: assemble('adjust', kernels, parts),
      single,
      moves,
      isFixed: !moves && beside === undefined,
      ...argsOf(set, single, this.now, own),
      own,
      beside,
      features,
      senders: features.flatMap(
        ({ sender }) => sender?.(set, { prefix: this.prefix, keys, single, memory: this.#memory }) ?? [],
      ),
    };
  }

  pushFeatures(to: string[], features: readonly Feature[], request: FeatureSubject): void {
    for (const feature of features) feature.keys?.(to, this.headsOf, request);
  }

  /** The beginnings of the Redis keys of features. */
  readonly headsOf: HeadsOf = ({ set, key }) => this.known(set).keys.headsOf(key);

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
  const time = error instanceof Error ? PERIOD_SIGNAL.exec(error.message)?.[1] : undefined;
  return time === undefined ? undefined : Number(time);
}

/** The parts of the scripts that only look at a set's keys. */
export function partsOfLooks(set: PolicySet): ScriptPart[] {
  return looksOf(set).map(({ name }) => name);
}

/** The arguments of a set's scripts at a moment. @param single whether they are for the short script @param own those of features */
export function argsOf(
  set: PolicySet,
  single: boolean,
  now: number,
  own: OwnArgs,
): Pick<Plan, 'evaluateArgs' | 'adjustArgs'> {
  const { policies } = set;
  const args = policiesArg(policies, now);
  const adjustArgs = [args, ...own.change];
  const evaluateArgs = single
    ? [DEADLINE, paramsArg(policies[0]!, now), ...own.single]
    : [DEADLINE, args, ...own.decision];
  return { evaluateArgs, adjustArgs };
}
