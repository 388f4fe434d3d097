import type { FastifyReply, FastifyRequest } from 'fastify';
import { HeadgateError } from '../../common/errors.js';
import type { Counter } from './counter.js';
import { normalizeIP } from './normalize-ip.js';
import { toMax, toWindow, type Params } from './params.js';
import type { RateLimitResult } from './types.js';

const DEFAULT_LABELS = {
  limit: 'x-ratelimit-limit',
  remaining: 'x-ratelimit-remaining',
  reset: 'x-ratelimit-reset',
} as const;

const DRAFT_LABELS = {
  limit: 'ratelimit-limit',
  remaining: 'ratelimit-remaining',
  reset: 'ratelimit-reset',
} as const;

/** A rate limit with keys, a counter and answers. */
export class Limit {
  readonly #params: Params;
  readonly #counter: Counter;
  readonly #labels: Readonly<Record<keyof typeof DEFAULT_LABELS, string>>;

  constructor(params: Params, counter: Counter) {
    this.#params = params;
    this.#counter = counter;
    this.#labels = params.enableDraftSpec ? DRAFT_LABELS : DEFAULT_LABELS;
  }

  get hook(): Params['hook'] {
    return this.#params.hook;
  }

  /** Allows reading the count from now on. */
  readable(): this {
    this.#counter.readable = true;
    return this;
  }

  async check(req: FastifyRequest, increment = true): Promise<RateLimitResult> {
    const { ban: maxDenials, skipOnError } = this.#params;
    // The key is not converted, because callbacks receive the generator's result.
    const key = (await this.#params.keyGenerator(req)) as string;
    if (await this.#isAllowed(req, key)) return { isAllowed: true, key };
    const max = await this.#max(req, key);
    const timeWindow = await this.#timeWindow(req, key);
    if (!increment) this.#counter.checkReadable();

    let current = 0;
    let ttl = 0;
    try {
      const quota = { max, timeWindow, maxDenials };
      const count = await this.#counter[increment ? 'incr' : 'read'](key, quota);
      ({ current, ttl } = count);
    } catch (error) {
      if (!skipOnError) throw original(error);
    }
    return {
      isAllowed: false,
      key,
      max,
      timeWindow,
      remaining: Math.max(0, max - current),
      ttl,
      ttlInSeconds: Math.ceil(ttl / 1000),
      isExceeded: current > max,
      isBanned: maxDenials !== -1 && current - max > maxDenials,
    };
  }

  readonly handle = async (req: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const { seen } = this.#counter;
    if (seen.has(req)) return;
    seen.add(req);
    const result = await this.check(req);
    if (result.isAllowed) return;
    const { key, max, remaining, ttl, ttlInSeconds, isExceeded, isBanned } = result;
    const { addHeaders, addHeadersOnExceeding, onExceeding, onExceeded, onBanReach } = this.#params;
    const { limit, remaining: left, reset } = this.#labels;

    if (!isExceeded) {
      // With several limits, the fields show the tightest one.
      if (!(Number(reply.getHeader(left)) < remaining)) {
        if (addHeadersOnExceeding[limit] ?? true) reply.header(limit, max);
        if (addHeadersOnExceeding[left] ?? true) reply.header(left, remaining);
        if (addHeadersOnExceeding[reset] ?? true) reply.header(reset, ttlInSeconds);
      }
      onExceeding(req, key);
      return;
    }
    onExceeded(req, key);
    if (addHeaders[limit] ?? true) reply.header(limit, max);
    if (addHeaders[left] ?? true) reply.header(left, 0);
    if (addHeaders[reset] ?? true) reply.header(reset, ttlInSeconds);
    if (addHeaders['retry-after'] ?? true) reply.header('retry-after', ttlInSeconds);
    if (isBanned) onBanReach(req, key);
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- Fastify answers with any object
    throw this.#params.errorResponseBuilder(req, {
      statusCode: isBanned ? 403 : 429,
      ban: isBanned,
      max,
      ttl,
      after: inWords(ttlInSeconds),
    });
  };

  async #isAllowed(req: FastifyRequest, key: string): Promise<boolean> {
    const { allowList, keyIsAddress } = this.#params;
    if (allowList === null) return false;
    if (typeof allowList === 'function') return Boolean(await allowList(req, key));
    // The default key of an IPv6 client is a network, so the list is also searched for the address.
    return allowList.includes(key) || (keyIsAddress && allowList.includes(normalizeIP(req.ip, 128)));
  }

  async #max(req: FastifyRequest, key: string): Promise<number> {
    const { max } = this.#params;
    return typeof max === 'number' ? max : toMax(await max(req, key));
  }

  async #timeWindow(req: FastifyRequest, key: string): Promise<number> {
    const { timeWindow } = this.#params;
    return typeof timeWindow === 'number' ? timeWindow : toWindow(await timeWindow(req, key));
  }
}

/** The Redis client's own error, which applications recognize. */
function original(error: unknown): unknown {
  return error instanceof HeadgateError && error.cause instanceof Error ? original(error.cause) : error;
}

const UNITS = [
  ['year', 365.25 * 24 * 60 * 60],
  ['day', 24 * 60 * 60],
  ['hour', 60 * 60],
  ['minute', 60],
  ['second', 1],
] as const;

/** A duration in its largest unit, rounded: `'2 minutes'`. */
function inWords(seconds: number): string {
  const [unit, size] = UNITS.find(([, least]) => seconds >= least) ?? ['ms', 1];
  const count = Math.round(seconds / size);
  return `${count} ${unit}${count === 1 || unit === 'ms' ? '' : 's'}`;
}
