// Random sites and traces. All numbers are chosen so that no rate has to be rounded.
import fc from 'fast-check';
import type { FeatureName } from '../../src/contract/together.js';
import type { Algorithm, Ban, Policy } from './model/types.js';
import type { Row } from './rows.js';

/** A limiter as drawn: the model's definition, and how many of its keys requests have. */
export interface DrawnLimiter {
  readonly policies: readonly Policy[];
  readonly tiers: Readonly<Record<string, readonly Policy[]>>;
  readonly ban: Ban | undefined;
  readonly shadow: boolean;
  readonly overrides: boolean;
  readonly idsFor: number;
  readonly repeats: number;
  readonly hasIds: boolean;
  /** Units go back by `limiter.refund`, or by the decisions: never by both. */
  readonly refunds: boolean;
  readonly onStoreError: string;
}

export interface Site {
  /** The time at which the site's clock begins, ms since the epoch. */
  readonly start: number;
  readonly limiters: readonly DrawnLimiter[];
  /** The features that are drawn. */
  readonly row: Row;
  readonly steps: readonly Step[];
}

export type Place = readonly [by: string, key: string] | undefined;
export type StepKeys = Readonly<Record<string, string | undefined>>;
export interface Step {
  readonly kind:
    | 'advance'
    /** The next steps go to the store in one turn. */
    | 'batch'
    | 'restart'
    | 'until'
    | 'consume'
    | 'peek'
    | 'wait'
    | 'wrapped'
    | 'schedule'
    | 'settle'
    | 'refund'
    | 'release'
    | 'renew'
    | 'hold'
    | 'cancel'
    | 'giveBack'
    | 'reset'
    | 'ban'
    | 'unban'
    | 'override'
    | 'remove'
    | 'usage'
    | 'overrideOf';
  readonly limiter: number;
  readonly keys: StepKeys;
  /** Draws among the policies, decisions or tiers that there are. */
  readonly pick: number;
  readonly ms: number;
  readonly cost: number;
  readonly costs: readonly number[] | undefined;
  readonly tier: number;
  readonly id: string | undefined;
  readonly weight: number | undefined;
  readonly isAll: boolean;
  readonly change: 'limit' | 'window' | 'false' | 'tier';
  readonly limit: number;
  readonly window: number;
}

const DIMENSIONS = ['key', 'account', 'org'] as const;
const PERIODS = ['hour', 'day', 'week', 'month'] as const;
const DAY_MS = 86_400_000;
/** Clocks begin in this year at the earliest, because a store on Redis refuses a clock in the past. */
const FIRST_START = Date.UTC(2040, 0, 1);
const STARTS_MS = 4 * 366 * DAY_MS;
/** The numbers of sites on a clock that the trace advances. */
const SMALL = {
  limits: [1, 2, 3, 4, 5, 6, 10, 12],
  /** Limits of shared policies and beside them, so that tenants compete. */
  sharedLimits: [3, 4, 5, 6, 10, 12],
  windows: [1200, 6000, 12_000, 60_000],
  changedWindows: [6000, 24_000],
  bursts: [1, 2, 3, 6],
  periods: PERIODS,
  idsFor: [1500, 1500, 20_000, 600_000],
  within: [1000, 10_000, 600_000],
  bans: [500, 3000, 30_000],
  ms: [0, 1, 100, 599, 600, 1199, 1200, 2000, 3000, 6000, 11_999, 12_000, 60_000, 3_600_000],
};
/** The numbers of sites with slices, which need great limits, and real time, in which nothing ends during a trace. */
const GREAT: { [name in keyof typeof SMALL]: readonly (typeof SMALL)[name][number][] } = {
  ...{ limits: [50, 60, 100, 200, 600], sharedLimits: [60, 100, 200], bursts: [60, 120] },
  ...{ windows: [DAY_MS, 2 * DAY_MS], changedWindows: [DAY_MS / 2, 4 * DAY_MS], periods: ['week', 'month'] },
  ...{ idsFor: [600_000], within: [600_000], bans: [600_000], ms: [600_000, 3_600_000] },
};
const numbersOf = (row: Row): typeof GREAT => (row.has('slices') ? GREAT : SMALL);
const BUCKETS: readonly Algorithm[] = ['token-bucket', 'leaky-bucket', 'gcra'];
const one = <T>(...values: T[]) => fc.constantFrom(...values);
const maybe = <T>(value: fc.Arbitrary<T>, freq = 3) => fc.option(value, { nil: undefined, freq });
/** Drawn nearly always, and left out when a counterexample shrinks. */
const mostly = <T>(value: fc.Arbitrary<T>) => maybe(value, 9);
/** A value if the row has the feature. */
const ifIn = <T>(row: Row, name: FeatureName, value: fc.Arbitrary<T | undefined>) =>
  row.has(name) ? value : fc.constant(undefined);

