import { checkInteger } from '../common/validate.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { CountedLimiter } from '../stores/counts.js';
import { parseOwnerText, type Hash } from '../stores/keys.js';
import type { Counted } from '../stores/redis/operators/traffic.js';
import type { RecentCounts, State } from './state.js';

/** Decisions per second. */
export interface Rates {
  /** Admitted requests a second. */
  readonly admitted: number;
  /** Denied requests a second. */
  readonly denied: number;
}

/** The decisions by one key per second. */
export interface KeyRates extends Rates {
  /** The key of the deciding policy. */
  readonly key: string | Hash;
  /** The dimension of the key. Absent for the default dimension. */
  readonly dimension?: string;
  /** The policy that denied the key last. Absent without denials by a policy. */
  readonly policy?: string;
}

/** The decisions of one limiter per second. */
export interface LimiterRates extends Rates {
  /** The name of the limiter. */
  readonly name: string;
  /** The denials of each policy. */
  readonly policies: readonly { readonly name: string; readonly denied: number }[];
  /** Denials by reasons other than a policy. */
  readonly reasons: readonly { readonly reason: string; readonly denied: number }[];
  /** The keys with most denials, then those with most requests. */
  readonly keys: readonly KeyRates[];
}

/** The recent counts of all processes. */
export interface Traffic {
  /** The span of time of the counts, ms. */
  readonly spanMs: number;
  /** The number of processes that have counted decisions. */
  readonly instances: number;
  /** Whether the counts of keys are estimates. */
  readonly isSampled: boolean;
  /** The limiters with most denials, then those with most requests. */
  readonly limiters: readonly LimiterRates[];
}

/** The selection of counts. */
export interface TrafficOptions {
  /** The span of time, 1 to 60 seconds. Keys with few requests are averaged over up to 30 seconds. @default 5 */
  seconds?: number | undefined;
  /** The limiter. @default all limiters */
  name?: string | undefined;
  /** The number of keys of each limiter: 0 to 20. @default 5 */
  keys?: number | undefined;
}

/** The longer spans over which rare keys are averaged, s: a single request in 5 seconds is not a rate. */
const LONGER_SPANS = [10, 30];

/** The fewest counted requests from which the rate of a key is calculated, except over the longest span. */
const MIN_REQUESTS = 10;

/** The age of the last counts up to which a process counts as active, so that its current second is not known yet, ms. */
const MAX_SILENCE_MS = 1500;

/** The duration of counts of a version that did not write it, ms. */
const DEFAULT_DURATION_MS = 1000;

/** The decisions in each of several spans. */
class Sums {
  readonly #admitted: number[];
  readonly #denied: number[];
  /** The policy that denied last. */
  policy: string | undefined;

  constructor(spans: number) {
    this.#admitted = Array<number>(spans).fill(0);
    this.#denied = Array<number>(spans).fill(0);
  }

  /** @param weights the part of the counts that lies in each span */
  add(admitted: number, denied: number, weights: readonly number[]): void {
    for (const [i, weight] of weights.entries()) {
      this.#admitted[i]! += admitted * weight;
      this.#denied[i]! += denied * weight;
    }
  }

  requests(span: number): number {
    return this.#admitted[span]! + this.#denied[span]!;
  }

