import type { Decision } from '../common/decision.js';
import { toMilliseconds, type Duration } from '../common/duration.js';
import { HeadgateError, invalidOption, show } from '../common/errors.js';
import { checkBoolean, checkFunction, checkInteger, checkShape } from '../common/validate.js';
import { checkCosts, type Cost } from '../contract/costs.js';
import { assembleLimiter, checkOptions } from '../limiter/create-limiter.js';
import { Limiter } from '../limiter/limiter.js';
import { checkPriority, INLINE_FIELDS, LIMITER_OPTIONS, optionsOf, policiesOf } from '../limiter/options.js';
import { checkByKey, type LimitedBy } from '../limiter/rate-limited.js';
import { askDenied, type Denied } from './denial.js';
import { interceptorOf, responseOf, type Interceptor } from './interceptor.js';
import { Outbound, type OutboundRequest, type OutboundStats, type PartnerAnswer } from './outbound.js';
import type { Pause } from './pauses.js';
import { MARGIN, pace } from './pacing.js';

/** The options of `limitFetch` beside those that make a limiter. */
export interface OutboundOptions {
  /**
   * Whose limit a call counts for, as `(request) => new URL(request.url).host`, which is the default. `undefined`: the call is not limited.
   */
  key?: (request: OutboundRequest) => string | undefined;
  /**
   * What a call costs: whole units, or an object of them by policy name, or a function of the request that returns either. Default 1. Calls
   * whose costs differ (an object, a function) are not spaced evenly.
   */
  cost?: Cost | ((request: OutboundRequest) => Cost);
  /**
   * Whose turn comes first among the calls of this process that wait for a key: a whole number from -1,000 to 1,000, or a function of the
   * request that returns one. Default 0. The highest goes first.
   */
  priority?: number | ((request: OutboundRequest) => number);
  /**
   * How long a call may wait for its turn, all retries together: ms or `'30s'`. Then it is not sent. Default `'30s'` for a call of the fetch
   * and the interceptor. Work of `schedule` waits without a time limit by default, and also without a limit of `maxWaiting` and
   * `maxWaitingPerKey`, unless you set them.
   */
  timeout?: Duration;
  /**
   * Whether to learn from the units left that every answer reports. Default `true`. A denial (429, or 403, 418, 420, 503, 509 and 529 with
   * `Retry-After`) is always obeyed.
   */
  learn?: boolean;
  /**
   * Finds denials that no header field shows, such as GitHub's secondary limit, Shopify's `THROTTLED` and Linear's 400. Returns how long
   * the key pauses, ms, or `undefined` if the status and the fields decide. To read the body, read that of `response.clone()`. It may be
   * async. For the interceptor, the response has no body.
   */
  denied?: Denied;
  /**
   * How often a call that was denied is sent again: 0 to 10, after the wait that the partner asks for. Default: twice, if its method is
   * idempotent. `true`: twice, whatever its method. `false`: never. Bodies that are streams are never sent again. At most one call in ten
   * is a retry.
   */
  retry?: boolean | number;
  /** The longest pause that an answer may cause: ms or `'1m'`. Default `'5m'`. */
  maxPause?: Duration;
  /**
   * By which part windows are longer than the partner's, because calls reach it later than they are admitted: 0 to 1. Default: learnt. It
   * begins at 0.03, and doubles with an answer of 429 up to 0.2, for calls that are spaced evenly, in all processes. It shrinks again while
   * no call is denied. For that the store keeps overrides.
   */
  margin?: number;
  /** Is told of every pause that this process begins. */
  onPause?: (pause: Pause) => void;
}

/** The options of `limitFetch`: a limiter, or what makes one, and how calls go out. */
export type LimitFetchOptions = LimitedBy<'timeout'> & OutboundOptions;

/** Options of `schedule`. */
export interface ScheduleOptions {
  /** Whose limit the work counts for. Default `'all'`. */
  key?: string;
  /** What it costs. Default 1. */
  cost?: Cost;
  /** Whose turn comes first: see the option of `limitFetch`. Default 0. */
  priority?: number;
  /** Leaves the line when it is aborted. */
  signal?: AbortSignal;
}

type Fetch = typeof fetch;

