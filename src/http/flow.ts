import type { ServerResponse } from 'node:http';
import type { Decision } from '../decision.js';
import type { MaybePromise, PolicySet } from '../stores/store.js';
import { Ending } from './ending.js';
import { retryAfterSeconds, type HeaderTarget } from './headers.js';
import { checkGeneratedKey, isPromise, type CompiledOptions } from './options.js';
import { problemOf, statusOf } from './problem.js';
import type { Texts } from './texts.js';
import { leaseOf, renewSlots } from './slots.js';
import { publicError } from './public-error.js';

/** What an adapter knows of its framework. */
export interface Framework<Req extends object, Res> extends HeaderTarget<Res> {
  /** The client's address, as far as the framework trusts what it was told of it. */
  ip(req: Req): string | undefined;
  raw(res: Res): ServerResponse;
  setStatus(res: Res, status: number): void;
  /** Answers with a body of type application/problem+json; it is ASCII. */
  send(res: Res, status: number, body: string): void;
  /** The limiters that have decided on a request. */
  trail(req: Req): Trail<Req, Res> | undefined;
  /** Keeps the trail with its request, and shows the latest decision as `rateLimit` on it. */
  keep(req: Req, trail: Trail<Req, Res>): void;
}

/** Goes on with the request, or fails it. */
export type Next = (error?: unknown) => void;

/** The limiters that have decided on a request, the latest first. */
export interface Trail<Req extends object, Res> {
  readonly flow: Flow<Req, Res>;
  readonly decision: Decision;
  readonly before: Trail<Req, Res> | undefined;
}

/** What happens to a request, whatever the framework. Without a promise as long as nothing on its way needs one. */
export class Flow<Req extends object, Res> {
  readonly #framework: Framework<Req, Res>;
  readonly #options: CompiledOptions<Req, Res>;
  readonly #refunds: boolean;

  constructor(framework: Framework<Req, Res>, options: CompiledOptions<Req, Res>) {
    this.#framework = framework;
    this.#options = options;
    this.#refunds = options.refundSuccess || options.refundFailure || options.refundAborted;
  }

