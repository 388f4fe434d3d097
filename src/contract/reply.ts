import { HeadgateError, show } from '../common/errors.js';
import type { ReplyParts, UsageParts } from './features.js';
import { countOf, resetOf, type Verdicts } from './verdicts.js';

/** The place of a process among the processes that wait for the same slots. */
export interface Standing {
  /** The number of waiting processes that have taken less. */
  readonly before: number;
  /** The turns of the other processes before one of them gives way. */
  readonly turns: number;
  /** Whether the process gives way to a waiting process although a slot is free. */
  readonly isAhead: boolean;
}

/** A store's answer to a query. */
export interface Reply extends ReplyParts {
  /** The store's time of the decision, ms since the epoch. */
  readonly now: number;
  /**
   * The same time in microseconds. Each later change of a key has a greater step, so that steps show whether a charge or a reset came
   * first.
   */
  readonly step: number;
  /**
   * The verdict of each policy. Empty if no store could decide. For a banned key, the verdicts extend the wait if the policies deny for
   * longer than the ban; a store that does not look at them returns none.
   */
  readonly verdicts: Verdicts;
  /** The step of each policy. Set if several servers answered, because each has its own clock. */
  readonly steps?: readonly number[];
  /** The mark of each policy (see `Charged`). Set together with `steps`. */
  readonly marks?: readonly number[];
  /**
   * Set by a store that had no room for a new key, and charged nothing although the verdicts admit. With 0 the query is admitted. Above 0
   * the query is denied, and there may be room in as many ms.
   */
  readonly full?: number;
  /** The substitute's answer, set by the guard if the store did not decide. */
  readonly degraded?: 'local' | 'allow' | 'deny';
  /** The store's error, set by the guard if the store was asked. */
  readonly error?: HeadgateError | undefined;
  /** Set by the limiter if other processes wait for the same slots. */
  readonly standing?: Standing;
  /** Set by the guard if this process was too busy to ask the store in time, so that the store is not at fault. */
  readonly late?: boolean;
}

/** An answer with verdicts. @param now the time of the decision. @default that of this process @param ban see `Reply`. @default 0 */
export function replyWith(verdicts: Verdicts, now = Date.now(), step = 0, ban = 0): Reply {
  return { now, step, ban, verdicts };
}

/** Whether the store has decided nothing, because the caller must ask again with other policies. */
export function isUndecided({ clientChanges }: Reply): boolean {
  return clientChanges !== undefined;
}

export function unanswered(now?: number, step?: number): Reply {
  return replyWith([], now, step);
}

/** A store's answer to a change. */
export interface ChangeReply extends Reply {
  /** The units charged to each policy, possibly reduced by a bound on debt. */
  readonly charged: readonly number[];
}

/** A store's answer about the usage of a key: a look without a cost, also at the policies of a banned key. */
export interface UsageReply extends Reply, UsageParts {}

export function malformedReply(reply: unknown): HeadgateError {
  return new HeadgateError(
    'HEADGATE_MALFORMED_REPLY',
    `The store's reply is not a decision: ${show(reply)}.`,
  );
}

/** A charge, described so precisely that a store can give back exactly the same charge. */
export interface Charged {
  /** The step of the charge. If the key was reset since, nothing is left to give back. */
  readonly step: number;
  /** The step of each policy, if the steps differ: see `Reply.steps`. */
  readonly steps?: readonly number[];
  /** The time at which the charge of each policy ends by itself, ms by the store's clock: `now` + `resetAfter`. */
  readonly marks: readonly number[];
}

/** The time at which the charge of each policy ends by itself. See `Charged`. */
export function marksOf({
  now,
  verdicts,
  marks: known,
}: Pick<Reply, 'now' | 'verdicts' | 'marks'>): number[] {
  if (known) return [...known];
  const marks: number[] = [];
  for (let i = 0; i < countOf(verdicts); i++) marks.push(now + resetOf(verdicts, i));
  return marks;
}

/** Describes the charge of a reply. See `Charged`. */
export function chargedOf(reply: Reply): Charged {
  const { step, steps } = reply;
  return { step, marks: marksOf(reply), ...(steps && { steps }) };
}