interface Shape {
  readonly algorithm: Algorithm;
  readonly isShared?: boolean;
  readonly isDelayed?: boolean;
}

/** A policy of one algorithm. All numbers are drawn so that rates need no rounding. */
function policy(row: Row, { algorithm, isShared, isDelayed }: Shape): fc.Arbitrary<Omit<Policy, 'name'>> {
  const isBucket = BUCKETS.includes(algorithm);
  const isAttempts = algorithm !== 'concurrency' && !isShared && !isDelayed;
  const none = fc.constant(undefined);
  const hasShares = row.has('shares of units') || row.has('shares of slots');
  const { limits, sharedLimits, windows, bursts, periods } = numbersOf(row);
  return fc
    .record({
      limit: one(...(hasShares ? sharedLimits : limits)),
      window: algorithm === 'calendar' ? fc.constant(0) : one(...windows),
      burst: isBucket ? maybe(one(...bursts), 2) : none,
      segments: algorithm === 'sliding-window' ? maybe(one(1, 2, 3, 5), 2) : none,
      maxDelay: isDelayed ? one(600, 6000) : none,
      period: algorithm === 'calendar' ? one(...periods) : none,
      by: row.has('dimensions') ? one('key', 'key', 'account', 'org') : fc.constant('key'),
      weight: isShared ? ifIn(row, 'weights', maybe(one(...WEIGHTS), 2)) : none,
      attempts: isAttempts ? ifIn(row, 'attempts', maybe(fc.constant(true), 2)) : none,
      shadow: ifIn(row, 'shadow', maybe(fc.constant(true), 2)),
      thresholds: isShared
        ? none
        : ifIn(row, 'thresholds', maybe(one([0.5], [0.8, 1], [0.3, 0.5, 0.8, 1]), 4)),
    })
    .map((drawn) => {
      const set = Object.fromEntries(Object.entries(drawn).filter(([, value]) => value !== undefined));
      return { algorithm, ...(set as typeof drawn), ...(isShared ? { share: 'tenant' } : {}) } as Omit<
        Policy,
        'name'
      >;
    });
}

/** The policies of a row: one for each algorithm and kind of share, and others. */
function policiesOf(row: Row): fc.Arbitrary<readonly Omit<Policy, 'name'>[]> {
  const shapes = [...row].flatMap((name): Shape[] => {
    if (name === 'shares of units') return [{ algorithm: 'sliding-window', isShared: true }];
    if (name === 'shares of slots') return [{ algorithm: 'concurrency', isShared: true }];
    if (name === 'maxDelay') return [{ algorithm: 'leaky-bucket', isDelayed: true }];
    if (name === 'sliding-window') return row.has('shares of units') ? [] : [{ algorithm: name }];
    if (name === 'concurrency') return row.has('shares of slots') ? [] : [{ algorithm: name }];
    if (name === 'leaky-bucket') return row.has('maxDelay') ? [] : [{ algorithm: name }];
    return ALGORITHMS.has(name) ? [{ algorithm: name as Algorithm }] : [];
  });
  const others = ['several policies', 'attempts', 'thresholds', 'shadow'].filter((name) =>
    row.has(name as FeatureName),
  );
  const more = Math.min(6 - shapes.length, shapes.length < 2 ? Math.min(2, others.length) : 1);
  const plains: Algorithm[] = ['fixed-window', 'sliding-window'];
  if (!row.has('slices')) plains.push('sliding-log');
  const plain = one(...plains).chain((algorithm) => policy(row, { algorithm }));
  const first = shapes.length > 0 ? [] : [plain];
  return fc
    .tuple(
      fc.tuple(...first, ...shapes.map((shape) => mostly(policy(row, shape)))),
      fc.array(plain, { maxLength: others.length > 0 ? more : 0 }),
      fc.nat(5),
    )
    .map(([shaped, plains, turn]) => {
      const all = [...shaped.filter((each) => each !== undefined), ...plains].slice(0, 6);
      const list =
        all.length > 0 ? all : [{ algorithm: 'fixed-window', limit: 1, window: 1200, by: 'key' } as const];
      // The order of the policies is drawn, too.
      return [...list.slice(turn % list.length), ...list.slice(0, turn % list.length)];
    });
}

