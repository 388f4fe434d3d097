import type { Reply } from '../contract/reply.js';
import type { Query, Subject } from '../contract/store.js';
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
    const query: Query = { ...subject, ...scope.costs(cost, subject.set, set), peek: true, lease: '' };
    const reply: Reply = { now: Date.now(), step: 0, ban: 0, verdicts: [], ...(degraded && { degraded }) };
    return conclude(query, reply, shadow);
  }

  listed(subject: Subject, reason: 'allow-listed' | 'deny-listed'): LimiterDecision {
    const { shadow } = this.#setup;
    const query: Query = { ...subject, cost: 0, peek: true, lease: '' };
    const reply: Reply = { now: Date.now(), step: 0, ban: 0, verdicts: [] };
    const allowed = reason === 'allow-listed';
    const retryAfterMs = allowed ? 0 : undefined;
    const decision = conclude(query, reply, shadow, { allowed, reason, retryAfterMs });
    this.#reports.count?.(decision);
    this.#reports.report(decision, false);
    return decision;
  }
}