/** What sends: the global `fetch`, or undici's, the types of which depend on its version. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Sender = (input: any, init?: any) => Promise<{ status: number; headers: Pick<Headers, 'get'> }>;

/** A fetch that keeps to a partner's limits. */
export interface LimitedFetch extends Fetch {
  /** The limiter that admits the calls. */
  readonly limiter: Limiter;
  /** What happened to the calls of this process so far. */
  readonly stats: OutboundStats;
  /**
   * Calls a function at its turn, for work that is not a fetch. Work waits as long as it takes, unless you set `timeout`, `maxWaiting` or
   * `maxWaitingPerKey`.
   *
   * @throws as the fetch
   */
  schedule<T>(work: () => T | Promise<T>, options?: ScheduleOptions): Promise<T>;
  /**
   * The same for a dispatcher of undici 7 or later: `new Agent().compose(call.interceptor)`. Requests are sent at their turn, and answers
   * are learnt from. Nothing is sent again; for that, compose undici's `interceptors.retry()` before it.
   */
  readonly interceptor: Interceptor;
  /** The decision that let the call go out which a response answers. */
  decisionOf(response: Response): Decision | undefined;
}

const OWN_OPTIONS = [
  ...['key', 'cost', 'priority', 'timeout', 'learn', 'denied', 'retry', 'maxPause', 'margin', 'onPause'],
];
/** Methods that mean the same when they are sent twice (RFC 9110). */
const IDEMPOTENT = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'];
/** Retries that may be made at once, and how many each call adds. */
const BUDGET = 10;
const BUDGET_PER_CALL = 0.1;

/**
 * Makes a fetch that keeps to somebody else's limit, in all processes that share a store. Calls wait in line for their turn. When the
 * partner says that it has had enough, all processes pause.
 *
 * @example
 * const call = limitFetch(fetch, { store, name: 'partner', policies: ['50/1s', '10000/1d'], timeout: '30s' })
 * const response = await call('https://api.example.com/items')
 *
 * @param sender the function that sends: the global `fetch`, or undici's
 * @param given the options, or the text of a single policy
 * @returns a function of the same type. It rejects with `HEADGATE_WAIT_TIMEOUT` and `HEADGATE_QUEUE_FULL`, with the reason of a signal that
 * is aborted, and as `fetch` does
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_DIMENSION`, and as
 * `createLimiter`
 */
