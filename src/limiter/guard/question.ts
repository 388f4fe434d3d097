import { Eventual, type Listener } from '../../common/eventual.js';
import { HeadgateError } from '../../common/errors.js';
import { performance, setImmediate, setTimeout, TIMERS_OUTLIVE_REQUESTS } from '../../common/real-time.js';
import { malformedReply } from '../../contract/reply.js';
import { isReply, type Call, type Subject } from '../../contract/store.js';
import { coded } from '../../stores/store-error.js';
import type { Breaker } from './breaker.js';
import type { Prober } from './circuit.js';
import { MAX_TIMER_DELAY_MS } from './guard-options.js';

/** The limiter's side of a question: the time limit, and the health of the store. */
export interface Asker extends Prober {
  readonly breaker: Breaker;
  readonly timeouts: Timeouts;
}

/** The properties of a kind of question: a decision, a refund, a probe, or a different call. */
export interface Kind<S extends Subject, T> {
  /** Whether the answer must contain verdicts on the question's set. */
  readonly decides?: boolean;
  readonly probes?: boolean;
  /** Whether the store may still take effect after the time limit, as refunds may. */
  readonly stays?: boolean;
  /** The answer in place of the store's. Absent if the question then fails. @throws the error to fail with */
  instead?(subject: S, error: HeadgateError): T;
  /** Takes back the effect of an answer after the time limit. */
  undo?(subject: S, answer: T): void;
  /** Called if the store failed, at any time, so that the store's effect may be unknown. */
  lost?(subject: S, error: HeadgateError): void;
}

/**
 * A question whose answer the caller awaits. The caller gets exactly one outcome, in time, as `answer`:
 * - `answered`: the store's answer;
 * - `lost`: the store failed, and the answer comes from `instead`;
 * - `expired`: the time is over, and the answer comes from `instead`. Effects that the store reports later are undone.
 */
export class Question<S extends Subject, T> implements Listener<T> {
  declare readonly asker: Asker;
  declare readonly subject: S;
  declare readonly kind: Kind<S, T>;
  declare readonly call: Call;
  declare readonly answer: Eventual<T>;
  declare state: 'waiting' | 'answered' | 'lost' | 'expired';
  /** The time at which the wait began, by `performance.now()`. */
  declare asked: number;
  /** The neighbours among the limiter's waiting questions, in the order in which the waits began. */
  declare previous: AnyQuestion | undefined;
  declare next: AnyQuestion | undefined;

  /** The constructor only assigns fields, so that V8 allocates the fields in the object itself. */
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

  /** Ends the wait, because the time is over. */
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

type AnyQuestion = Question<Subject, unknown>;

/**
 * Gives up questions without an answer in time. The time begins when the store sends the call. A single timer suffices, because calls are
 * sent in the order of the questions, or so close together that the order hardly matters.
 */
export class Timeouts {
  readonly #ms: number;
  readonly #patience: () => number;
  readonly #startTimer: typeof setTimeout;
  #head: AnyQuestion | undefined;
  #tail: AnyQuestion | undefined;
  /** The timer, or undefined before its start and after its end. */
  #timer: NodeJS.Timeout | undefined;
  #armed = false;
  #idle: (() => void)[] = [];

  /**
   * @param ms the time to wait after a call is sent
   * @param patience the time to wait for a call to be sent
   * @param startTimer for tests
   */
  constructor(ms: number, patience: () => number = () => ms, startTimer = setTimeout) {
    this.#ms = ms;
    this.#patience = patience;
    this.#startTimer = startTimer;
  }

  /** Waits for the outcome of an answer, which the question receives. */
  wait<S extends Subject, T>(question: Question<S, T>, answer: Promise<T>): void {
    question.asked = performance.now();
    question.previous = this.#tail;
    // The process stays alive for an answer, but not for the rest of the timer.
    if (!this.#head) this.#timer?.ref();
    if (this.#tail) this.#tail.next = question;
    else this.#head = question;
    this.#tail = question;
    if (!TIMERS_OUTLIVE_REQUESTS) this.#watch(question, this.#ms);
    else if (!this.#armed) this.#arm(this.#ms);
    Eventual.listen(answer, question);
  }

  /**
   * Ends the wait of a question, once.
   *
   * @returns whether the time has been over for longer than timers are late. The store's answer was then in time, and this process read the
   * answer too late
   */
  finish(question: AnyQuestion): boolean {
    // Takes the question off the list at once. Otherwise an older, stalled question would keep this question in memory.
    const { previous, next } = question;
    if (previous) previous.next = next;
    else this.#head = next;
    if (next) next.previous = previous;
    else this.#tail = previous;
    question.previous = question.next = undefined;
    if (!this.#head) {
      this.#timer?.unref();
      for (const resolve of this.#idle.splice(0)) resolve();
    }
    // `#due`, without a call for each answer.
    const due = question.call.until || question.asked + this.#patience();
    return due + MAX_TIMER_DELAY_MS <= performance.now();
  }

  async idle(): Promise<void> {
    if (this.#head) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #due({ call, asked }: AnyQuestion): number {
    return call.until || asked + this.#patience();
  }

  /** Sleeps for at most `ms`, because a call that is sent meanwhile is due later. */
  #arm(ms: number): void {
    this.#armed = true;
    this.#timer = this.#startTimer(this.#wake, Math.ceil(Math.min(Math.max(ms, 0), this.#ms)));
  }

  #expire(question: AnyQuestion): void {
    this.finish(question);
    const ms = question.call.until ? this.#ms : this.#patience();
    question.expire(new HeadgateError('HEADGATE_STORE_TIMEOUT', `The store took longer than ${ms} ms.`));
  }

  /** Expires one question, by a timer of its own request: that of another request may have ended. */
  #watch(question: AnyQuestion, ms: number): void {
    this.#startTimer(() => {
      if (question.state !== 'waiting') return;
      const left = this.#due(question) - performance.now();
      if (left > 0) this.#watch(question, left);
      else this.#expire(question);
    }, Math.ceil(ms));
  }

  // After a long turn of the event loop Node runs timers before it reads sockets. Answers that have arrived must be handled first.
  readonly #wake = (): void => {
    this.#timer = undefined;
    const now = performance.now();
    setImmediate(() => {
      this.#armed = false;
      for (let head = this.#head; head && this.#due(head) <= now; head = this.#head) this.#expire(head);
      if (this.#head && !this.#armed) this.#arm(this.#due(this.#head) - performance.now());
    });
  };
}
