import type { Decision, DeniedDecision } from '../common/decision.js';
import type { HeadgateError } from '../common/errors.js';
import { notifyUser } from '../common/warnings.js';
import { ofLimiter, type LimiterDecision } from '../limiter/decision.js';
import { checkOptions } from '../limiter/create-limiter.js';
import { optionsOf } from '../limiter/options.js';
import type { Request } from '../limiter/request.js';
import type { Internals, Limiter } from '../limiter/limiter.js';
import { holdsSlots, isPromise, type MaybePromise } from '../contract/store.js';
import { isOn, type Enabled } from '../limiter/enabled.js';
import { ResponseEnd } from './response-end.js';
import {
  weakTrails,
  type Framework,
  type Leaving,
  type Next,
  type Outcome,
  type Trail,
  type Trails,
} from './framework.js';
import { writeDenialFields } from './quota-fields.js';
import { compileOptions, type CompiledOptions } from './compile-options.js';
import { checkedHandler } from './handler-check.js';
import { LEFT, whileConnected } from './leaving.js';
import { HTTP_OPTIONS, type HttpOptions } from './options.js';
import { PROBLEM_TYPE, problemOf, statusOf } from './problem.js';
import { publicError } from './public-error.js';
import { renewSlots } from './held-slots.js';
import { Refunds } from './refunds.js';
import { SetupChecks } from './setup-checks.js';
import { compileSteps, type RequestSoFar, type Step } from './request-steps.js';
import type { HeaderTexts } from './header-texts.js';

/**
 * Creates a limiter for the requests of a framework.
 *
 * @param given the options, or the text of a single policy
 * @param caller the function that received the options, for error messages
 * @throws HeadgateError as `createLimiter`
 */
export function createFlow<Req extends object, Res>(
  framework: Framework<Req, Res>,
  given: HttpOptions<Req, Res> | string = {},
  caller = 'createFlow',
): Flow<Req, Res> {
  const options = optionsOf(given);
  checkOptions(caller, options, HTTP_OPTIONS);
  const flow = new Flow(framework, compileOptions(options));
  flow.made();
  return flow;
}

/** The result of the steps. Undefined if the request is not limited. */
type Made = LimiterDecision | typeof LEFT | undefined;

/** The path of a request through the limiter, for any framework. A promise is created only if the request has to wait. */
export class Flow<Req extends object, Res> {
  readonly #framework: Framework<Req, Res> & Trails<Req> & Leaving<Res>;
  readonly #options: CompiledOptions<Req, Res>;
  readonly #decider: Internals['decider'];
  /** The options `enabled` of the adapter and of the limiter, without switches that are always on. */
  readonly #switches: readonly Enabled[];
  readonly #steps: readonly Step<Req>[];
  /** The index of the first step of a request that is not skipped. */
  readonly #firstStep: number;
  /** Undefined if no cost is refunded at the end of a response. */
  readonly #refunds: Refunds<Req, Res> | undefined;
  readonly #handler: CompiledOptions<Req, Res>['handler'];
  /** Checks the first requests for mistakes in the configuration. `undefined` once enough requests were checked. */
  #checks: SetupChecks<Req> | undefined;

