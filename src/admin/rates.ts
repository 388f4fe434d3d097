import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { CountedLimiter } from '../stores/counts/traffic-counts.js';
import { parseOwnerText, type Hash } from '../stores/keys.js';
import type { Counted } from '../stores/counts/sink.js';
import { withinOf } from './owners.js';
import type { RecentCounts } from './state.js';

/** The earlier rates of a bucket, for a state written under an earlier rate. */
export interface Rates {
  /** Admitted requests a second. */
  readonly admitted: number;
  /** Denied requests a second. */
  readonly denied: number;
}

/** The decisions by one key per second. */
export interface KeyRates extends Rates {
  /** The key, by any dimension of the limiter's policies. */
  readonly key: string | Hash;
  /** The dimension of the key. Absent for the default dimension. */
  readonly dimension?: string;
  /** The shared limit of a tenant, by its dimension and its key. Absent for other keys. */
  readonly within?: string;
  /** The policy that denied the key last. Absent if anything else denied it last, or without denials. */
  readonly policy?: string;
  /** The reason of the last denial if no policy denied: `decision.reason`, such as `'banned'` or `'wait-timeout'`. */
  readonly reason?: string;
  /** The dimension of the key that the last denial was for, if it was another key of the same request: such a key is not denied itself. */
  readonly deniedFor?: string;
}

/** The decisions of one limiter per second. */
export interface DecisionRates extends Rates {
  /** The name of the limiter. */
  readonly name: string;
  /** Decisions of `onStoreError` a second, because the store had failed. */
  readonly degraded: number;
  /** The denials of each policy. */
  readonly policies: readonly {
    /** The name of the limiter. */
    /** The name of the limiter. */
    readonly name: string;
    readonly denied: number;
  }[];
  /** Denials by reasons other than a policy. */
  readonly reasons: readonly { readonly reason: string; readonly denied: number }[];
  /** The keys with most denials, then those with most requests. */
  readonly keys: readonly KeyRates[];
}

/** The age of the last counts up to which a process counts as active, so that its current second is not known yet, ms. */
const MAX_SILENCE_MS = 1500;

/** The duration of counts of a version that did not write it, ms. */
const DEFAULT_DURATION_MS = 1000;

/** Counts, and the part of them that lies in each span. */
export interface Weighted {
  readonly counted: Counted;
  readonly weights: readonly number[];
  /** The age of the first of these decisions, ms. */
  readonly age: number;
}

/**
 * The weights of counts in spans that end with the last counts of their process. A process writes once a second, so its current second is
 * not known: spans up to now would show less than there is.
 */
export function weigh({ now, counts }: RecentCounts, spans: readonly number[]): Weighted[] {
  const last = new Map<string, number>();
  for (const { at, counted } of counts) last.set(counted.id, Math.max(last.get(counted.id) ?? 0, at));
  return punctual(counts).flatMap(({ at, counted }) => {
    const end = Math.max(last.get(counted.id)!, now - MAX_SILENCE_MS);
    const { ms = DEFAULT_DURATION_MS } = counted;
    const weights = spans.map((span) => {
      const inSpan = Math.min(at, end) - Math.max(at - ms, end - 1000 * span);
      return Math.max(0, Math.min(1, inSpan / ms));
    });
    return weights.some((part) => part > 0) ? [{ counted, weights, age: now - at + ms }] : [];
  });
}

/** Counts with the time to which they belong: those that a store received late ended before the next ones of their process began. */
function punctual(counts: RecentCounts['counts']): { readonly at: number; readonly counted: Counted }[] {
  const starts = new Map<string, number>();
  const newest = [...counts].sort((a, b) => b.at - a.at);
  return newest.map(({ at: receivedAt, counted }) => {
    const at = Math.min(receivedAt, starts.get(counted.id) ?? receivedAt);
    starts.set(counted.id, at - (counted.ms ?? DEFAULT_DURATION_MS));
    return { at, counted };
  });
}

export const perSecond = (count: number, seconds: number): number => Math.round((10 * count) / seconds) / 10;

/** The decisions in each of several spans. */
class Sums {
  readonly #counts: [admitted: number, denied: number][];
  /** The policy that denied last, or the reason if no policy denied. */
  cause: Pick<KeyRates, 'policy' | 'reason' | 'deniedFor'> | undefined;

  constructor(spans: number) {
    this.#counts = Array.from({ length: spans }, () => [0, 0]);
  }

