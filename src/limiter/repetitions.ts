import type { Key } from '../contract/key.js';
import type { FirstDecision } from '../features/ids/contract/ids.js';
import { decisionBy, idOfKeys, policiesText } from '../features/ids/id-rules.js';
import type { Reply } from '../contract/reply.js';
import {
  isNothing,
  isPromise,
  newCall,
  type MaybePromise,
  type PolicySet,
  type Query,
  type Store,
  type Subject,
} from '../contract/store.js';
import { afterwards } from '../contract/verdicts.js';
import type { Asked } from './decision.js';
import type { Scope } from './scope.js';
import type { CheckedOptions } from './checked-options.js';
import type { Tiers } from './tiers.js';

const MAX_SETS = 1000;

/** A question of a request with an id. */
interface WithId extends Pick<Asked, 'account'> {
  id?: string | undefined;
  idHome?: Subject | undefined;
  /** The keys as the caller named them. */
  named?: Key;
}

type Conclude<Q, T> = (query: Q, reply: Reply) => MaybePromise<T>;

/** Answers repetitions of ids with the first decision, whose policies may be those of another tier or override. */
export class Repetitions {
  readonly #tiers: Tiers;
  readonly #scope: Scope;
  readonly #store: Store;
  /** The sets of which the first one with a key of a request has the dimension beside which its id is remembered. */
  readonly #homes: readonly PolicySet[];
  /** The sets of this process' requests with ids, by their text. */
  readonly #sets = new Map<string, PolicySet>();

  /** @param set the policies of requests without a tier */
  constructor({ tiers, scope, store, set }: Pick<CheckedOptions, 'tiers' | 'scope' | 'store' | 'set'>) {
    this.#tiers = tiers;
    this.#scope = scope;
    this.#store = store;
    this.#homes = [set, scope.everything];
  }

  /** The fields of a question with an id, for which the set's policies are remembered. */
  begin(id: string, named: Key, set: PolicySet): WithId {
    const text = policiesText(set);
    if (this.#sets.get(text) !== set) {
      if (this.#sets.size >= MAX_SETS) this.#sets.clear();
      this.#sets.set(text, set);
    }
    return { id: idOfKeys(id, named), named, idHome: this.#homeOf(named) };
  }

  /**
   * The subject beside which the ids of some keys are remembered, whatever tier or override decides. In a cluster that decides key by key, the
   * id has to be beside the deciding key.
   */
  #homeOf(named: Key): Subject | undefined {
    if (typeof named === 'string') return undefined;
    const { remembersIds } = this.#store;
    const home = this.#homes
      .map((set) => this.#scope.subject(set, named))
      .find((subject) => !isNothing(subject.set));
    return home && (typeof remembersIds !== 'function' || remembersIds(home.set)) ? home : undefined;
  }

  /**
   * Concludes with the first decision; or with a look by the current policies, if this process does not know the first ones; or, if the id was
   * repeated too often, with the new decision, whose charge the store does not know as the id's.
   */
  answer<Q extends Query & WithId, T>(query: Q, reply: Reply, conclude: Conclude<Q, T>): MaybePromise<T> {
    const { first, isIdSpent: _, ...rest } = reply;
    if (!first) return conclude({ ...query, id: undefined }, rest);
    const known = this.#find(first, query.named!);
    if (known) {
      const { subject, costs, limits } = known;
      // A repetition has the turn of the first request.
      const verdicts = afterwards(known.verdicts, reply.sinceFirst ?? 0);
      const answer: Reply = { ...rest, verdicts, repeated: true, ...(limits && { limits }) };
      return conclude({ ...query, ...subject, ...costs }, answer);
    }
    const call = this.#store.embedded ? undefined : newCall();
    const look = { ...query, cost: 0, costs: undefined, peek: true, id: undefined, call, account: undefined };
    const seen = this.#store.decide(look);
    const repeat = (each: Reply): MaybePromise<T> => conclude(look, { ...each, ban: 0, repeated: true });
    return isPromise(seen) ? seen.then(repeat) : repeat(seen);
  }

  /** The decision by the set that decided, if it is known. @param key the keys of the repetition, which are also those of the first request */
  #find(first: FirstDecision, key: Key) {
    const noted = this.#sets.get(first.by);
    for (const set of noted ? [noted] : this.#tiers.all) {
      const subject = this.#scope.subject(set, key);
      const decision = decisionBy(first, subject.set);
      if (decision) return { subject, ...decision };
    }
    return undefined;
  }
}
