import { inBackground } from '../../common/background.js';
import type { NextFunction, Request, Response } from 'express';
import { isPromise } from '../../contract/store.js';
import type { Counted } from './counter.js';
import { keepIn, latestOn, writeHeaders, writeRetryAfter, type FieldData } from './headers.js';
import { checkLimit, configure, counterOf, isHeadgateStore, optionsOf, type Config } from './options.js';
import type {
  AugmentedRequest,
  RateLimitInfo,
  RateLimitOptions,
  RateLimitRequestHandler,
  Store,
  ValueDeterminingMiddleware,
} from './types.js';

export { ipKeyGenerator } from './ip-key-generator.js';
export { MemoryStore } from './memory-store.js';
export type * from './types.js';
export type { Validations } from './validations.js';

/** @deprecated express-rate-limit deprecates it, too. */
export const SECOND = 1000;
/** @deprecated express-rate-limit deprecates it, too. */
export const MINUTE = 60 * SECOND;
/** @deprecated express-rate-limit deprecates it, too. */
export const HOUR = 60 * MINUTE;
/** @deprecated express-rate-limit deprecates it, too. */
export const DAY = 24 * HOUR;

/**
 * Creates the middleware of express-rate-limit 8 on Headgate, with the same options, defaults, header fields, request property and stores.
 * https://github.com/headgate/headgate/blob/main/docs/migrating/express-rate-limit.md lists the differences.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`; if limiters share a store of Headgate, also `HEADGATE_NAME_REQUIRED` or
 * `HEADGATE_POLICY_MISMATCH`
 */
export function rateLimit(passedOptions: RateLimitOptions | null = {}): RateLimitRequestHandler {
  const config = configure(passedOptions);
  const { validations } = config;
  const counter = counterOf(config);
  const options = optionsOf(config);
  // Limiters that share a store of Headgate have different names and separate counts.
  const store = isHeadgateStore(config.store) ? { localKeys: true } : config.store;

  keepIn(config.requestPropertyName);
  const answersDenied = passedOptions?.handler === undefined && config.statusCode >= 400;

  /** Returns whether the request continues. */
  const admit = async (request: Request, response: Response, next: NextFunction): Promise<boolean> => {
    const outcome = outcomeOf(response, config);
    // Looking for a `then` on text and numbers takes V8 longer than these checks.
    const skipped = config.skip(request, response);
    if (typeof skipped === 'boolean' ? skipped : await skipped) return true;
    const made = config.keyGenerator(request, response);
    const key = typeof made === 'string' ? made : await made;
    const found = valueOf(config.limit, request, response);
    const limit = typeof found === 'number' ? found : await found;
    const units = checkLimit(limit);
    let counted: Counted;
    try {
      const answer = counter.count(key, units);
      counted = isPromise(answer) ? await answer : answer;
    } catch (error) {
      if (!config.passOnStoreError) throw error;
      config.logger.error(
        error,
        'express-rate-limit: error from store, allowing request without rate-limiting.',
      );
      return true;
    }
    validations.positiveHits(counted.used);
    validations.singleCount(request, store as Store, key);
    validations.limit(limit);
    const info = infoOf(counted, key, limit, units);
    const before = latestOn(request, response);
    (request as AugmentedRequest)[config.requestPropertyName] = info;
    const name =
      config.standardHeaders === 'draft-8' ? await valueOf(config.identifier, request, response) : '';
    const { windowMs, legacyHeaders: legacy, standardHeaders: draft } = config;
    const depth = before ? before.depth + 1 : 0;
    const data: FieldData = {
      info,
      denied: counted.denied,
      name,
      windowMs,
      legacy,
      draft,
      response,
      before,
      depth,
    };
    setHeaders(response, data, config);
    if (outcome) void undoLater(outcome, counted, { request, response }, config);
    if (!counted.denied) return true;
    // A custom handler may let the request pass. Without header fields, only the handler decides the client's information.
    if (answersDenied || config.legacyHeaders || config.standardHeaders)
      writeRetryAfter(response, data, await valueOf(config.retryAfter, request, response));
    await config.handler(request, response, next, options);
    return false;
  };

  // An error from `next` is not an error of the limiter.
  const middleware = (request: Request, response: Response, next: NextFunction): Promise<void> =>
    admit(request, response, next)
      .then((admitted) => (admitted ? next() : undefined), next)
      .catch(next);
  return Object.assign(middleware, {
    resetKey: (key: string) => {
      const done = counter.resetKey(key);
      // Some callers do not await the result.
      if (isPromise(done)) void inBackground('A key was not reset', done);
      return done;
    },
    getKey: (key: string) => {
      if (!counter.get) throw new Error('The current store does not support the get/getKey method');
      return counter.get(key);
    },
  });
}

function valueOf<T>(
  value: T | ValueDeterminingMiddleware<T>,
  request: Request,
  response: Response,
): T | Promise<T> {
  return typeof value === 'function' ? (value as ValueDeterminingMiddleware<T>)(request, response) : value;
}

function infoOf({ used, resetTime }: Counted, key: string, limit: number, units: number): RateLimitInfo {
  const info = { limit, used, remaining: Math.max(units - used, 0), resetTime, key };
  // Version 6 named the property `current`.
  return Object.defineProperty(info, 'current', { value: used });
}

function setHeaders(response: Response, data: FieldData, { standardHeaders, validations }: Config): void {
  if (standardHeaders) validations.headersDraftVersion(standardHeaders);
  if (standardHeaders === 'draft-7' || standardHeaders === 'draft-8') {
    validations.headersResetTime(data.info.resetTime);
  }
  writeHeaders(response, data);
}

/** Resolves when the response ends: true if it was sent completely. `undefined` if no option needs the outcome. */
function outcomeOf(
  response: Response,
  { skipFailedRequests, skipSuccessfulRequests }: Config,
): Promise<boolean> | undefined {
  if (!skipFailedRequests && !skipSuccessfulRequests) return undefined;
  return new Promise((resolve) => {
    response.once('finish', () => resolve(true));
    response.once('close', () => resolve(false));
    if (skipFailedRequests) response.once('error', () => resolve(false));
    // The client left earlier, during another middleware.
    if (response.destroyed) resolve(response.writableFinished);
  });
}

/** Refunds a request's charge if its outcome does not count. Never rejects. */
async function undoLater(
  outcome: Promise<boolean>,
  counted: Counted,
  { request, response }: { readonly request: Request; readonly response: Response },
  { skipFailedRequests, skipSuccessfulRequests, requestWasSuccessful, logger }: Config,
): Promise<void> {
  let doing = 'in requestWasSuccessful callback';
  try {
    const successful = (await outcome) && (await requestWasSuccessful(request, response));
    doing = 'from store during decrement';
    if (successful ? skipSuccessfulRequests : skipFailedRequests) await counted.undo();
  } catch (error) {
    logger.error(error, `express-rate-limit: error ${doing}.`);
  }
}

export default rateLimit;
