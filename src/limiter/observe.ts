import { AsyncLocalStorage } from 'node:async_hooks';
import type { HeadgateError } from '../common/errors.js';
import { notifyUser } from '../common/warnings.js';
import type { Announced, Announcement } from '../contract/announcement.js';
import { performance } from '../common/real-time.js';
import {
  decisionChannel,
  storeChannel,
  type DecisionMessage,
  type StoreMessage,
} from '../contract/diagnostics.js';
import type { Reply } from '../contract/reply.js';
import type { Store } from '../contract/store.js';
import { ofLimiter, type LimiterDecision } from './decision.js';
import type { CheckedOptions } from './checked-options.js';

/**
 * The decisions that the asking code reports: none; held decisions, because the request is held until its turn; or all, because the request
 * waits in line. Of a look at later policies, `'unseen'`, no other part of the limiter learns anything either.
 */
export type Unreported = 'none' | 'held' | 'all' | 'unseen';

/** Keeps the current asynchronous context. Answers of a store arrive in the context of another request, because calls are shared. */
export const inContext = (): InContext => AsyncLocalStorage.snapshot();

export type InContext = (report: () => void) => void;

/** The reasons for the end of a wait by the codes of errors. An error with another code is not the outcome of a wait. */
const REASONS: Readonly<Record<string, GaveUp>> = {
  HEADGATE_WAIT_TIMEOUT: 'wait-timeout',
  HEADGATE_QUEUE_FULL: 'queue-full',
  HEADGATE_ABORTED: 'aborted',
  HEADGATE_CLOSED: 'aborted',
};

/** Reports the limiter and its decisions: to operators, to subscribers, and mistakes as warnings. */
export class Reports {
  readonly onDecision: CheckedOptions['onDecision'];
  /** The store's handle, which receives each decision for operators. */
  announced: Announced | undefined;
  readonly #limiter: string;
  readonly #shadow: boolean;
  readonly #embedded: boolean;
  readonly #warn: CheckedOptions['warn'];

  constructor({ set, shadow, source, onDecision, warn }: CheckedOptions) {
    this.#limiter = set.name;
    this.#shadow = shadow;
    this.#embedded = source.embedded ?? false;
    this.onDecision = onDecision;
    this.#warn = warn;
  }

  /** Announces the limiter to the store, for operators. */
  announceTo(store: Store, announcement: Announcement): void {
    this.announced = store.announce?.(announcement);
  }

  withdraw(): void {
    this.announced?.withdraw();
  }

  /**
   * Reports a decision to the subscribers and to `onDecision`.
   *
   * @param atOnce whether the answer was there without waiting
   */
  report(
    decision: LimiterDecision,
    atOnce: boolean,
    { inContext: run, waitedMs }: { inContext?: InContext; waitedMs?: number } = {},
  ): void {
    if (run) return run(() => this.report(decision, atOnce));
    if (decisionChannel.hasSubscribers) {
      const local = atOnce && !this.#embedded && !decision.degraded;
      const message: DecisionMessage = {
        ...{ limiter: this.#limiter, tier: decision.set.tier, shadow: this.#shadow, local, decision },
        ...(waitedMs !== undefined && { waitedMs }),
      };
      decisionChannel.publish(message);
    }
    if (this.onDecision) notifyUser('onDecision', this.onDecision, decision);
  }

  warnOfCost({ cost, policy }: LimiterDecision): void {
    this.#warn(
      'HEADGATE_COST_ABOVE_CAPACITY',
      `The limiter ${JSON.stringify(this.#limiter)} got a cost of ${cost}, which its policy '${policy}' can never admit. Give the policy a ` +
        'larger limit or burst, bound the cost, or name a cost for each policy if they count different things: { tokens: 800 }.',
    );
  }

  /** Reports a decision that `decide` left unreported, at the end of the request's wait. @param waitedMs the length of the wait, ms */
  reportWait(decision: LimiterDecision, waitedMs: number): void {
    if (decision.reason === 'disabled') return;
    if (decision.cost > 0) this.announced?.count?.(decision);
    this.report(decision, false, { waitedMs });
  }
}

type GaveUp = 'wait-timeout' | 'queue-full' | 'aborted';

interface Waiting {
  readonly signal: AbortSignal | undefined;
  /** The decision about a wait that ended without an admission. @param denial the denial in the error, if present */
  gaveUp(reason: GaveUp, denial: LimiterDecision | undefined): LimiterDecision;
  /** A decision that was reported before the wait, and is not reported again. */
  readonly reported?: LimiterDecision | undefined;
}

/** Reports a wait once, at its end. The decisions on the way must be left unreported. @param wait waits, and returns the decision */
export async function reportWait(
  reports: Reports,
  { signal, gaveUp, reported }: Waiting,
  wait: () => Promise<LimiterDecision>,
): Promise<LimiterDecision> {
  const came = performance.now();
  const report = (decision: LimiterDecision): void => reports.reportWait(decision, performance.now() - came);
  try {
    const decision = await wait();
    if (decision !== reported) report(decision);
    return decision;
  } catch (thrown) {
    const { code, decision } = thrown as Partial<HeadgateError>;
    const reason = REASONS[code ?? ''] ?? (signal?.aborted ? 'aborted' : undefined);
    const denial = decision && ofLimiter(decision);
    if (reason) report(gaveUp(reason, denial));
    else if (code === 'HEADGATE_DENIED') report(denial!);
    throw thrown;
  }
}

/** Publishes the store's time for an answer. */
export function observe(limiter: string, reply: Promise<Reply>): void {
  const asked = performance.now();
  const load = performance.eventLoopUtilization();
  const publish = (degraded: boolean, error?: unknown): void => {
    const message: StoreMessage = {
      limiter,
      durationMs: performance.now() - asked,
      busyMs: performance.eventLoopUtilization(load).active,
      degraded,
      ...(error !== undefined && { error }),
    };
    storeChannel.publish(message);
  };
  reply.then(
    ({ degraded, error }) => publish(degraded !== undefined, error),
    (error: unknown) => publish(false, error),
  );
}
