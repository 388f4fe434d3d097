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

/** The options of `limitFetch`, besides the options that create a limiter. */
export interface OutboundOptions {
  /**
   * Returns the key that a call counts for, or `undefined` if the call is not limited.
   *
   * @default the host: `(request) => new URL(request.url).host`
   */
  key?: (request: OutboundRequest) => string | undefined;
  /**
   * The cost of a call: whole units, or an object of them by policy name, or a function of the request that returns either. Calls with
   * different costs (an object, a function) are not evenly spaced.
   *
   * @default 1
   */
  cost?: Cost | ((request: OutboundRequest) => Cost);
  /**
   * The priority among the calls of this process that wait for the same key: a whole number from -1,000 to 1,000, or a function of the
   * request that returns one. The highest priority goes first.
   *
   * @default 0
   */
  priority?: number | ((request: OutboundRequest) => number);
  /**
   * The maximum time that a call waits for its turn, including all retries: ms or `'30s'`. A call that cannot go out in time is not sent.
   * Work of `schedule` by default waits without a time limit, and without the limits `maxWaiting` and `maxWaitingPerKey`, unless you set
   * them.
   *
   * @default '30s' for a call of the fetch and the interceptor
   */
  timeout?: Duration;
  /**
   * Whether to learn from the remaining units that every answer reports. A denial (429, or 403, 418, 420, 503, 509 and 529 with
   * `Retry-After`) is always obeyed.
   *
   * @default true
   */
  learn?: boolean;
  /**
   * Finds denials that no header field shows, such as GitHub's secondary limit, Shopify's `THROTTLED` and Linear's 400. Sync or async.
   * Returns the length of the key's pause, ms, or `undefined` if the status and the fields decide. To read the body, use
   * `response.clone()`. For the interceptor, the response has no body.
   */
  denied?: Denied;
  /**
   * The number of retries of a denied call, 0 to 10, each after the wait that the partner requests. `true`: 2 for every method. `false`:
   * none. Bodies that are streams are never sent again. At most one call in ten is a retry.
   *
   * @default 2 for idempotent methods
   */
  retry?: boolean | number;
  /** The longest pause that an answer may cause: ms or `'1m'`. @default '5m' */
  maxPause?: Duration;
  /**
   * The fraction by which windows are longer than the partner's, 0 to 1, because calls reach the partner later than they are admitted. By
   * default the margin is learnt for evenly spaced calls, in all processes: it begins at 0.03, doubles with a 429 up to 0.2, and shrinks
   * again while no call is denied. Learning needs a store with overrides.
   *
   * @default learnt
   */
  margin?: number;
  /** Receives every pause that this process begins. */
  onPause?: (pause: Pause) => void;
}

/** The options of `limitFetch`: a limiter or the options that create one, and the options of calls. */
export type LimitFetchOptions = LimitedBy<'timeout'> & OutboundOptions;

/** Options of `schedule`. */
export interface ScheduleOptions {
  /** The key that the work counts for. @default 'all' */
  key?: string;
  /** The cost of the work, whole units. @default 1 */
  cost?: Cost;
  /** The priority of the work, as in the options of `limitFetch`. @default 0 */
  priority?: number;
  /** Removes the work from the line when it is aborted. */
  signal?: AbortSignal;
}

type Fetch = typeof fetch;

/** The function that sends: the global `fetch`, or undici's, whose types depend on its version. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Sender = (input: any, init?: any) => Promise<{ status: number; headers: Pick<Headers, 'get'> }>;

/** A fetch that stays within a partner's limits. */
export interface LimitedFetch extends Fetch {
  /** The limiter that admits the calls. */
  readonly limiter: Limiter;
  /** Statistics of the calls of this process so far. */
  readonly stats: OutboundStats;
  /**
   * Calls a function at its turn, for work that is not a fetch. The wait is unlimited unless you set `timeout`, `maxWaiting` or
   * `maxWaitingPerKey`.
   *
   * @throws as the fetch
   */
  schedule<T>(work: () => T | Promise<T>, options?: ScheduleOptions): Promise<T>;
  /**
   * The interceptor for a dispatcher of undici 7 or later: `new Agent().compose(call.interceptor)`. Requests are sent at their turn, and
   * the limits are learnt from the answers. For retries, compose undici's `interceptors.retry()` before it.
   */
  readonly interceptor: Interceptor;
  /** Returns the decision that admitted the call of a response. */
  decisionOf(response: Response): Decision | undefined;
}

const OWN_OPTIONS = [
  ...['key', 'cost', 'priority', 'timeout', 'learn', 'denied', 'retry', 'maxPause', 'margin', 'onPause'],
];
/** Methods that are safe to send twice (RFC 9110). */
const IDEMPOTENT = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'];
/** The number of retries that are possible at once, and the fraction that each call adds. */
const BUDGET = 10;
const BUDGET_PER_CALL = 0.1;

