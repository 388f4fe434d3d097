// Predicts the charges of a limiter of a site: by the oracle's model, event by event.
import type { Decision } from 'headgate';
import { compare } from '../../oracle/compare.js';
import { withKnown } from '../../oracle/known.js';
import { Handle, type Part } from '../../oracle/model/handle.js';
import { LimiterModel } from '../../oracle/model/limiter.js';
import {
  ANY,
  type Cost,
  type Decision as Expected,
  type Keys,
  type Policy,
} from '../../oracle/model/types.js';
import { costOf as unitsOf } from '../../oracle/model/costs.js';
import type { Ask, HttpLimiter } from './draw.js';
import { costOf, dimensionsOf, tierOf } from './serve.js';

interface Taken {
  readonly handle: Handle;
  /** The id, with the keys. Absent without an id. */
  readonly place: string | undefined;
  readonly isRepetition: boolean;
  readonly isAdmitted: boolean;
  readonly who: object;
}

/** The model of a limiter, and what each request has taken from it. */
export class Account {
  readonly model: LimiterModel;
  readonly #drawn: HttpLimiter;
  readonly #isExact: boolean;
  readonly #taken = new Map<number, Taken>();
  /** The charges of repeated ids: their outcomes return nothing. */
  readonly #repeated = new Set<Handle>();
  readonly #kept: ReadonlySet<string>;

  /**
   * @param isExact whether the order of the decisions is known, so that the model predicts every field
   * @param kept without an order: the ids, as by `placeOf`, with charges that outcomes do not return
   */
  constructor(name: string, drawn: HttpLimiter, isExact: boolean, kept: ReadonlySet<string> = new Set()) {
    this.#kept = kept;
    const { ban, ...rest } = drawn;
    this.model = new LimiterModel({ name, ...rest, ...(ban ? { ban } : {}) }, []);
    this.#drawn = drawn;
    this.#isExact = isExact;
  }

  /** The question that a request asks. Undefined if the limiter does not apply to the request. */
  questionOf(ask: Ask): { keys: Keys; cost: Cost; tier?: string; id?: string } | undefined {
    const named = dimensionsOf(this.#drawn).map((by) => [by, ask[by as 'key']] as const);
    const keys = Object.fromEntries(named.filter(([, key]) => key !== undefined)) as Keys;
    if (Object.keys(keys).length === 0) return undefined;
    const tier = tierOf(this.#drawn, ask.tier);
    return {
      keys,
      cost: costOf(this.#drawn, String(ask.cost), ask.costs?.join()),
      ...(tier === undefined ? {} : { tier }),
      ...(this.#drawn.hasIds && ask.id !== undefined ? { id: ask.id } : {}),
    };
  }

  /** The id of a request with its keys. Undefined without an id. */
  placeOf(ask: Ask): string | undefined {
    const { keys, id } = this.questionOf(ask) ?? {};
    return id === undefined ? undefined : JSON.stringify([keys, id]);
  }

  policiesOf(ask: Ask, now: number): readonly Policy[] {
    const { keys, tier } = this.questionOf(ask)!;
    return this.model.inForce(keys, tier, now).map(({ policy }) => policy);
  }

  /** Charges a decision. @returns the difference from the model's decision */
  decide(n: number, ask: Ask, decision: Decision, now: number): string | undefined {
    const question = this.questionOf(ask)!;
    const isRepetition = decision.repeated;
    const place = this.placeOf(ask);
    const taken = (handle: Handle): void => {
      this.#taken.set(n, { handle, place, isRepetition, isAdmitted: decision.reason === undefined, who: {} });
      if (isRepetition) this.#repeated.add(handle);
    };
    if (!this.#isExact) {
      taken(this.#charge(question, decision, now));
      return undefined;
    }
    const real = decision as Expected;
    const answer = this.model.decide({ ...question, isPeek: false, real }, now);
    taken(answer.handle);
    const expected = withKnown(real, answer.decision, this.model.def, false);
    return compare(
      { ...real, charged: ANY },
      { ...expected, charged: ANY, ...this.#expectedWait(real, expected) },
    );
  }

  /** Over HTTP, a denial for want of a slot shows the expected time until a slot, at most the end of a lease. */
  #expectedWait(real: Expected, expected: Expected): Partial<Expected> {
    const slots = this.model.def.policies.filter(
      ({ algorithm, shadow }) => algorithm === 'concurrency' && !shadow,
    );
    const isOfSlots = real.policies.some(
      ({ name, allowed }) => !allowed && slots.some((slot) => slot.name === name),
    );
    const { retryAfterMs = 0 } = real;
    const latest = expected.retryAfterMs;
    const isExpected = retryAfterMs >= 1 && typeof latest === 'number' && retryAfterMs <= latest;
    return isOfSlots && real.reason === 'quota-exceeded' && isExpected ? { retryAfterMs } : {};
  }

  /** The units of a decision whose place in the order is not known. */
  #charge({ keys, cost, tier }: ReturnType<Account['questionOf']> & object, decision: Decision, now: number) {
    const isAdmitted = decision.reason === undefined;
    const isCharged = (policy: Policy) =>
      !decision.repeated &&
      decision.policies.find(({ name }) => name === policy.name)?.allowed === true &&
      (isAdmitted || (policy.attempts === true && this.#drawn.wait === undefined));
    const parts = this.model
      .inForce(keys, tier, now)
      .filter(({ policy }) => isCharged(policy))
      .map((part): Part => {
        const { count } = this.model.counts.of(this.model.def.name, part);
        return {
          policy: part.policy,
          charge: count.charge(now, unitsOf(cost, part.policy.name), part.policy),
        };
      });
    return new Handle(parts, Infinity);
  }

  /** A later limiter has denied the request: everything comes back except attempts. */
  withdraw(n: number, now: number): void {
    const taken = this.#taken.get(n)!;
    const { handle, isRepetition, isAdmitted } = taken;
    // The end of the response changes nothing more.
    this.#taken.delete(n);
    if (isRepetition || !isAdmitted) return;
    if (this.#isKept(taken)) return void handle.release(now);
    const back = handle.parts.filter(({ policy }) => !policy.attempts);
    const hasUnits = back.some(({ charge }) => charge.units > 0);
    for (const { policy, charge } of back) charge.count.settle(charge, now, 0, policy);
    handle.release(now);
    // The id is forgotten with the units, and the attempts stay.
    handle.isReturned ||= hasUnits;
  }

  /** The response has ended. */
  end(n: number, { completed, status }: { completed: boolean; status: number }, now: number): void {
    const taken = this.#taken.get(n);
    if (!taken?.isAdmitted) return;
    const { skipFailedRequests, skipSuccessfulRequests, refundAborted } = this.#drawn;
    const { handle, isRepetition, who } = taken;
    if (!isRepetition) handle.release(now);
    const isRefunded = !completed
      ? refundAborted
      : status < 400
        ? skipSuccessfulRequests
        : skipFailedRequests;
    if (isRefunded && !isRepetition && !this.#isKept(taken))
      this.model.settle(handle, { who, isRepetition }, 0, now);
  }

  /** Whether a charge stays whatever the outcome, because its id was repeated. */
  #isKept({ handle, place }: Taken): boolean {
    return this.#isExact ? this.#repeated.has(handle) : place !== undefined && this.#kept.has(place);
  }
}
