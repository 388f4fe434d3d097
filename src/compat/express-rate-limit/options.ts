import { isIPv6 } from 'node:net';
import type { Request } from 'express';
import { toMilliseconds, type Duration } from '../../common/duration.js';
import { invalidOption } from '../../common/errors.js';
import type { Store as HeadgateStore } from '../../contract/store.js';
import { checkStore } from '../../common/validate.js';
import { nodeResponse } from '../../http/node-response.js';
import type { Counter } from './counter.js';
import { ForeignCounter, modernized } from './foreign.js';
import { ipKeyGenerator } from './ip-key-generator.js';
import { MemoryStore } from './memory-store.js';
import { Quota } from './quota.js';
import type {
  AugmentedRequest,
  DraftHeadersVersion,
  Logger,
  Options,
  RateLimitOptions,
  Store,
  ValueDeterminingMiddleware,
} from './types.js';
import { getValidations, type Validations } from './validations.js';

export interface Config extends Omit<Options, 'store' | 'standardHeaders'> {
  readonly store: NonNullable<RateLimitOptions['store']>;
  readonly name?: string;
  readonly timeout?: Duration;
  readonly standardHeaders: DraftHeadersVersion | false;
  readonly validations: Validations;
}

/* eslint-disable no-console -- the default destination of warnings */
const consoleLogger: Logger = {
  warn: (...args) => console.warn(...args.reverse()),
  error: (...args) => console.error(...args.reverse()),
};
/* eslint-enable no-console */

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function configure(passed: RateLimitOptions | null): Config {
  // A store that is null, 0 or '' counts as missing, as from a missing setting.
  const given = Object.fromEntries(
    Object.entries(passed ?? {}).filter(([name, value]) =>
      name === 'store' ? Boolean(value) : value !== undefined,
    ),
  ) as RateLimitOptions;
  const logger = given.logger ?? consoleLogger;
  const validations = getValidations(given.validate ?? true, logger);
  checkOptions(given, validations);
  const config: Config = {
    windowMs: 60_000,
    limit: given.max ?? 5,
    message: 'Too many requests, please try again later.',
    statusCode: 429,
    legacyHeaders: given.headers ?? true,
    identifier: (request) => nameOf(request, config),
    requestPropertyName: 'rateLimit',
    skipFailedRequests: false,
    skipSuccessfulRequests: false,
    requestWasSuccessful: (_request, response) => response.statusCode < 400,
    skip: () => false,
    // A promise is returned only if necessary, so that most requests do not wait.
    keyGenerator: (request, response) => {
      // Express works the address out at each read.
      const ip = request.ip!;
      validations.ip(ip);
      validations.trustProxy(request);
      validations.xForwardedForHeader(request);
      validations.forwardedHeader(request);
      const { ipv6Subnet } = config;
      if (typeof ipv6Subnet !== 'function' || !isIPv6(ip)) {
        return ipKeyGenerator(ip, ipv6Subnet as number | false);
      }
      return Promise.resolve(ipv6Subnet(request, response)).then((subnet) => {
        validations.ipv6Subnet(subnet);
        return ipKeyGenerator(ip, subnet);
      });
    },
    ipv6Subnet: 56,
    handler: async (request, response) => {
      response.status(config.statusCode);
      const message: unknown = config.message;
      const body: unknown =
        typeof message === 'function'
          ? await (message as ValueDeterminingMiddleware<unknown>)(request, response)
          : message;
      if (!response.headersSent) response.send(body);
      else if (nodeResponse.isOpen(response)) nodeResponse.cut(response);
    },
    passOnStoreError: false,
    store: new MemoryStore(),
    validate: validations.enabled,
    ...given,
    standardHeaders: given.standardHeaders === true ? 'draft-6' : (given.standardHeaders ?? false),
    validations,
    logger,
  };
  if (typeof config.limit !== 'function') checkLimit(config.limit);
  // Without this check, only requests from IPv6 clients would fail.
  if (typeof config.ipv6Subnet !== 'function' && !given.keyGenerator) ipKeyGenerator('::', config.ipv6Subnet);
  return config;
}