/**
 * Creates a fetch that stays within a partner's limit, in all processes that share a store. Calls wait in line for their turn. When the
 * partner denies a call, all processes pause.
 *
 * @example
 * const call = limitFetch(fetch, { store, name: 'partner', policies: ['50/1s', '10000/1d'], timeout: '30s' })
 * const response = await call('https://api.example.com/items')
 *
 * @param sender the function that sends: the global `fetch`, or undici's
 * @param given the options, or the text of a single policy
 * @returns a function of the same type. It rejects with `HEADGATE_WAIT_TIMEOUT` and `HEADGATE_QUEUE_FULL`, with the reason of an aborted
 * signal, and as `fetch` does
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
    // A Response cannot have a status such as 999, which LinkedIn sends.
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
      // As in fetch, the rejection is the reason of the abort.
      if (error instanceof HeadgateError && error.code === 'HEADGATE_ABORTED') signal?.throwIfAborted();
      throw error;
    }
  };

  const call = async (input: Parameters<Fetch>[0], init?: RequestInit): Promise<Response> => {
    const request = describe(input, init);
    const id = key(request);
    if (id === undefined) return fetch(input, init);
    // As in fetch, the arguments count as they were at the time of the call, even if they are changed during the wait.
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
        // If the store cannot release a slot now, the slot expires with its lease.
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
      // The partner may have broken off in the middle of the answer, which is discarded.
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
  // An override shares the learnt margin with all processes.
  const isLearnt = options.margin === undefined && (store === undefined || store.overrides !== undefined);
  const how = { maxPause, learn, margin: isLearnt ? margin : undefined, onPause };
  if (limiter !== undefined) {
    if (!(limiter instanceof Limiter))
      throw invalidOption('limiter', limiter, 'Pass a limiter that createLimiter returned.');
    const others = Object.entries(options).filter(
      ([name, value]) => ![...OWN_OPTIONS, 'limiter'].includes(name) && value !== undefined,
    );
    if (others.length > 0 || options.margin !== undefined) {
      const names = [...others.map(([name]) => name), ...(options.margin === undefined ? [] : ['margin'])];
      throw invalidOption(
        names.join(', '),
        'passed with `limiter`',
        'Pass a limiter, or the options that create one, but not both.',
      );
    }
    checkByKey([limiter], OMIT_BY);
    const partners = limiter.policies.map(({ name, limit, window }) => ({
      ...{ name, limit, windowMs: window, isPaced: false },
    }));
    return new Outbound(limiter, partners, { ...how, margin: undefined });
  }
  if (typeof margin !== 'number' || !(margin >= 0 && margin <= 1))
    throw invalidOption('margin', margin, 'Pass a number from 0 to 1: 0.02 for 2 %.');
  const { policies, partners } = pace(
    policiesOf(options),
    margin,
    typeof cost === 'number' ? cost : undefined,
  );
  checkByKey([{ policies }], OMIT_BY);
  // `timeout` limits a call's wait. The store keeps its own default, because otherwise calls would hang that long on a stalled store.
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
    const why = `The request for ${show(url)} has no host, which is the default key.`;
    const fix = "undici's Pool and Client pass only a path. Set `key: () => 'partner'`, or compose an Agent.";
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

/** The request, if the first argument is a request. Its class may be undici's instead of the global one. */
function requestIn(input: string | URL | Request): Request | undefined {
  return typeof input === 'object' && 'url' in input ? input : undefined;
}

/**
 * The properties that `fetch` reads from its second argument, besides the headers. If the argument is a `Request`, they are not own
 * properties.
 */
const INIT_PROPERTIES = [
  ...['method', 'body', 'signal', 'duplex', 'redirect', 'mode', 'credentials', 'cache', 'referrer'],
  ...['referrerPolicy', 'integrity', 'keepalive'],
] as (keyof RequestInit)[];

function copyOf(init: RequestInit): RequestInit {
  const read = INIT_PROPERTIES.filter((name) => init[name] !== undefined).map((name) => [name, init[name]]);
  const copy = { ...init, ...Object.fromEntries(read) } as RequestInit;
  return init.body ? { ...copy, body: bodyOf(init.body) } : copy;
}

/** Copies a body that its owner could change. */
function bodyOf(body: NonNullable<RequestInit['body']>): NonNullable<RequestInit['body']> {
  if (body instanceof URLSearchParams) return new URLSearchParams(body);
  if (body instanceof ArrayBuffer) return body.slice(0);
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice();
  if (!(body instanceof FormData)) return body;
  const copy = new FormData();
  for (const [name, value] of body) copy.append(name, value);
  return copy;
}

/** Whether the body can be sent twice. A stream is consumed by the first call. */
function isReplayable(input: string | URL | Request, init: RequestInit | undefined): boolean {
  const body: unknown = init?.body ?? requestIn(input)?.body;
  return !(body instanceof ReadableStream) && !(Object(body) as object)[Symbol.asyncIterator as never];
}
