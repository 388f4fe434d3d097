import { NO_COSTS } from '../contract/costs.js';
import { unanswered } from '../contract/reply.js';
import { lookOf, type Subject } from '../contract/store.js';
import { conclude, type LimiterDecision } from './decision.js';
import type { Reports } from './observe.js';
import type { Request } from './request.js';
import type { CheckedOptions } from './checked-options.js';

/** The decisions of a limiter without an answer of the store. Nothing is charged. */
export class Unasked {
  readonly #setup: CheckedOptions;
  readonly #reports: Reports;

  constructor(setup: CheckedOptions, reports: Reports) {
    this.#setup = setup;
    this.#reports = reports;
  }

  /** @param degraded `'deny'` if the store did not answer in time. A shadow then admits the request */
  withoutStore({ key, cost, set }: Request, degraded?: 'deny'): LimiterDecision {
    const { scope, shadow } = this.#setup;
    const subject = scope.subject(set, key);
    const query = lookOf(subject, scope.costs(cost, subject.set, set));
    const reply = { ...unanswered(), ...(degraded && { degraded }) };
    return conclude(query, reply, shadow);
  }

  listed(subject: Subject, reason: 'allow-listed' | 'deny-listed'): LimiterDecision {
    const { shadow } = this.#setup;
    const query = lookOf(subject, NO_COSTS);
    const reply = unanswered();
    const allowed = reason === 'allow-listed';
    const retryAfterMs = allowed ? 0 : undefined;
    const decision = conclude(query, reply, shadow, { allowed, reason, retryAfterMs });
    this.#reports.announced?.count?.(decision);
    this.#reports.report(decision, false);
    return decision;
  }
}
