import type { Decision } from '../common/decision.js';
import { HeadgateError, invalidOption, show } from '../common/errors.js';
import { readOptions } from '../common/options.js';
import { checkShape } from '../common/validate.js';
import type { Cost } from '../contract/costs.js';
import { checkOptions } from '../limiter/create-limiter.js';
import type { Limiter } from '../limiter/limiter.js';
import { CREATING_OPTIONS, optionsOf } from '../limiter/options.js';
import { copyOf, describe, isReplayable, requestIn } from './arguments.js';
import { askDenied } from './denial.js';
import { interceptorOf, responseOf, type Interceptor } from './interceptor.js';
import type { OutboundCall, OutboundRequest, OutboundStats, PartnerAnswer } from './outbound.js';
import { OUTBOUND_TABLE, outboundOf, type LimitFetchOptions, type OfRequest } from './outbound-options.js';

/** Options of `schedule`. */
export interface ScheduleOptions {
  /** The key for which the work counts. @default 'all' */
  key?: string | undefined;
  /** The cost of the work, whole units: at most the option `cost` of `limitFetch`, unless that is a function. @default 1 */
  cost?: Cost | undefined;
  /** The priority of the work, as in the options of `limitFetch`. @default 0 */
  priority?: number | undefined;
  /** Removes the work from the line when it is aborted. */
  signal?: AbortSignal | undefined;
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
   * the limits are learnt from the answers. For retries, compose undici's `interceptors.retry()` before the interceptor.
   */
  readonly interceptor: Interceptor;
  /** Returns the decision that admitted the call of a response. */
  decisionOf(response: Response): Decision | undefined;
}

/** The retries of a call, unless the option `retry` is a number or false. */
const DEFAULT_RETRIES = 2;

/** Methods that are safe to send twice (RFC 9110). */
const IDEMPOTENT = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'];
/** The number of retries that are possible at once, and the fraction added by each call. */
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
 * @returns a function of the same type, which rejects with `HEADGATE_WAIT_TIMEOUT` and `HEADGATE_QUEUE_FULL`, with the reason of an aborted
 * signal, and as `fetch` does
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_DIMENSION`, and as
 * `createLimiter`
 */
export function limitFetch(sender: Sender, given: string | LimitFetchOptions): LimitedFetch {
  if (typeof sender !== 'function')
    throw invalidOption('fetch', sender, 'Pass the function that sends: fetch.');
  const fetch = sender as Fetch;
  const options = optionsOf<object>(given) as LimitFetchOptions;
  checkOptions('limitFetch', options, ['limiter', ...Object.keys(OUTBOUND_TABLE), ...CREATING_OPTIONS]);
  const {
    key = hostOf,
    cost,
    priority,
    retry,
    denied,
    timeout,
    ...rest
  } = readOptions(OUTBOUND_TABLE, options);
  const retries = typeof retry === 'number' ? retry : retry === false ? 0 : DEFAULT_RETRIES;
  const outbound = outboundOf(options, { cost, ...rest });
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

  const admit = async (call: OutboundCall): Promise<Decision> => {
    try {
      return await outbound.admit(call);
    } catch (error) {
      // As in fetch, the rejection is the reason of the abort.
      if (error instanceof HeadgateError && error.code === 'HEADGATE_ABORTED') call.signal?.throwIfAborted();
      throw error;
    }
  };

  const call = async (input: Parameters<Fetch>[0], init?: RequestInit): Promise<Response> => {
    const request = describe(input, init);
    const id = key(request);
    if (id === undefined) return fetch(input, init);
    // As in fetch, the arguments count as of the time of the call, even if changed during the wait.
    if (input instanceof URL) input = request.url;
    if (init) init = { ...copyOf(init), ...(init.headers && { headers: new Headers(request.headers) }) };
    const units = valueFor(request, cost);
    const urgency = valueFor(request, priority);
    const signal = (init?.signal === undefined ? requestIn(input)?.signal : init.signal) ?? undefined;
    signal?.throwIfAborted();
    const deadline = performance.now() + timeout;
    const isSafe =
      (retry === true || typeof retry === 'number' || IDEMPOTENT.includes(request.method)) &&
      isReplayable(input, init);
    budget = Math.min(BUDGET, budget + BUDGET_PER_CALL);
    for (let left = isSafe ? retries : 0; ; left--) {
      const decision = await admit({ key: id, cost: units, deadline, signal, priority: urgency });
      let response: Response;
      try {
        response = await fetch(input, init);
      } finally {
        await outbound.end(id, decision);
      }
      decisions.set(response, decision);
      const { status, headers } = response;
      const answer = { status, field: (name: string) => headers.get(name) };
      const pause = await learn(id, answer, decision, () => response);
      const isLate = pause === undefined || performance.now() + pause > deadline;
      if (isLate || left === 0 || budget < 1) return response;
      budget--;
      stats.retries++;
      // The partner may have broken off in the middle of the answer, which is discarded. Without `await`, because the body of a response
      // that `denied` has cloned is cancelled only when the clone is, too.
      response.body?.cancel().catch(() => {});
    }
  };

  const schedule = async <T>(work: () => T | Promise<T>, its: ScheduleOptions = {}): Promise<T> => {
    checkShape('schedule', its, ['key', 'cost', 'priority', 'signal']);
    const { key: id = 'all', cost: units = 1, signal, priority: urgency = 0 } = its;
    const deadline = options.timeout === undefined ? Infinity : performance.now() + timeout;
    const decision = await admit({ key: id, cost: units, deadline, signal, priority: urgency });
    try {
      return await work();
    } finally {
      await outbound.end(id, decision);
    }
  };
  const decisionOf = (response: Response): Decision | undefined => decisions.get(response);
  const interceptor = interceptorOf((request, signal) => {
    const id = key(request);
    if (id === undefined) return undefined;
    const units = valueFor(request, cost);
    const urgency = valueFor(request, priority);
    return admit({
      key: id,
      cost: units,
      deadline: performance.now() + timeout,
      signal,
      priority: urgency,
    }).then((decision) => ({
      decision,
      learn: (status, values) => {
        const answer = { status, field: (name: string) => values[name]?.toString() };
        return learn(id, answer, decision, () => responseOf(status, values));
      },
    }));
  });
  return Object.assign(call, { limiter, stats, schedule, interceptor, decisionOf });
}

function valueFor<T extends Cost>(request: OutboundRequest, option: T | OfRequest<T>): T {
  return typeof option === 'function' ? option(request) : option;
}

function hostOf({ url }: OutboundRequest): string {
  if (url.startsWith('/')) {
    const why = `The request for ${show(url)} has no host, which is the default key.`;
    const fix = "undici's Pool and Client pass only a path. Set `key: () => 'partner'`, or compose an Agent.";
    throw new HeadgateError('HEADGATE_INVALID_KEY', `${why} ${fix}`);
  }
  return new URL(url).host;
}
