// Random sites over HTTP: stacked limiters of the oracle's kind, options of an adapter, and waves of requests that are in flight together.
import fc from 'fast-check';
import { sites as oracleSites, type DrawnLimiter, type Site } from '../../oracle/draw.js';
import type { Policy } from '../../oracle/model/types.js';
import { coveringRows, type Row } from '../../oracle/rows.js';

export const ADAPTERS = ['Express 4', 'Express 5', 'Fastify 5'] as const;

/** A limiter of a route. */
export interface HttpLimiter extends DrawnLimiter {
  readonly skipFailedRequests: boolean;
  readonly skipSuccessfulRequests: boolean;
  readonly refundAborted: boolean;
  /** `wait`, ms. */
  readonly wait: number | undefined;
  /** Whether the functions of the options return promises. */
  readonly isAsync: boolean;
}

export interface Ask {
  readonly key: string | undefined;
  readonly account: string | undefined;
  readonly org: string | undefined;
  readonly cost: number;
  readonly costs: readonly number[] | undefined;
  readonly tier: number;
  readonly id: string | undefined;
  readonly status: 200 | 404 | 500;
  /** The time that the handler takes, ms. */
  readonly takes: number;
  /** When the client leaves: at once, in the handler, or while the answer arrives. */
  readonly leaves: 'early' | 'reached' | 'answered' | undefined;
  readonly how: 'closed' | 'reset';
}

export interface Wave {
  readonly asks: readonly Ask[];
  /** The time until the next wave, ms. */
  readonly ms: number;
}

export interface HttpSite extends Pick<Site, 'start'> {
  readonly adapter: (typeof ADAPTERS)[number];
  readonly limiters: readonly HttpLimiter[];
  readonly waves: readonly Wave[];
}

const one = <T>(...values: T[]) => fc.constantFrom(...values);
/** Undefined once in `freq`. */
const maybe = <T>(value: fc.Arbitrary<T>, freq: number) => fc.option(value, { nil: undefined, freq });
const rarely = <T>(value: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value });
const KEYS = ['a', 'b', 'c', 'd'];

const ask: fc.Arbitrary<Ask> = fc.record({
  key: maybe(one(...KEYS), 12),
  account: maybe(one('x', 'y'), 12),
  org: maybe(one('o', 'a'), 12),
  cost: fc.oneof({ weight: 9, arbitrary: one(1, 1, 2) }, { weight: 1, arbitrary: one(0, 5, 300) }),
  costs: maybe(fc.array(one(0, 1, 2), { minLength: 6, maxLength: 6 }), 2),
  tier: fc.nat(2),
  id: maybe(one('i', 'j', 'k'), 2),
  status: one(200, 200, 404, 500),
  takes: one(0, 0, 1, 5),
  leaves: rarely(one('early', 'reached', 'answered')),
  how: one('closed', 'reset'),
});

const extras = fc.record({
  skipFailedRequests: fc.boolean(),
  skipSuccessfulRequests: fc.integer({ min: 0, max: 4 }).map((n) => n === 4),
  refundAborted: fc.boolean(),
  wait: rarely(one(20, 60)),
  isAsync: fc.boolean(),
  scale: one(1, 1, 20),
});

/** Policies whose limits suit hundreds of requests, and whose delays suit a test in real time. */
const scaled =
  (scale: number) =>
  ({ maxDelay, burst, ...policy }: Policy): Policy => ({
    ...policy,
    limit: policy.limit * scale,
    ...(burst === undefined ? {} : { burst: burst * scale }),
    ...(maxDelay === undefined ? {} : { maxDelay: 60 }),
  });

/** The rows of features, without shares and overrides, which these sites do not draw. */
const rows = coveringRows().map(
  (row): Row => new Set([...row].filter((name) => !/^(shares|overrides) /.test(name))),
);

const staying = ({ asks, ms }: Wave): Wave => ({
  ms,
  asks: asks.map((each) => ({ ...each, leaves: undefined })),
});

/** @param most the most requests in flight */
export const httpSites = (most: number): fc.Arbitrary<HttpSite> =>
  fc
    .record({
      adapter: one(...ADAPTERS),
      site: fc.constantFrom(...rows).chain(oracleSites),
      stay: fc.boolean(),
      extras: fc.array(extras, { minLength: 3, maxLength: 3 }),
      waves: fc.array(
        fc.record({
          asks: fc.array(ask, { minLength: 1, maxLength: most, size: 'max' }),
          ms: one(0, 1, 600, 1200, 6000, 60_000),
        }),
        { minLength: 1, maxLength: 3 },
      ),
    })
    .map(({ adapter, site, stay, extras: all, waves }) => ({
      adapter,
      start: site.start,
      waves: stay ? waves.map(staying) : waves,
      limiters: site.limiters.map((drawn, i): HttpLimiter => {
        const { scale, wait, ...more } = all[i]!;
        return {
          ...drawn,
          ...more,
          policies: drawn.policies.map(scaled(scale)),
          tiers: Object.fromEntries(
            Object.entries(drawn.tiers).map(([tier, set]) => [tier, set.map(scaled(scale))]),
          ),
          wait: drawn.hasIds ? undefined : wait,
        };
      }),
    }));