const ALGORITHMS: ReadonlySet<string> = new Set([
  ...['fixed-window', 'sliding-window', 'sliding-log', 'token-bucket', 'leaky-bucket', 'gcra', 'calendar'],
  'concurrency',
]);

const OVERRIDES: readonly FeatureName[] = [
  ...(['overrides of a key', 'overrides of a dimension', 'overrides of all keys'] as const),
  ...(['overrides by tier', 'overrides of a window'] as const),
];
const modeOf = (row: Row) => [...row].find((name) => name.startsWith('onStoreError'))?.match(/'(.*)'/)?.[1];

const limiter = (row: Row): fc.Arbitrary<DrawnLimiter> => {
  const { limits, windows, within, bans, idsFor } = numbersOf(row);
  return fc
    .record({
      policies: policiesOf(row),
      tiers: fc.array(
        fc.record({
          limits: fc.array(one(...limits), { minLength: 6, maxLength: 6 }),
          window: maybe(one(...windows), 2),
          drop: maybe(fc.nat(5), 2),
        }),
        { minLength: row.has('tiers') ? 1 : 0, maxLength: row.has('tiers') ? 2 : 0 },
      ),
      ban:
        row.has('bans by denials') || row.has('bans by hand')
          ? mostly(
              fc.record({
                after: ifIn(row, 'bans by denials', maybe(one(1, 2, 3), 6)),
                within: one(...within),
                for: one(...bans),
                factor: one(1, 1.5, 2),
                max: one(Math.max(...bans), DAY_MS),
                fresh: row.has('fresh bans') ? maybe(fc.constant(true), 4) : fc.constant(undefined),
                by: one(...DIMENSIONS),
              }),
            )
          : fc.constant(undefined),
      shadow: fc.integer({ min: 0, max: 15 }),
      idsFor: one(...idsFor),
      refunds: fc.integer({ min: 0, max: 3 }),
      // Known: a fraction of the sites has overrides without a change.
      overrides: OVERRIDES.some((name) => row.has(name))
        ? maybe(fc.constant(true), 2)
        : fc.constant(undefined),
      hasIds: ifIn(row, 'request ids', mostly(fc.constant(true))),
    })
    .map((drawn) => {
      const policies = drawn.policies.map((each, i): Policy => ({ name: 'pqrstu'[i]!, ...each }));
      const tiers = Object.fromEntries(
        drawn.tiers.map(({ limits, window, drop }, i) => [
          ['pro', 'max'][i]!,
          policies
            .filter((_, at) => policies.length === 1 || at !== drop)
            .map((each, at) => ({
              ...each,
              limit: limits[at]!,
              ...(window && at === 0 && each.window > 0 ? { window } : {}),
            })),
        ]),
      );
      const { ban } = drawn;
      return {
        policies,
        tiers,
        ban:
          ban &&
          ({
            ...ban,
            fresh: ban.fresh ?? false,
            by: policies.some(({ by }) => by === ban.by) ? ban.by : policies[0]!.by,
          } as Ban),
        shadow: drawn.shadow === 15 && row.has('shadow'),
        overrides: drawn.overrides ?? false,
        hasIds: drawn.hasIds ?? false,
        idsFor: drawn.idsFor,
        repeats: 5,
        refunds: drawn.refunds === 3,
        onStoreError: modeOf(row) ?? 'throw',
      };
    });
};

const filtered = (row: Row, kinds: Partial<Record<Step['kind'], FeatureName>>): Step['kind'][] =>
  (Object.keys(kinds) as Step['kind'][]).filter((kind) => row.has(kinds[kind]!));
/** The weights that requests bring. */
export const WEIGHTS = [1, 2, 5] as const;

