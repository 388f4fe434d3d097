import { checkChoice, checkInteger, checkShape } from '../common/validate.js';
import type { Counted, StoreHealth } from '../stores/counts/sink.js';
import { percentileOf } from '../stores/counts/latency-histogram.js';
import type { Context, NameFilter } from './context.js';
import {
  byDenials,
  byRequests,
  LimiterSums,
  perSecond,
  weigh,
  type DecisionRates,
  type Weighted,
} from './rates.js';
import type { RecentCounts, State } from './state.js';
import { withoutPlaces } from './tenant-rates.js';

/** The waiting requests and the slots of a limiter: of all processes, or of one. */
interface Waits {
  /** The requests that wait now. */
  readonly waiting: number;
  /** The requests that are held until their turn (`maxDelay`). */
  readonly held: number;
  /** The concurrency slots in use. */
  readonly slots: number;
}

/** The decisions of one limiter per second, and its waits. */
export interface LimiterRates extends DecisionRates, Waits {}

/** The waits of a limiter in one process. */
export interface LimiterWaits extends Waits {
  /** The name of the limiter. */
  readonly name: string;
  /** The most requests of each kind, `maxWaiting`. */
  readonly maxWaiting: number;
}

/** The latency of the store, as decisions saw it. */
export interface StoreLatency {
  /** Half of the decisions had their answer within this time, ms. */
  readonly p50Ms: number;
  /** 99 % of the decisions had their answer within this time, ms. */
  readonly p99Ms: number;
  /** The decisions a second whose answer came after their limiter's `timeout`, or failed. */
  readonly late: number;
}

/** A process that counts decisions: one store of the process. */
export interface ProcessState {
  /** The id of the store in the counts. */
  readonly id: string;
  /** The name of the host. */
  readonly host: string;
  /** The number of the process on its host. */
  readonly pid: number;
  /** The start of the process, and its version of Headgate. Null for a process of an earlier version. */
  readonly since: Date | null;
  /** The version of Headgate. Null for a process of an earlier version. */
  readonly version: string | null;
  /** The lateness of the last timer of a second, ms: how long the event loop was blocked then. */
  readonly loopDelayMs: number;
  /** The health of the store, as the limiter with the worst health sees it. */
  readonly health: StoreHealth;
  /** The latency of the store. Null if no decision asked the store. */
  readonly latency: StoreLatency | null;
  /** All decisions a second. */
  readonly decisions: number;
  /** The decisions of `onStoreError` a second, because the store had failed. */
  readonly degraded: number;
  /** The limiters with waiting or held requests, or slots in use. */
  readonly limiters: readonly LimiterWaits[];
}

/** Counts decisions in this process, and writes the counts to the store once a second. Each decision calls it, so it must be cheap. */
export interface Traffic {
  /** The span of time of the counts, ms. */
  readonly spanMs: number;
  /** The number of processes that have counted decisions. */
  readonly instances: number;
  /** Whether the counts of keys are estimates. */
  readonly isSampled: boolean;
  /** The latency of the store over all processes. Null if no decision asked the store. */
  readonly latency: StoreLatency | null;
  /** The limiters with most denials, then those with most requests; with `sort: 'requests'`, those with most requests. */
  readonly limiters: readonly LimiterRates[];
  /** The processes that counted decisions, or had waiting requests or slots, in the last seconds. */
  readonly processes: readonly ProcessState[];
}

/** The selection of counts. */
export interface TrafficOptions extends NameFilter {
  /** The span of time, 1 to 60 seconds. Keys with few requests are averaged over up to 30 seconds. @default 5 */
  seconds?: number | undefined;
  /** The number of keys of each limiter: 0 to 20. @default 5 */
  keys?: number | undefined;
  /** The order of limiters and keys: `'denials'`, or `'requests'` for the busiest first. @default 'denials' */
  sort?: 'denials' | 'requests' | undefined;
}

/** The longer spans over which rare keys are averaged, s: a single request in 5 seconds is not a rate. */
const LONGER_SPANS = [10, 30];

/** The fewest counted requests from which the rate of a key is calculated, except over the longest span. */
const MIN_REQUESTS = 10;

/** The age up to which the waits of a process count as current, ms. A process with waiting requests sends them every second. */
const MAX_WAITS_AGE_MS = 2500;

export interface CountsWanted extends TrafficOptions {
  /** Whether the keys are those by which policies count, so that a tenant may have several. Otherwise, a tenant has one. */
  readonly ofPlaces?: boolean;
}

export async function traffic({ state }: Context, options: TrafficOptions = {}): Promise<Traffic> {
  checkShape('traffic', options, ['seconds', 'name', 'keys', 'sort']);
  return readTraffic(state, options);
}

