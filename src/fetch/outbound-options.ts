import { orUnlimited } from '../contract/compile-policies.js';
import type { Duration } from '../common/duration.js';
import {
  boolean,
  duration,
  fn,
  number,
  optional,
  orFunction,
  type OptionTable,
  type OptionValues,
} from '../common/options.js';
import { compileWarnings, warningBy } from '../common/warnings.js';
import { checkBoolean, checkInteger } from '../common/validate.js';
import { checkCosts, UNITS, type Cost } from '../contract/costs.js';
import { assembleLimiter, givenLimiter } from '../limiter/create-limiter.js';
import { checkPriority, CREATING_OPTIONS, LIMITER_OPTIONS, policiesOf } from '../limiter/options.js';
import { checkByKey, type LimitedBy } from '../limiter/rate-limited.js';
import type { Denied } from './denial.js';
import { Outbound, type OutboundRequest } from './outbound.js';
import { MARGIN, pace } from './pacing.js';
import type { Pause } from './pauses.js';

/** The options of `limitFetch`, besides the options that create a limiter. */
export interface OutboundOptions {
  /**
   * Returns the key of a call, or `undefined` if the call is not limited.
   *
   * @default the host: `(request) => new URL(request.url).host`
   */
  key?: (request: OutboundRequest) => string | undefined;
  /**
   * The cost of a call. It is in whole units, or an object of them by policy name, or a function of the request that returns either. Calls with
   * different costs (an object, a function) are not evenly spaced.
   *
   * @default 1
   */
  cost?: Cost | ((request: OutboundRequest) => Cost) | undefined;
  /**
   * The priority among waiting calls of this process and key: a whole number from -1,000 to 1,000, or a function of the
   * request that returns the number. The highest priority goes first.
   *
   * @default 0
   */
  priority?: number | ((request: OutboundRequest) => number) | undefined;
  /**
   * The longest wait of a call, including all retries: ms or `'30s'`. A call that cannot go out in time is not sent.
   * Work of `schedule` by default waits without a time limit, and without the limits `maxWaiting` and `maxWaitingPerKey`, unless you set
   * such a limit.
   *
   * @default '30s' for a call of the fetch and the interceptor
   */
  timeout?: Duration | undefined;
  /**
   * Whether to learn from the remaining units in answers. A denial (429, or 403, 418, 420, 503, 509 and 529 with
   * `Retry-After`) is always obeyed.
   *
   * @default true
   */
  learn?: boolean | undefined;
  /**
   * Finds denials that no header field shows. Examples: GitHub's secondary limit, Shopify's `THROTTLED` and Linear's 400. Sync or async.
   * Returns the length of the key's pause, ms, or `undefined` if the status and the fields decide. To read the body, use
   * `response.clone()`. For the interceptor, the response has no body.
   */
  denied?: Denied | undefined;
  /**
   * The number of retries of a denied call, 0 to 10, each after the wait requested by the partner. `true`: 2 for every method. `false`: no
   * retries. Bodies that are streams are never sent again. At most one call in ten is a retry.
   *
   * @default 2 for idempotent methods
   */
  retry?: boolean | number | undefined;
  /** The longest pause that an answer may cause: ms or `'1m'`. @default '5m' */
  maxPause?: Duration | undefined;
  /**
   * The fraction by which windows are longer than the partner's, 0 to 1, because calls reach the partner later than they are admitted. By
   * default the margin is learnt for evenly spaced calls, in all processes: the margin begins at 0.04, doubles with a 429 up to 0.2, and
   * shrinks again while no call is denied. Learning needs a store with overrides.
   *
   * @default learnt
   */
  margin?: number | undefined;
  /** Receives every pause begun by this process. */
  onPause?: ((pause: Pause) => void) | undefined;
}

/** The options of `limitFetch`: a limiter or the options that create one, and the options of calls. */
export type LimitFetchOptions = LimitedBy<'timeout'> & OutboundOptions;

export type OfRequest<T> = (request: OutboundRequest) => T;

export const OUTBOUND_TABLE = {
  key: fn(),
  cost: orFunction<Cost, OfRequest<Cost>>(UNITS, (_, cost) => checkCosts(cost), 1),
  priority: orFunction<number, OfRequest<number>>('-1000 to 1000', (_, given) => checkPriority(given), 0),
  timeout: duration('30s'),
  learn: boolean(true),
  denied: fn(),
  retry: optional('0 to 10, or boolean', (option, retry) =>
    typeof retry === 'number' ? checkInteger(option, retry, 0, 10) : checkBoolean(option, retry, true),
  ),
  maxPause: duration('5m'),
  margin: number(0, 1),
  onPause: fn(),
} satisfies OptionTable<OutboundOptions>;

/** Options that create a limiter. `timeout` limits a call's wait, not the store: calls would otherwise hang for as long as the wait. */
const CREATING = ['margin', ...CREATING_OPTIONS.filter((name) => name !== 'timeout')];

const OMIT_BY = 'Omit `by`: the option `key` of limitFetch returns the key of a call.';

type Checked = Pick<
  OptionValues<typeof OUTBOUND_TABLE>,
  'cost' | 'maxPause' | 'learn' | 'margin' | 'onPause'
>;

/** Makes the limiter of calls, unless the options have a limiter. @throws HeadgateError for invalid options */
export function outboundOf(options: LimitFetchOptions, { cost, margin = MARGIN, ...how }: Checked): Outbound {
  const given = givenLimiter(options, CREATING);
  if (given) {
    checkByKey([given], OMIT_BY);
    const partners = given.policies.map(({ name, limit, window }) => ({
      ...{ name, limit, windowMs: window, isPaced: false },
    }));
    return new Outbound(given, partners, { ...how, margin: undefined });
  }
  const { store } = options;
  // An override shares the learnt margin with all processes.
  const isLearnt = options.margin === undefined && (store === undefined || store.overrides !== undefined);
  const units = typeof cost === 'number' ? cost : undefined;
  const { policies, partners } = warningBy(compileWarnings(options.warnings), () =>
    pace(policiesOf(options), margin, units),
  );
  checkByKey([{ policies }], OMIT_BY);
  const rest = Object.entries(options).filter(
    ([name, value]) => value !== undefined && LIMITER_OPTIONS.includes(name) && CREATING.includes(name),
  );
  const made = assembleLimiter(
    {
      ban: {},
      ...(isLearnt && { overrides: true }),
      ...Object.fromEntries(rest),
      policies: orUnlimited(policies),
    },
    { defaultName: 'fetch', ...(units !== undefined && { cost: units }) },
  );
  const outbound = new Outbound(made, partners, { ...how, margin: isLearnt ? margin : undefined });
  made.internals.decider.onAnswer = (decision) => outbound.see(decision);
  return outbound;
}