  /** @param weights the part of the counts that lies in each span */
  add(admitted: number, denied: number, weights: readonly number[]): void {
    for (const [i, counts] of this.#counts.entries()) {
      counts[0] += admitted * weights[i]!;
      counts[1] += denied * weights[i]!;
    }
  }

  requests(span: number): number {
    const [admitted, denied] = this.#counts[span]!;
    return admitted + denied;
  }

  rates(span: number, seconds: number): Rates {
    const [admitted, denied] = this.#counts[span]!;
    return { admitted: perSecond(admitted, seconds), denied: perSecond(denied, seconds) };
  }
}

/** The decisions of one limiter in each of several spans. */
export class LimiterSums {
  readonly total: Sums;
  /** The time for which the limiter has been counted, ms. */
  age = 0;
  readonly #spans: number;
  readonly #degraded: Sums;
  readonly #policies = new Map<string, Sums>();
  readonly #reasons = new Map<string, Sums>();
  readonly #keys = new Map<string, Sums>();

  constructor(spans: number) {
    this.#spans = spans;
    this.total = new Sums(spans);
    this.#degraded = new Sums(spans);
  }

  #in(sums: Map<string, Sums>, name: string): Sums {
    const known = sums.get(name) ?? new Sums(this.#spans);
    sums.set(name, known);
    return known;
  }

  /** @param age the age of the first of these decisions, ms */
  add(
    { counts, degraded = 0, policies, reasons = {}, keys }: CountedLimiter,
    { weights, age }: Pick<Weighted, 'weights' | 'age'>,
  ): void {
    this.age = Math.max(this.age, age);
    this.total.add(...counts, weights);
    this.#degraded.add(0, degraded, weights);
    for (const [policy, denied] of Object.entries(policies))
      this.#in(this.#policies, policy).add(0, denied, weights);
    for (const [reason, denied] of Object.entries(reasons))
      this.#in(this.#reasons, reason).add(0, denied, weights);
    for (const [text, [admitted, denied, policy, reason, deniedFor]] of Object.entries(keys)) {
      const sums = this.#in(this.#keys, text);
      sums.add(admitted, denied, weights);
      // The newest counts come first.
      sums.cause ??= causeIn(policy, reason, deniedFor);
    }
  }

  /** @param least the fewest requests from which the rate of a key is calculated */
  rates(name: string, spans: readonly number[], least: number): DecisionRates {
    const seconds = spans.map((span) => Math.max(spans[0]!, Math.min(span, this.age / 1000)));
    const counted = (sums: ReadonlyMap<string, Sums>) => [...sums].filter(([, own]) => own.requests(0) > 0);
    const denials = (sums: ReadonlyMap<string, Sums>) =>
      counted(sums)
        .map(([each, own]) => ({ name: each, denied: own.rates(0, spans[0]!).denied }))
        .sort((a, b) => b.denied - a.denied);
    const keys = counted(this.#keys).map(([text, sums]): KeyRates => {
      const enough = spans.findIndex((_, i) => sums.requests(i) >= least);
      const span = enough === -1 ? spans.length - 1 : enough;
      const { key = text, by = DEFAULT_DIMENSION, slot } = parseOwnerText(`x:${text}`) ?? {};
      return {
        key,
        ...(by !== DEFAULT_DIMENSION && { dimension: by }),
        ...(slot && { within: withinOf(slot) }),
        ...sums.rates(span, seconds[span]!),
        ...sums.cause,
      };
    });
    return {
      name,
      ...this.total.rates(0, spans[0]!),
      degraded: this.#degraded.rates(0, spans[0]!).denied,
      policies: denials(this.#policies),
      reasons: denials(this.#reasons).map(({ name: reason, denied }) => ({ reason, denied })),
      keys: keys.sort(byDenials),
    };
  }
}

function causeIn(
  policy: string | null | undefined,
  reason?: string | null,
  deniedFor?: string,
): Sums['cause'] {
  const other = deniedFor === undefined ? {} : { deniedFor };
  if (typeof policy === 'string') return { policy, ...other };
  return typeof reason === 'string' ? { reason, ...other } : undefined;
}

type Order = (a: Rates, b: Rates) => number;

export const byDenials: Order = (a, b) => b.denied - a.denied || b.admitted - a.admitted;

export const byRequests: Order = (a, b) => requestsOf(b) - requestsOf(a) || b.denied - a.denied;

const requestsOf = ({ admitted, denied }: Rates): number => admitted + denied;