/** Reads the counts of the last seconds, for one limiter or for all. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export async function readTraffic(state: State, options: CountsWanted): Promise<Traffic> {
  const { name, ofPlaces = false } = options;
  const seconds = options.seconds === undefined ? 5 : checkInteger('seconds', options.seconds, 1, 60);
  const most = options.keys === undefined ? 5 : checkInteger('keys', options.keys, 0, 20);
  const sort = checkChoice('sort', options.sort ?? 'denials', ['denials', 'requests']);
  const order = sort === 'denials' ? byDenials : byRequests;
  const spans = [seconds, ...LONGER_SPANS.filter((each) => each > seconds)];
  const recent = (await state.counts?.read()) ?? { now: 0, counts: [] };
  const weighted = weigh(recent, spans);
  const sums = new Map<string, LimiterSums>();
  for (const each of weighted)
    for (const limiter of each.counted.limiters) {
      if (name !== undefined && limiter.name !== name) continue;
      const own = sums.get(limiter.name) ?? new LimiterSums(spans.length);
      sums.set(limiter.name, own);
      own.add(limiter, each);
    }
  const sample = Math.max(1, ...weighted.map(({ counted }) => counted.sample));
  const processes = processesOf(recent, weighted, seconds);
  const limiters = [...sums].flatMap(([each, own]): LimiterRates[] => {
    const waits = processes.flatMap((process) => process.limiters.filter(({ name: of }) => of === each));
    const sum = (field: keyof Waits): number => waits.reduce((total, own) => total + own[field], 0);
    const [waiting, held, slots] = [sum('waiting'), sum('held'), sum('slots')];
    if (own.total.requests(0) + waiting + held + slots === 0) return [];
    const { keys: all, ...rates } = own.rates(each, spans, MIN_REQUESTS * sample);
    const keys = (ofPlaces ? [...all] : withoutPlaces(all)).sort(order).slice(0, most);
    return [{ ...rates, waiting, held, slots, keys }];
  });
  const counting = weighted.filter(({ weights }) => weights[0]! > 0);
  return {
    spanMs: 1000 * seconds,
    instances: new Set(counting.map(({ counted }) => counted.id)).size,
    isSampled: sample > 1,
    latency: latencyOf(weighted, seconds),
    limiters: limiters.sort(order),
    processes,
  };
}

/** The latency in the first span of counts. */
function latencyOf(weighted: readonly Weighted[], seconds: number): StoreLatency | null {
  const buckets = new Map<number, number>();
  let late = 0;
  for (const { counted, weights } of weighted) {
    const part = weights[0]!;
    if (!counted.latency || part === 0) continue;
    late += part * (counted.latency.late ?? 0);
    for (const [bucket, count] of Object.entries(counted.latency.buckets))
      buckets.set(Number(bucket), (buckets.get(Number(bucket)) ?? 0) + part * count);
  }
  if (buckets.size === 0) return null;
  const [p50Ms, p99Ms] = [0.5, 0.99].map((fraction) => percentileOf(buckets, fraction));
  return { p50Ms: p50Ms!, p99Ms: p99Ms!, late: perSecond(late, seconds) };
}

/** The newest counts of each process, except old ones. */
export function newestOf({ now, counts }: RecentCounts): Counted[] {
  const newest = new Map<string, Counted>();
  for (const { at, counted } of counts) if (at > now - MAX_WAITS_AGE_MS) newest.set(counted.id, counted);
  return [...newest.values()];
}

/** The newest state of each process, unless it is too old. */
const processesOf = (recent: RecentCounts, weighted: readonly Weighted[], seconds: number): ProcessState[] =>
  newestOf(recent).map(({ id, host = '', pid = 0, health = UP, limiters, since, version = null, ms }) => {
    const own = weighted.filter(({ counted }) => counted.id === id);
    const rateOf = (count: (limiter: Counted['limiters'][number]) => number): number => {
      const counts = own.flatMap(({ counted, weights }) =>
        counted.limiters.map((limiter) => weights[0]! * count(limiter)),
      );
      return perSecond(
        counts.reduce((sum, each) => sum + each, 0),
        seconds,
      );
    };
    return {
      ...{ id, host, pid, health, version, since: since === undefined ? null : new Date(since) },
      loopDelayMs: Math.max(0, (ms ?? SECOND_MS) - SECOND_MS),
      latency: latencyOf(own, seconds),
      decisions: rateOf(({ counts: [admitted, denied] }) => admitted + denied),
      degraded: rateOf(({ degraded = 0 }) => degraded),
      limiters: limiters.flatMap(({ name, now }) => {
        if (!now) return [];
        const [waiting, held, maxWaiting, slots] = now;
        return [{ name, waiting, held, maxWaiting, slots }];
      }),
    };
  });

/** The time between two messages of a process that is not busy, ms. */
const SECOND_MS = 1000;

const UP: StoreHealth = { state: 'up', failures: 0, late: 0 };
