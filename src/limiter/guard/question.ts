import { Eventual, type Listener } from '../../common/eventual.js';
import type { HeadgateError } from '../../common/errors.js';
import { isReply, malformedReply, type Call, type Subject } from '../../contract/store.js';
import { coded } from '../../stores/store-error.js';
import type { Breaker } from './breaker.js';
import type { Prober } from './circuit.js';
import type { Awaiting, Timeouts } from './timeouts.js';

/** The limiter's side of a question: the time limit, and the health of the store. */
export interface Asker extends Prober {
  readonly breaker: Breaker;
  readonly timeouts: Timeouts;
}

/** The parts of a question that depend on its kind: a decision, a refund, a probe, or another call. */
export interface Kind<S extends Subject, T> {
  /** Whether the answer must contain verdicts on the question's set. */
  readonly decides?: boolean;
  readonly probes?: boolean;
  /** Whether the store may still take effect after the time limit, as refunds may. */
  readonly stays?: boolean;
  /** The answer in place of the store's. Absent if the question then fails. @throws the error to fail with */
  instead?(subject: S, error: HeadgateError): T;
  /** Takes back the effect of an answer that came after the time limit. */
  undo?(subject: S, answer: T): void;
  /** Called if the store failed, at any time, so that the store's effect may be unknown. */
  lost?(subject: S, error: HeadgateError): void;
}

/**
 * A question whose answer the caller awaits. The caller gets exactly one outcome, in time, as `answer`:
 * - `answered`: the store's answer;
 * - `lost`: the store failed, and the answer comes from `instead`;
 * - `expired`: the time is over, and the answer comes from `instead`. Any effect that the store reports later is undone.
 */
export class Question<S extends Subject, T> implements Awaiting, Listener<T> {
  declare readonly asker: Asker;
  /** The question to the store. */
  declare readonly subject: S;
  declare readonly kind: Kind<S, T>;
  declare readonly call: Call;
  declare readonly answer: Eventual<T>;
  declare state: 'waiting' | 'answered' | 'lost' | 'expired';
  declare asked: number;
  declare previous: Awaiting | undefined;
  declare next: Awaiting | undefined;

  /** It only assigns fields, so that V8 allocates them in the object itself. */
  constructor(asker: Asker, subject: S, kind: Kind<S, T>) {
    this.asker = asker;
    this.subject = subject;
    this.kind = kind;
    this.call = subject.call!;
    this.answer = new Eventual<T>();
    this.state = 'waiting';
    this.asked = 0;
    this.previous = undefined;
    this.next = undefined;
  }

  /** Receives the store's answer, possibly too late. */
  resolve(value: T): void {
    const { subject, kind } = this;
    const { breaker, timeouts } = this.asker;
    const isSound = !kind.decides || isReply(value, subject.set);
    if (this.state !== 'waiting') {
      breaker.answeredLate(subject, kind.probes);
      if (isSound) kind.undo?.(subject, value);
      return;
    }
    const isOverdue = timeouts.finish(this);
    if (!isSound) return this.fail('lost', malformedReply(value));
    this.state = 'answered';
    breaker.success(subject, isOverdue);
    this.answer.resolve(value);
  }

  /** Receives the store's error, possibly too late. */
  reject(thrown: Error): void {
    const { asker, subject, kind } = this;
    const error = coded(thrown);
    kind.lost?.(subject, error);
    if (this.state === 'waiting') {
      asker.timeouts.finish(this);
      this.fail('lost', error);
    } else if (error.code === 'HEADGATE_PROCESS_LATE') {
      asker.breaker.answeredLate(subject, kind.probes);
    }
  }

  expire(error: HeadgateError): void {
    this.call.abandoned = !this.kind.stays;
    this.fail('expired', error);
  }

  /** Answers in place of the store. Not a private method, which would cost a call per question. */
  fail(state: 'lost' | 'expired', error: HeadgateError): void {
    const { asker, subject, kind, answer } = this;
    this.state = state;
    asker.breaker.failure(subject, error, asker);
    if (!kind.instead) return answer.reject(error);
    try {
      answer.resolve(kind.instead(subject, error));
    } catch (thrown) {
      answer.reject(coded(thrown));
    }
  }
}