const weighted = (weight: number, kinds: Step['kind'][]) =>
  kinds.length > 0 ? [{ weight, arbitrary: one(...kinds) }] : [];

const key = (...names: string[]) =>
  fc.oneof({ weight: 7, arbitrary: one(...names) }, { weight: 1, arbitrary: fc.constant(undefined) });

const step = (row: Row): fc.Arbitrary<Step> => {
  const hasOverrides = OVERRIDES.some((name) => row.has(name));
  const { ms, limits, changedWindows } = numbersOf(row);
  return fc.record({
    kind: fc.oneof(
      { weight: 14, arbitrary: fc.constant('consume' as const) },
      { weight: 5, arbitrary: one<Step['kind']>('advance', 'until') },
      { weight: 2, arbitrary: fc.constant('batch' as const) },
      { weight: 1, arbitrary: fc.constant('restart' as const) },
      ...weighted(3, filtered(row, { peek: 'peek' })),
      ...weighted(2, filtered(row, { usage: 'usage' })),
      ...weighted(2, filtered(row, { wait: 'wait' })),
      ...weighted(3, filtered(row, { wrapped: 'wrapped functions', schedule: 'wrapped functions' })),
      ...weighted(
        5,
        filtered(row, { settle: 'settle', refund: 'refund', giveBack: 'refund', cancel: 'cancel' }),
      ),
      ...weighted(2, filtered(row, { release: 'concurrency', renew: 'concurrency', hold: 'concurrency' })),
      ...weighted(3, filtered(row, { ban: 'bans by hand', unban: 'bans by hand' })),
      ...weighted(1, filtered(row, { reset: 'reset' })),
      ...weighted(3, hasOverrides ? ['override', 'override', 'remove', 'overrideOf'] : []),
    ),
    limiter: one(0, 0, 0, 1, 2),
    keys: fc.oneof(
      // The same keys often enough that ids return, bans meet requests, and quotas are used up.
      { weight: 3, arbitrary: one({ key: 'a', account: 'a', org: 'o', tenant: 't' }) },
      {
        weight: 4,
        arbitrary: fc.record({
          key: key('a', 'b'),
          account: key('a', 'x'),
          org: key('o', 'a'),
          tenant: key('t', 'u', 'v'),
        }),
      },
    ),
    pick: fc.nat(1000),
    ms: one(...ms),
    cost: fc.oneof(
      { weight: 8, arbitrary: one(1, 1, 1, 2, 3) },
      { weight: 2, arbitrary: one(0, 4, 5, 12, 13) },
    ),
    costs: ifIn(row, 'costs by policy', maybe(fc.array(one(0, 1, 2, 4), { minLength: 6, maxLength: 6 }), 2)),
    tier: fc.nat(5),
    id: ifIn(row, 'request ids', maybe(one('i', 'i', 'j'), 3)),
    weight: ifIn(row, 'weights', maybe(one(1, 3), 2)),
    isAll: row.has('overrides of all keys') ? fc.boolean() : fc.constant(false),
    change: one<Step['change']>(
      'limit',
      'limit',
      ...(row.has('overrides of a window') ? (['window', 'window', 'false'] as const) : []),
      ...(row.has('overrides by tier') ? (['tier', 'tier'] as const) : []),
    ),
    limit: one(...limits),
    window: one(...changedWindows),
  });
};

/** Features whose units cannot be charged ahead. A set with one of them is never decided from slices. */
const UNSLICED: readonly FeatureName[] = [
  ...(['sliding-log', 'concurrency', 'maxDelay', 'thresholds'] as const),
  ...(['shares of units', 'shares of slots'] as const),
];
const sliced = (row: Row): Row => new Set([...row].filter((name) => !UNSLICED.includes(name)));

/** Sites with the features of a row. */
export const sites = (row: Row): fc.Arbitrary<Site> =>
  fc.record({
    start: fc.nat(STARTS_MS).map((ms) => FIRST_START + ms),
    limiters: fc.array(row.has('slices') ? fc.oneof(limiter(sliced(row)), limiter(row)) : limiter(row), {
      minLength: 1,
      maxLength: 3,
      size: 'xsmall',
    }),
    row: fc.constant(row),
    steps: fc.array(step(row), { minLength: 1, maxLength: 60, size: 'max' }),
  });