  /** @internal */
  constructor(framework: Framework<Req, Res>, options: CompiledOptions<Req, Res>) {
    // The framework's settings for proxies do not matter if the option `clientIp` returns the client's address.
    const checked = options.clientIp ? { ...framework, ip: () => undefined } : framework;
    this.#checks = new SetupChecks(checked, {
      warn: options.warn,
      lists: options.allowList !== undefined || options.denyList !== undefined,
      keyOptions: options.keyOptions,
      clientKey: options.clientKey,
    });
    const hasLeft = (res: Res): boolean => framework.hasEnded(res) && !framework.headersSent(res);
    this.#framework = { ...weakTrails, hasLeft, ...framework };
    // The option `clientIp` is called once per request.
    const clients = new WeakMap<Req, string | undefined>();
    if (options.clientIp) this.#framework.ip = (req) => clients.get(req);
    this.#steps = compileSteps(options, this.#framework, (req, client) => void clients.set(req, client));
    this.#firstStep = options.skip ? 1 : 0;
    this.#options = options;
    this.#decider = options.limiter.internals.decider;
    this.#switches = [options.enabled, this.#decider.switch].filter((each) => each !== true);
    this.#handler =
      options.handler && checkedHandler(options.handler, framework.handlerSignature, options.warn);
    const { skipSuccessfulRequests, skipFailedRequests, refundAborted } = options;
    if (skipSuccessfulRequests || skipFailedRequests || refundAborted)
      this.#refunds = new Refunds(this.#framework, options);
  }

  /** The limiter, for example to reset a key, to refund units, or to close the limiter. */
  get limiter(): Limiter {
    return this.#options.limiter;
  }

  /**
   * Decides on a request, and answers if the request is denied. If nothing is asynchronous, as with the memory store, the result is not a promise.
   *
   * @returns `'next'` if the request goes on; `'answered'` if the limiter answered, or the client has left
   * @throws (or rejects with) `HEADGATE_NO_CLIENT_IP`, `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_COST`, the error of a callback, or the
   * store's error under `onStoreError: 'throw'`
   */
  handle(req: Req, res: Res): MaybePromise<Outcome> {
    const trail = this.#framework.trail(req);
    const earlier = trail && this.#decisionOn(trail);
    if (earlier?.allowed) return 'next';
    try {
      if (earlier) return this.#denyAgain(ofLimiter(earlier) as LimiterDecision & DeniedDecision, req, res);
      for (const each of this.#switches) if (!isOn(each)) return 'next';
      const { set, cost } = this.#options;
      const soFar: RequestSoFar<Req> = {
        req,
        key: undefined,
        listed: undefined,
        set,
        cost,
        fields: undefined,
      };
      const decision = this.#goThrough(soFar, res, 0);
      if (isPromise(decision)) return this.#later(decision, req, res);
      const outcome = this.#proceed(decision, req, res, trail);
      return typeof outcome === 'string' ? outcome : outcome.catch(fail);
    } catch (error) {
      return this.#fail(error, res);
    }
  }

  /** Like {@link Flow.handle}, for frameworks with callbacks. If `handle` does not return a promise, the callback is called at once. */
  run(req: Req, res: Res, next: Next): void {
    let outcome: MaybePromise<Outcome>;
    try {
      outcome = this.handle(req, res);
    } catch (error) {
      return next(error);
    }
    if (outcome === 'next') next();
    else if (outcome !== 'answered') goOn(outcome, next);
  }

  /** @internal Called when a user has created the flow. */
  made(): void {
    if (this.#options.ownsLimiter) this.#checks?.made();
  }

  /** Closes the limiter if created for this flow. */
  async close(): Promise<void> {
    if (this.#options.ownsLimiter) await this.#options.limiter.close();
  }

  /** The limiter's earlier decision on the request. A limiter mounted twice charges a request once. */
  #decisionOn(latest: Trail): Decision | undefined {
    for (let trail: Trail | undefined = latest; trail; trail = trail.before)
      if (trail.flow === this) return trail.decision;
    return undefined;
  }

  // From the request to a decision.

  #goThrough(soFar: RequestSoFar<Req>, res: Res, from: number): MaybePromise<Made> {
    for (let i = from; i < this.#steps.length; i++) {
      // The functions of the options might find no address, and report that the request has no key.
      if (i === this.#firstStep && this.#framework.hasLeft(res)) return LEFT;
      const goesOn = this.#steps[i]!(soFar);
      if (goesOn === true) continue;
      return goesOn === false ? this.#end(soFar) : this.#goOn(goesOn, soFar, res, i + 1);
    }
    const { req, key, set, cost, fields } = soFar;
    if (this.#checks) {
      this.#look(req);
      this.#checks?.lookAtKey(req, key, key === undefined ? undefined : set);
    }
    if (key === undefined) return undefined;
    const { wait } = this.#options;
    const again = undefined;
    const request: Request = { key, cost, set: set!, peek: false, unreported: 'held', fields, again };
    return wait === undefined ? this.#decider.decide(request) : this.#wait(res, request, wait);
  }

  /** Waits in line while the client is connected. */
  async #wait(res: Res, request: Request, timeout: number): Promise<Made> {
    const { waits } = this.#options.limiter.internals;
    const hopes = this.#refunds !== undefined;
    const waiting = {
      ...request,
      unreported: 'all',
      timeout,
      priority: 0,
      isUnbounded: false,
      hopes,
    } as const;
    try {
      return await whileConnected(this.#framework, res, (signal) => waits.waitBy({ ...waiting, signal }));
    } catch (error) {
      const { code, decision } = error as HeadgateError;
      if (code === 'HEADGATE_QUEUE_FULL') return await this.#decider.noRoom(request);
      if (decision === undefined && code === 'HEADGATE_WAIT_TIMEOUT')
        return this.#decider.unasked.withoutStore(request, 'deny');
      if (decision === undefined) throw error;
      return ofLimiter(decision);
    }
  }

  async #goOn(goesOn: Promise<boolean>, soFar: RequestSoFar<Req>, res: Res, next: number): Promise<Made> {
    if (!(await goesOn)) return this.#end(soFar);
    return this.#framework.hasLeft(res) ? LEFT : this.#goThrough(soFar, res, next);
  }

  /** Ends the steps of a request that is skipped or on a list. */
  #end({ req, key, listed }: RequestSoFar<Req>): LimiterDecision | undefined {
    if (!listed) return undefined;
    this.#look(req);
    return this.#decider.unasked.listed(this.#decider.subject(key ?? this.#framework.ip(req) ?? ''), listed);
  }

  /** Checks one of the first requests for mistakes in the configuration. */
  #look(req: Req): void {
    if (this.#checks && !this.#checks.look(req)) this.#checks = undefined;
  }

  // From the decision to the answer.

  async #later(decision: Promise<Made>, req: Req, res: Res): Promise<Outcome> {
    try {
      const outcome = this.#proceed(await decision, req, res, this.#framework.trail(req));
      return typeof outcome === 'string' ? outcome : await outcome;
    } catch (error) {
      return this.#fail(error, res);
    }
  }

  /** Drops a request that failed because its client has left. */
  #fail(error: unknown, res: Res): Outcome {
    const { code } = Object(error) as Partial<HeadgateError>;
    if (code === 'HEADGATE_NO_CLIENT_IP' && this.#framework.hasLeft(res)) return 'answered';
    return fail(error);
  }

  /** @param before the limiters that have decided on the request before */
  #proceed(decision: Made, req: Req, res: Res, before: Trail | undefined): MaybePromise<Outcome> {
    if (decision === undefined) return 'next';
    if (decision === LEFT) return 'answered';
    const hasSlots = holdsSlots(decision.set);
    const isFollowed = hasSlots || this.#refunds?.mayFollow(res);
    if (decision.allowed && isFollowed) this.#follow(decision, req, res);
    if (hasSlots && !decision.allowed)
      return this.#conclude(this.#options.limiter.internals.waits.untilSlot(decision), req, res, before);
    // A request from the line needs no further delay.
    const isHeld = decision.delayMs > 0 && this.#options.wait === undefined;
    return isHeld ? this.#hold(decision, req, res) : this.#conclude(decision, req, res, before);
  }

  /** Holds the request until its turn (leaky bucket with `maxDelay`). If the client leaves, the turn is returned. */
  async #hold(decision: LimiterDecision, req: Req, res: Res): Promise<Outcome> {
    const { waits } = this.#options.limiter.internals;
    const held = await whileConnected(this.#framework, res, (signal) => waits.holdReported(decision, signal));
    return held === LEFT ? 'answered' : this.#conclude(held, req, res, this.#framework.trail(req));
  }

  /** Publishes the decision and continues with its outcome. */
  #conclude(decision: LimiterDecision, req: Req, res: Res, before: Trail | undefined): MaybePromise<Outcome> {
    const { onDecision, writeHeaders } = this.#options;
    this.#framework.keep(req, { flow: this, decision, before });
    if (onDecision) notifyUser('onDecision', onDecision, decision, req);
    let texts: HeaderTexts | undefined;
    try {
      texts = writeHeaders(this.#framework, res, decision, before !== undefined);
    } catch (error) {
      // Checked only here, because V8 looks up the property slowly on Express' responses.
      if (!this.#framework.headersSent(res)) throw error;
    }
    if (decision.allowed) return 'next';
    // A denied request charges nothing, so earlier limiters return their charges. Only policies that count attempts keep the charge.
    for (let trail = before; trail; trail = trail.before) ofLimiter(trail.decision).withdraw().catch(ignore);
    return this.#deny(decision, req, res, texts);
  }

  #deny(
    decision: LimiterDecision & DeniedDecision,
    req: Req,
    res: Res,
    texts: HeaderTexts | undefined,
  ): MaybePromise<Outcome> {
    if (this.#framework.headersSent(res)) return this.#denyBegun(decision, req, res);
    const { statusCode, jitter } = this.#options;
    const status = statusOf(decision, statusCode);
    writeDenialFields(this.#framework, res, decision, jitter);
    this.#framework.setStatus(res, status);
    if (this.#handler) return this.#answer(decision, req, res);
    this.#framework.setHeader(res, 'Content-Type', PROBLEM_TYPE);
    this.#framework.send(res, problemOf(decision, status, texts));
    return 'answered';
  }

  /** Denies a request whose response has begun, so that neither status nor fields can be set. */
  #denyBegun(decision: LimiterDecision & DeniedDecision, req: Req, res: Res): MaybePromise<Outcome> {
    if (this.#framework.isOpen?.(res) !== true) return 'answered';
    if (this.#handler) return this.#answer(decision, req, res);
    this.#framework.cut?.(res);
    return 'answered';
  }

  #answer(decision: LimiterDecision & DeniedDecision, req: Req, res: Res): MaybePromise<Outcome> {
    const answered = this.#handler!(req, res, decision);
    // Fastify's replies can be awaited, but their `then` does not return a promise.
    return isPromise(answered) ? Promise.resolve(answered).then(() => 'answered') : 'answered';
  }

  #denyAgain(decision: LimiterDecision & DeniedDecision, req: Req, res: Res): MaybePromise<Outcome> {
    if (this.#framework.headersSent(res)) return 'answered';
    // The fields replace those of the first answer, if the answers have a response in common.
    const texts = this.#options.writeHeaders(this.#framework, res, decision, false);
    const outcome = this.#deny(decision, req, res, texts);
    return typeof outcome === 'string' ? outcome : outcome.catch(fail);
  }

  /** Waits for the end of the response. Then slots are released, and a cost that must not count is refunded. */
  #follow(decision: LimiterDecision, req: Req, res: Res): void {
    let stopRenewing: (() => void) | undefined;
    const ending = new ResponseEnd(this.#framework, res, (completed) => {
      stopRenewing?.();
      decision.release().catch(ignore);
      const refunds = this.#refunds;
      if (refunds) notifyUser('requestWasSuccessful', () => refunds.refund(decision, req, res, completed));
    });
    if (!ending.look()) stopRenewing = renewSlots(decision, ending, this.#options.renewFor);
  }
}

/** A separate function, because V8 allocates a closure's context at function entry, even on paths that never create the closure. */
function goOn(outcome: Promise<Outcome>, next: Next): void {
  outcome.then((is) => {
    if (is === 'next') next();
  }, next);
}

function fail(error: unknown): never {
  throw publicError(error);
}

/** Ignores errors of refunds while the store is down: such charges expire by themselves. */
function ignore(): void {}
