import type { FastifyRequest } from 'fastify';
import { exactMilliseconds } from '../../common/duration.js';
import { HeadgateError, invalidOption } from '../../common/errors.js';
import { checkChoice } from '../../common/validate.js';
import { HOOKS } from '../../http/adapters/route-config.js';
import { DEFAULT_SUBNET, normalizeIP } from './normalize-ip.js';
import type { errorResponseBuilderContext, RateLimitPluginOptions } from './types.js';

type Callback = (req: FastifyRequest, key: string) => unknown;

type Fields = Readonly<Record<string, boolean | undefined>>;

/** The options of a limit with all defaults, as a custom store also receives them. */
export type Params = Readonly<ReturnType<typeof compileParams>>;

const DIGITS = /^\d+$/;

/**
 * Reads the user's options. Unknown options and values of a wrong type are ignored, as in @fastify/rate-limit. Options that would disable
 * the limit or give an unintended window throw.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION` for a wrong `timeWindow`, `hook` or `groupId`
 */
export function compileParams(options: RateLimitPluginOptions) {
  const ipv6Subnet = subnetOf(options.ipv6Subnet);
  const given = functionIn(options.keyGenerator);
  return {
    max: isCount(options.max) ? Math.trunc(options.max) : (functionIn(options.max) ?? 1000),
    timeWindow: windowOf(options.timeWindow),
    ban: isCount(options.ban) ? Math.trunc(options.ban) : -1,
    hook: checkChoice('hook', options.hook ?? 'onRequest', HOOKS),
    cache: options.cache,
    groupId: groupOf(options.groupId),
    allowList: (options.allowList || null) as readonly unknown[] | Callback | null,
    keyGenerator: (given ?? ((req) => normalizeIP(req.ip, ipv6Subnet))) as (req: FastifyRequest) => unknown,
    keyIsAddress: given === undefined,
    ipv6Subnet,
    continueExceeding: options.continueExceeding === true,
    exponentialBackoff: options.exponentialBackoff === true,
    skipOnError: options.skipOnError === true,
    enableDraftSpec: options.enableDraftSpec === true,
    addHeaders: { ...options.addHeaders } as Fields,
    addHeadersOnExceeding: { ...options.addHeadersOnExceeding } as Fields,
    onExceeding: functionIn(options.onExceeding) ?? nothing,
    onExceeded: functionIn(options.onExceeded) ?? nothing,
    onBanReach: functionIn(options.onBanReach) ?? nothing,
    errorResponseBuilder: functionIn(options.errorResponseBuilder) ?? defaultError,
  };
}

function functionIn<T>(value: T): Extract<T, (...args: never[]) => unknown> | undefined {
  return typeof value === 'function' ? (value as Extract<T, (...args: never[]) => unknown>) : undefined;
}

function isCount(value: unknown): value is number {
  return Number.isFinite(value) && (value as number) >= 0;
}

function subnetOf(bits: unknown): number {
  return isCount(bits) && bits <= 128 ? Math.trunc(bits) : DEFAULT_SUBNET;
}

function windowOf(value: RateLimitPluginOptions['timeWindow']): number | Callback {
  if (typeof value === 'function') return value;
  return typeof value === 'string' || isCount(value) ? toWindow(value) : 60_000;
}

/** Reads a `timeWindow`, also from a function. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function toWindow(value: unknown): number {
  if (typeof value === 'number') return exactMilliseconds('timeWindow', Math.trunc(value));
  if (typeof value !== 'string') return exactMilliseconds('timeWindow', value);
  // @fastify/rate-limit reads units in any case, so '1M' is a minute.
  return exactMilliseconds(
    'timeWindow',
    DIGITS.test(value) ? Number(value) : value.toLowerCase().replace(/^\./, '0.'),
  );
}

/** Reads the `max` that a function returned. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function toMax(value: unknown): number {
  if (typeof value === 'number' && !Number.isNaN(value)) return value;
  throw invalidOption('max', value, 'Return a number.');
}

function groupOf(groupId: unknown): string | undefined {
  if (groupId === undefined || typeof groupId === 'string') return groupId || undefined;
  throw new HeadgateError('HEADGATE_INVALID_OPTION', 'groupId must be a string');
}

function nothing(): void {}

function defaultError(_req: FastifyRequest, { statusCode, after }: errorResponseBuilderContext): Error {
  return Object.assign(new Error(`Rate limit exceeded, retry in ${after}`), { statusCode });
}