  handle(req: Req, res: Res, next: Next): void {
    const before = this.#framework.trail(req);
    if (this.#hasDecided(before)) return next();
    let decision: MaybePromise<Decision | undefined>;
    try {
      decision = this.#decide(req);
    } catch (error) {
      return next(publicError(error));
    }
    if (isPromise(decision)) decision.then((made) => this.#proceed(made, req, res, next), failing(next));
    else this.#proceed(decision, req, res, next);
  }

  /** Closes the limiter if it was made for this flow. */
  async close(): Promise<void> {
    if (this.#options.ownsLimiter) await this.#options.limiter.close();
  }

  /** Mounted twice, a limiter still charges a request once. */
  #hasDecided(latest: Trail<Req, Res> | undefined): boolean {
    for (let trail = latest; trail; trail = trail.before) {
      if (trail.flow === this) return true;
    }
    return false;
  }

  // From the request to a decision; undefined: not limited. One step after the other, each sync or async.

  #decide(req: Req): MaybePromise<Decision | undefined> {
    const { skip } = this.#options;
    const skipped = skip !== undefined && skip(req);
    return isPromise(skipped)
      ? skipped.then((is) => this.#afterSkip(req, is))
      : this.#afterSkip(req, skipped);
  }

  #afterSkip(req: Req, skipped: boolean): MaybePromise<Decision | undefined> {
    if (skipped) return undefined;
    const { key, clientKey } = this.#options;
    const made = key ? key(req) : clientKey(this.#framework.ip(req));
    return isPromise(made) ? made.then((value) => this.#afterKey(req, value)) : this.#afterKey(req, made);
  }

  #afterKey(req: Req, key: string | undefined): MaybePromise<Decision | undefined> {
    checkGeneratedKey(key);
    const { denyList, allowList } = this.#options;
    if (!denyList && !allowList) return this.#afterLists(req, key, undefined);
    const listed = this.#lookUp(req, key);
    return isPromise(listed)
      ? listed.then((reason) => this.#afterLists(req, key, reason))
      : this.#afterLists(req, key, listed);
  }

  #lookUp(req: Req, key: string | undefined): MaybePromise<'deny-listed' | 'allow-listed' | undefined> {
    const { denyList, allowList } = this.#options;
    const address = this.#framework.ip(req);
    const denied = denyList ? denyList(req, address, key) : false;
    if (isPromise(denied)) {
      return denied.then(async (is) => {
        if (is) return 'deny-listed';
        return (await allowList?.(req, address, key)) ? 'allow-listed' : undefined;
      });
    }
    if (denied) return 'deny-listed';
    const allowed = allowList ? allowList(req, address, key) : false;
    if (isPromise(allowed)) return allowed.then((is) => (is ? 'allow-listed' : undefined));
    return allowed ? 'allow-listed' : undefined;
  }

  #afterLists(
    req: Req,
    key: string | undefined,
    listed: 'deny-listed' | 'allow-listed' | undefined,
  ): MaybePromise<Decision | undefined> {
    const { limiter, set, tiers } = this.#options;
    if (listed) return limiter.listed(key ?? this.#framework.ip(req) ?? '', listed);
    if (key === undefined) return undefined;
    if (set) return this.#afterPolicies(req, key, set);
    const tier = tiers!(req);
    return isPromise(tier)
      ? tier.then((compiled) => this.#afterPolicies(req, key, compiled))
      : this.#afterPolicies(req, key, tier);
  }

  #afterPolicies(req: Req, key: string, set: PolicySet): MaybePromise<Decision> {
    const { limiter, cost, costOf } = this.#options;
    if (!costOf) return limiter.decide(key, cost, set);
    const computed = costOf(req);
    return isPromise(computed)
      ? computed.then((units) => limiter.decide(key, units, set))
      : limiter.decide(key, computed, set);
  }

  // From the decision to the answer.

  #proceed(decision: Decision | undefined, req: Req, res: Res, next: Next): void {
    let admitted: MaybePromise<boolean>;
    try {
      admitted = decision === undefined || this.#admit(decision, req, res);
    } catch (error) {
      return next(publicError(error));
    }
    if (isPromise(admitted)) {
      admitted.then((is) => {
        if (is) next();
      }, failing(next));
    } else if (admitted) {
      next();
    }
  }

  #admit(decision: Decision, req: Req, res: Res): MaybePromise<boolean> {
    if (decision.allowed && (this.#refunds || leaseOf(decision.set) > 0)) this.#follow(decision, req, res);
    return decision.delayMs > 0 ? this.#hold(decision, req, res) : this.#conclude(decision, req, res);
  }

  /** Waits for the request's turn (leaky bucket with `maxDelay`), unless its client leaves: then its slot is given back. */
  async #hold(decision: Decision, req: Req, res: Res): Promise<boolean> {
    const gone = new AbortController();
    const ending = new Ending(this.#framework.raw(res), () => gone.abort());
    try {
      const held = await this.#options.limiter.hold(decision, { signal: gone.signal });
      return await this.#conclude(held, req, res);
    } catch (error) {
      if (gone.signal.aborted) return false;
      throw error;
    } finally {
      ending.stop();
    }
  }

  /** Tells everyone of the decision; true if the request goes on. */
  #conclude(decision: Decision, req: Req, res: Res): MaybePromise<boolean> {
    const { onDecision, writeHeaders } = this.#options;
    const before = this.#framework.trail(req);
    this.#framework.keep(req, { flow: this, decision, before });
    if (onDecision) report(onDecision, decision, req);
    let texts: Texts | undefined;
    try {
      texts = writeHeaders(this.#framework, res, decision, before !== undefined);
    } catch (error) {
      // Not asked before: that would be one more thing for V8 to look up on Express' responses.
      if (!this.#framework.raw(res).headersSent) throw error;
    }
    if (decision.allowed) return true;
    // A denied request charges nothing, whatever limiters it has passed before.
    for (let trail = before; trail; trail = trail.before) trail.decision.cancel().catch(ignore);
    return this.#deny(decision, req, res, texts);
  }

  #deny(decision: Decision, req: Req, res: Res, texts: Texts | undefined): MaybePromise<boolean> {
    if (this.#framework.raw(res).headersSent) return false;
    const { handler, statusCode } = this.#options;
    const status = statusOf(decision, statusCode);
    const wait = retryAfterSeconds(decision);
    if (wait !== undefined) this.#framework.setHeader(res, 'Retry-After', String(wait));
    this.#framework.setHeader(res, 'Cache-Control', 'no-store');
    if (!handler) {
      this.#framework.send(res, status, problemOf(decision, status, texts));
      return false;
    }
    this.#framework.setStatus(res, status);
    const answered = handler(req, res, decision);
    return isPromise(answered) ? answered.then(() => false) : false;
  }

  /** Waits for the end of the response: then slots are given back, and costs if they are not to count. */
  #follow(decision: Decision, req: Req, res: Res): void {
    let stopRenewing: (() => void) | undefined;
    const ending = new Ending(this.#framework.raw(res), (completed) => {
      stopRenewing?.();
      decision.release().catch(ignore);
      if (this.#refunds) this.#settle(decision, req, res, completed).catch(warn('requestWasSuccessful'));
    });
    if (!ending.look()) stopRenewing = renewSlots(decision, ending, this.#options.renewFor);
  }

  async #settle(decision: Decision, req: Req, res: Res, completed: boolean): Promise<void> {
    if (await this.#isRefunded(req, res, completed)) await decision.refund().catch(ignore);
  }

  async #isRefunded(req: Req, res: Res, completed: boolean): Promise<boolean> {
    const { refundSuccess, refundFailure, refundAborted, wasSuccessful } = this.#options;
    if (!completed) return refundAborted;
    const success = wasSuccessful ? await wasSuccessful(req, res) : this.#framework.raw(res).statusCode < 400;
    return success ? refundSuccess : refundFailure;
  }
}

function failing(next: Next): (error: unknown) => void {
  return (error) => next(publicError(error));
}

function report<Req>(
  onDecision: (decision: Decision, req: Req) => unknown,
  decision: Decision,
  req: Req,
): void {
  try {
    const result = onDecision(decision, req);
    if (isPromise(result)) result.catch(warn('onDecision'));
  } catch (error) {
    warn('onDecision')(error);
  }
}

function warn(option: string): (error: unknown) => void {
  return (error) => process.emitWarning(`${option} threw: ${String(error)}`, 'HeadgateWarning');
}

/** What cannot be given back because the store is away leaves the account by itself. */
function ignore(): void {}