  rates(span: number, seconds: number): Rates {
    const rate = (count: number): number => Math.round((10 * count) / seconds) / 10;
    return { admitted: rate(this.#admitted[span]!), denied: rate(this.#denied[span]!) };
  }
}

/** Sums by name. */
class SumsByName {
  readonly #spans: number;
  readonly #sums = new Map<string, Sums>();

  constructor(spans: number) {
    this.#spans = spans;
  }

  of(name: string): Sums {
    let sums = this.#sums.get(name);
    if (!sums) this.#sums.set(name, (sums = new Sums(this.#spans)));
    return sums;
  }

  entries(): [name: string, sums: Sums][] {
    return [...this.#sums].filter(([, sums]) => sums.requests(0) > 0);
  }
}

/** The sums of one limiter. */
class LimiterSums {
  readonly total: Sums;
  /** The time for which the limiter has been counted, ms. */
  age = 0;
  readonly #policies: SumsByName;
  readonly #reasons: SumsByName;
  readonly #keys: SumsByName;

  constructor(spans: number) {
    this.total = new Sums(spans);
    this.#policies = new SumsByName(spans);
    this.#reasons = new SumsByName(spans);
    this.#keys = new SumsByName(spans);
  }

  /** @param age the age of the first of these decisions, ms */
  add(
    { counts, policies, reasons = {}, keys }: CountedLimiter,
    { weights, age }: Pick<Weighted, 'weights' | 'age'>,
  ): void {
    this.age = Math.max(this.age, age);
    this.total.add(...counts, weights);
    for (const [policy, denied] of Object.entries(policies))
      this.#policies.of(policy).add(0, denied, weights);
    for (const [reason, denied] of Object.entries(reasons)) this.#reasons.of(reason).add(0, denied, weights);
    for (const [text, [admitted, denied, policy]] of Object.entries(keys)) {
      const sums = this.#keys.of(text);
      sums.add(admitted, denied, weights);
      sums.policy = policy ?? sums.policy;
    }
  }

  /** @param least the fewest requests from which the rate of a key is calculated */
  rates(name: string, spans: readonly number[], least: number): LimiterRates {
    const seconds = spans.map((span) => Math.max(spans[0]!, Math.min(span, this.age / 1000)));
    const denials = (sums: SumsByName) =>
      sums
        .entries()
        .map(([each, own]) => ({ name: each, denied: own.rates(0, spans[0]!).denied }))
        .sort((a, b) => b.denied - a.denied);
    const keys = this.#keys.entries().map(([text, sums]): KeyRates => {
      const enough = spans.findIndex((_, i) => sums.requests(i) >= least);
      const span = enough === -1 ? spans.length - 1 : enough;
      const { key = text, by = DEFAULT_DIMENSION } = parseOwnerText(`x:${text}`) ?? {};
      return {
        key,
        ...(by !== DEFAULT_DIMENSION && { dimension: by }),
        ...sums.rates(span, seconds[span]!),
        ...(sums.policy !== undefined && { policy: sums.policy }),
      };
    });
    return {
      name,
      ...this.total.rates(0, spans[0]!),
      policies: denials(this.#policies),
      reasons: denials(this.#reasons).map(({ name: reason, denied }) => ({ reason, denied })),
      keys: keys.sort(byDenials),
    };
  }
}

const byDenials = (a: Rates, b: Rates): number => b.denied - a.denied || b.admitted - a.admitted;

/** Reads the counts of the last seconds, for one limiter or for all. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export async function readTraffic(state: State, options: TrafficOptions): Promise<Traffic> {
  const { name } = options;
  const seconds = options.seconds === undefined ? 5 : checkInteger('seconds', options.seconds, 1, 60);
  const most = options.keys === undefined ? 5 : checkInteger('keys', options.keys, 0, 20);
  const spans = [seconds, ...LONGER_SPANS.filter((each) => each > seconds)];
  const weighted = weigh(await state.counts(), spans);
  const sums = new Map<string, LimiterSums>();
  for (const each of weighted)
    for (const limiter of each.counted.limiters) {
      if (name !== undefined && limiter.name !== name) continue;
      const own = sums.get(limiter.name) ?? new LimiterSums(spans.length);
      sums.set(limiter.name, own);
      own.add(limiter, each);
    }
  const sample = Math.max(1, ...weighted.map(({ counted }) => counted.sample));
  const limiters = [...sums]
    .filter(([, { total }]) => total.requests(0) > 0)
    .map(([each, own]) => own.rates(each, spans, MIN_REQUESTS * sample))
    .map(({ keys, ...limiter }) => ({ ...limiter, keys: keys.slice(0, most) }));
  const recent = weighted.filter(({ weights }) => weights[0]! > 0);
  return {
    spanMs: 1000 * seconds,
    instances: new Set(recent.map(({ counted }) => counted.id)).size,
    isSampled: sample > 1,
    limiters: limiters.sort(byDenials),
  };
}

/** Counts, and the part of them that lies in each span. */
interface Weighted {
  readonly counted: Counted;
  readonly weights: readonly number[];
  /** The age of the first of these decisions, ms. */
  readonly age: number;
}

/**
 * The weights of counts in spans that end with the last counts of their process. A process writes once a second, so its current second is
 * not known: spans up to now would show less than there is.
 */
function weigh({ now, counts }: RecentCounts, spans: readonly number[]): Weighted[] {
  const last = new Map<string, number>();
  for (const { at, counted } of counts) last.set(counted.id, Math.max(last.get(counted.id) ?? 0, at));
  return counts.flatMap(({ at, counted }) => {
    const end = Math.max(last.get(counted.id)!, now - MAX_SILENCE_MS);
    const { ms = DEFAULT_DURATION_MS } = counted;
    const weights = spans.map((span) => {
      const inSpan = Math.min(at, end) - Math.max(at - ms, end - 1000 * span);
      return Math.max(0, Math.min(1, inSpan / ms));
    });
    return weights.some((weight) => weight > 0) ? [{ counted, weights, age: now - at + ms }] : [];
  });
}
