// The requests of a pattern. Every run makes the same ones.
import { MAX_REQUESTS, type Pattern, type Settings } from './settings.js';

/** A request: its time, ms from the start, and its client or tenant. */
export interface TracedRequest {
  readonly at: number;
  readonly client: string;
}

/** The part of a burst's period in which the burst arrives. */
const BURST = 0.05;
const BURSTS = 6;
/** The part of a window around its end in which the requests of `edge` arrive. */
const EDGE = 0.05;
/** The hog begins after this part of the time, and sends this part of all requests. */
const HOG_FROM = 0.2;
const HOG = 0.8;

/** `count` times from `from` on, evenly within `length`. */
const spread = (count: number, from: number, length: number): number[] =>
  Array.from({ length: count }, (_, i) => Math.round(from + (i / count) * length));

const byOne = (times: readonly number[], client = 'ada'): TracedRequest[] =>
  times.map((at) => ({ at, client }));

type Make = (count: number, length: number, window: number) => TracedRequest[];

const MAKE: Readonly<Record<Exclude<Pattern, 'log'>, Make>> = {
  steady: (count, length) => byOne(spread(count, 0, length)),

  bursts(count, length) {
    const period = length / BURSTS;
    const starts = Array.from({ length: BURSTS }, (_, i) => i * period);
    return byOne(starts.flatMap((start) => spread(Math.ceil(count / BURSTS), start, period * BURST)));
  },

  /** A request that begins a window of this key; then half of the requests before its end, half behind it; and again two windows later. */
  edge(count, length, window) {
    const edges = Math.max(1, Math.ceil((length / window - 1) / 2));
    const half = Math.max(1, Math.ceil((count - 1) / edges / 2));
    const ends = Array.from({ length: edges }, (_, i) => (2 * i + 1) * window);
    const around = ends.flatMap((end) => [
      ...spread(half, end - EDGE * window, EDGE * window),
      ...spread(half, end + 1, EDGE * window),
    ]);
    return byOne([0, ...around]);
  },

  tenants(count, length) {
    const light = Math.max(1, Math.round((count * (1 - HOG)) / 2));
    return [
      ...byOne(spread(light, 0, length), 'acme'),
      ...byOne(spread(light, length / light / 2, length), 'globex'),
      ...byOne(spread(Math.round(count * HOG), length * HOG_FROM, length * (1 - HOG_FROM)), 'hog'),
    ];
  },
};

/**
 * The requests of the settings' pattern, in order of time.
 *
 * @param window of the first policy, ms
 * @param log the requests of an access log
 */
export function traceOf(
  { pattern, rate, seconds }: Settings,
  window: number,
  log: readonly TracedRequest[],
): readonly TracedRequest[] {
  if (pattern === 'log') return log;
  const count = Math.max(1, Math.round(rate * seconds));
  if (count > MAX_REQUESTS)
    throw new RangeError(
      `${count} requests are too many: the playground draws at most ${MAX_REQUESTS}. Lower the rate or the time.`,
    );
  return MAKE[pattern](count, seconds * 1000, window).sort((a, b) => a.at - b.at);
}