export function limitFetch(sender: Sender, given: string | LimitFetchOptions): LimitedFetch {
  if (typeof sender !== 'function')
    throw invalidOption('fetch', sender, 'Pass the function that sends: fetch.');
  const fetch = sender as Fetch;
  const options = optionsOf<object>(given) as LimitFetchOptions;
  const outbound = outboundOf(options);
  const { key = hostOf, cost = 1, priority = 0, retry, denied } = options;
  const timeout = toMilliseconds('timeout', options.timeout ?? '30s');
  const retries = typeof retry === 'number' ? checkInteger('retry', retry, 0, 10) : retry === false ? 0 : 2;
  if (typeof retry !== 'number') checkBoolean('retry', retry, true);
  checkFunction('key', options.key);
  checkFunction('denied', denied);
  if (typeof priority !== 'function') checkPriority(priority);
  const decisions = new WeakMap<Response, Decision>();
  const { stats, limiter } = outbound;
  let budget = BUDGET;

  const learn = async (
    id: string,
    { status, field }: PartnerAnswer,
    decision: Decision,
    response: () => Response,
  ): Promise<number | undefined> => {
    // A Response cannot have a status like 999, which LinkedIn sends.
    const askedMs = denied && status < 600 ? await askDenied(denied, response) : undefined;
    return outbound.learn(id, { status, field, askedMs }, decision);
  };

  const admit = async (
    id: string,
    units: Cost,
    deadline: number,
    signal: AbortSignal | undefined,
    priority: number,
  ): Promise<Decision> => {
    try {
      return await outbound.admit(id, units, deadline, signal, priority);
    } catch (error) {
      // As fetch does: whoever aborts gets the reason that they gave.
      if (error instanceof HeadgateError && error.code === 'HEADGATE_ABORTED') signal?.throwIfAborted();
      throw error;
    }
  };

  const call = async (input: Parameters<Fetch>[0], init?: RequestInit): Promise<Response> => {
    const request = describe(input, init);
    const id = key(request);
    if (id === undefined) return fetch(input, init);
    // As fetch does: all is as it was at the time of the call, whatever becomes of the objects while it waits.
    if (input instanceof URL) input = request.url;
    if (init) init = { ...copyOf(init), ...(init.headers && { headers: new Headers(request.headers) }) };
    const units = typeof cost === 'function' ? cost(request) : cost;
    const urgency = typeof priority === 'function' ? priority(request) : priority;
    const signal = (init?.signal === undefined ? requestIn(input)?.signal : init.signal) ?? undefined;
    signal?.throwIfAborted();
    const deadline = performance.now() + timeout;
    const isSafe =
      (retry === true || typeof retry === 'number' || IDEMPOTENT.includes(request.method)) &&
      isReplayable(input, init);
    budget = Math.min(BUDGET, budget + BUDGET_PER_CALL);
    for (let left = isSafe ? retries : 0; ; left--) {
      const decision = await admit(id, units, deadline, signal, urgency);
      let response: Response;
      try {
        response = await fetch(input, init);
      } finally {
        // If a slot cannot be given back now, it is free at the end of its lease.
        await decision.release().catch(() => {});
      }
      decisions.set(response, decision);
      const { status, headers } = response;
      const answer = { status, field: (name: string) => headers.get(name) };
      const pause = await learn(id, answer, decision, () => response);
      const isLate = pause === undefined || performance.now() + pause > deadline;
      if (isLate || left === 0 || budget < 1) return response;
      budget--;
      stats.retries++;
      // The partner may have broken off in the middle of the answer, which nobody reads.
      await response.body?.cancel().catch(() => {});
    }
  };

  const schedule = async <T>(work: () => T | Promise<T>, its: ScheduleOptions = {}): Promise<T> => {
    checkShape('schedule', its, ['key', 'cost', 'priority', 'signal']);
    const { key: id = 'all', cost: units = 1, signal, priority: urgency = 0 } = its;
    const deadline = options.timeout === undefined ? Infinity : performance.now() + timeout;
    const decision = await admit(id, units, deadline, signal, urgency);
    try {
      return await work();
    } finally {
      await decision.release().catch(() => {});
    }
  };
  const decisionOf = (response: Response): Decision | undefined => decisions.get(response);
  const interceptor = interceptorOf((request, signal) => {
    const id = key(request);
    if (id === undefined) return undefined;
    const units = typeof cost === 'function' ? cost(request) : cost;
    const urgency = typeof priority === 'function' ? priority(request) : priority;
    return admit(id, units, performance.now() + timeout, signal, urgency).then((decision) => ({
      decision,
      learn: (status, values) => {
        const answer = { status, field: (name: string) => values[name]?.toString() };
        return learn(id, answer, decision, () => responseOf(status, values));
      },
    }));
  });
  return Object.assign(call, { limiter, stats, schedule, interceptor, decisionOf });
}

const OMIT_BY = 'Omit `by`: the option `key` of limitFetch returns the key of a call.';