function checkOptions(given: RateLimitOptions, validations: Validations): void {
  const { draft_polli_ratelimit_headers, onLimitReached } = given as Record<string, unknown>;
  const { ipv6Subnet, keyGenerator } = given;
  validations.validationsConfig();
  validations.knownOptions(given);
  validations.draftPolliHeaders(draft_polli_ratelimit_headers);
  validations.onLimitReached(onLimitReached);
  if (ipv6Subnet !== undefined && typeof ipv6Subnet !== 'function') validations.ipv6Subnet(ipv6Subnet);
  validations.keyGeneratorIpFallback(keyGenerator);
  validations.ipv6SubnetOrKeyGenerator(given);
}

/**
 * Checks the `limit` option: a number, or text as in environment variables.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function checkLimit(limit: unknown): number {
  const units = typeof limit === 'string' && limit.trim() !== '' ? Number(limit) : limit;
  if (typeof units !== 'number' || Number.isNaN(units)) {
    throw invalidOption('limit', limit, 'Pass a number of requests, or a function that returns one.');
  }
  return units;
}

const UNITS = [
  [86_400_000, 'day', 's'],
  [3_600_000, 'hr', 's'],
  [60_000, 'min', ''],
  [0, 'sec', ''],
] as const;

/** A policy's name: `5-in-2hrs`. */
function nameOf(request: Request, { requestPropertyName, windowMs }: Config): string {
  const { limit } = (request as AugmentedRequest)[requestPropertyName]!;
  const [ms, unit, plural] = UNITS.find(([least]) => windowMs >= least)!;
  const count = windowMs / (ms || 1000);
  return `${limit}-in-${count}${unit}${count > 1 ? plural : ''}`;
}

/** The counter for the `store` option. @throws HeadgateError `HEADGATE_INVALID_OPTION`, and the errors of a limiter's name */
export function counterOf(config: Config): Counter {
  const { store, windowMs, name, timeout, validations } = config;
  if (isHeadgateStore(store)) {
    validations.creationStack({});
    return new Quota({ store: checkStore(store), windowMs, name, timeout });
  }
  const modern = modernized(store);
  checkForeignStore(modern);
  validations.creationStack(modern);
  validations.unsharedStore(modern);
  const foreign = new ForeignCounter(modern, toMilliseconds('timeout', timeout ?? '1s'));
  if (!(modern instanceof MemoryStore)) {
    initialize(modern, config);
    return foreign;
  }
  modern.init(config);
  return {
    count: (key, limit) => modern.count(key, limit) ?? foreign.count(key, limit),
    resetKey: (key) => modern.resetKey(key),
    get: (key) => modern.get(key),
  };
}

export function isHeadgateStore(store: Config['store']): store is HeadgateStore {
  return 'decide' in Object(store);
}

function checkForeignStore(store: Store): void {
  const { increment, decrement, resetKey, resetAll = increment, init = increment } = store;
  if ([increment, decrement, resetKey, resetAll, init].every((method) => typeof method === 'function'))
    return;
  throw invalidOption(
    'store',
    store,
    'Pass a store of Headgate, or a store of express-rate-limit with the methods increment, decrement and resetKey.',
  );
}

/** Starts a store. A failure is only logged, because the store may work later. */
function initialize(store: Store, config: Config): void {
  const report =
    (what: string) =>
    (error: unknown): void =>
      config.logger.error(error, `express-rate-limit: ${what} during store initialization.`);
  try {
    Promise.resolve(store.init?.(optionsOf(config))).catch(report('async error'));
  } catch (error) {
    report('error')(error);
  }
}

/** The options that stores and handlers receive. */
export function optionsOf({ validations, ...options }: Config): Options {
  return { ...options, validate: validations.enabled } as Options;
}