/** @throws HeadgateError for options that are not valid */
function outboundOf(options: LimitFetchOptions): Outbound {
  checkOptions('limitFetch', options, ['limiter', ...OWN_OPTIONS, ...LIMITER_OPTIONS, ...INLINE_FIELDS]);
  const { limiter, cost = 1, margin = MARGIN, onPause, store } = options;
  if (typeof cost !== 'function') checkCosts(cost);
  const maxPause = toMilliseconds('maxPause', options.maxPause ?? '5m');
  const learn = checkBoolean('learn', options.learn, true);
  checkFunction('onPause', onPause);
  checkFunction('onDecision', options.onDecision);
  // A margin is learnt for all processes by an override.
  const isLearnt = options.margin === undefined && (store === undefined || store.overrides !== undefined);
  const how = { maxPause, learn, margin: isLearnt ? margin : undefined, onPause };
  if (limiter !== undefined) {
    if (!(limiter instanceof Limiter))
      throw invalidOption('limiter', limiter, 'Write what createLimiter returns.');
    const others = Object.entries(options).filter(
      ([name, value]) => ![...OWN_OPTIONS, 'limiter'].includes(name) && value !== undefined,
    );
    if (others.length > 0 || options.margin !== undefined) {
      const names = [...others.map(([name]) => name), ...(options.margin === undefined ? [] : ['margin'])];
      throw invalidOption(
        names.join(', '),
        'given with `limiter`',
        'Write a limiter, or the options of one.',
      );
    }
    checkByKey([limiter], OMIT_BY);
    const partners = limiter.policies.map(({ name, limit, window }) => ({
      ...{ name, limit, windowMs: window, isPaced: false },
    }));
    return new Outbound(limiter, partners, { ...how, margin: undefined });
  }
  if (typeof margin !== 'number' || !(margin >= 0 && margin <= 1))
    throw invalidOption('margin', margin, 'Write a number from 0 to 1: 0.02 for 2 %.');
  const { policies, partners } = pace(
    policiesOf(options),
    margin,
    typeof cost === 'number' ? cost : undefined,
  );
  checkByKey([{ policies }], OMIT_BY);
  // `timeout` is how long a call waits. The store keeps its own default, or calls would hang for so long when it stalls.
  const rest = Object.entries(options).filter(
    ([name, value]) =>
      value !== undefined && LIMITER_OPTIONS.includes(name as never) && !OWN_OPTIONS.includes(name),
  );
  const made = assembleLimiter(
    {
      ban: {},
      ...(isLearnt && { overrides: true }),
      ...Object.fromEntries(rest),
      policies,
      onDecision: (decision) => {
        outbound.see(decision);
        return options.onDecision?.(decision);
      },
    },
    { defaultName: 'fetch', ...(typeof cost === 'number' && { cost }) },
  );
  const outbound: Outbound = new Outbound(made, partners, how);
  return outbound;
}

function hostOf({ url }: OutboundRequest): string {
  if (url.startsWith('/')) {
    const why = `The request for ${show(url)} has no host, by which calls are limited.`;
    const fix = "A Pool and a Client of undici tell none: write `key: () => 'partner'`, or compose an Agent.";
    throw new HeadgateError('HEADGATE_INVALID_KEY', `${why} ${fix}`);
  }
  return new URL(url).host;
}

function describe(input: string | URL | Request, init: RequestInit | undefined): OutboundRequest {
  const from = requestIn(input);
  return {
    url: typeof input === 'string' ? input : (from?.url ?? (input as URL).href),
    method: (init?.method ?? from?.method ?? 'GET').toUpperCase(),
    headers: new Headers(init?.headers ?? from?.headers),
  };
}

/** The request, if the first argument is one. It may be of undici's class, and not the global one. */
function requestIn(input: string | URL | Request): Request | undefined {
  return typeof input === 'object' && 'url' in input ? input : undefined;
}

/** What `fetch` reads of its second argument besides the headers. If that is a `Request`, these are no properties of its own. */
const READ = [
  ...['method', 'body', 'signal', 'duplex', 'redirect', 'mode', 'credentials', 'cache', 'referrer'],
  ...['referrerPolicy', 'integrity', 'keepalive'],
] as (keyof RequestInit)[];

function copyOf(init: RequestInit): RequestInit {
  const read = READ.filter((name) => init[name] !== undefined).map((name) => [name, init[name]]);
  const copy = { ...init, ...Object.fromEntries(read) } as RequestInit;
  return init.body ? { ...copy, body: bodyOf(init.body) } : copy;
}

/** A copy of a body that can be changed. */
function bodyOf(body: NonNullable<RequestInit['body']>): NonNullable<RequestInit['body']> {
  if (body instanceof URLSearchParams) return new URLSearchParams(body);
  if (body instanceof ArrayBuffer) return body.slice(0);
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice();
  if (!(body instanceof FormData)) return body;
  const copy = new FormData();
  for (const [name, value] of body) copy.append(name, value);
  return copy;
}

/** Whether the body can be sent a second time: a stream is used up by the first. */
function isReplayable(input: string | URL | Request, init: RequestInit | undefined): boolean {
  const body: unknown = init?.body ?? requestIn(input)?.body;
  return !(body instanceof ReadableStream) && !(Object(body) as object)[Symbol.asyncIterator as never];
}
