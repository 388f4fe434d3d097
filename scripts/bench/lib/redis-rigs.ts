import type { Redis } from 'ioredis';
import type { RedisOptions, RedisSubject } from '../rigs/redis.js';
import { endAll, medians, spreads, type Bench } from './part.js';
import { fixed, rate } from './figures.js';
import type { Sample } from './stats.js';

export const FIXED: RedisSubject = 'headgate fixed-window';
export const DEFAULT: RedisSubject = 'headgate sliding-window (default)';
export const BUCKET: RedisSubject = 'headgate gcra';

export const SECOND = 1000;
export const MINUTE = 60_000;

export type Figure = 'perSecond' | 'p50' | 'p99' | 'node' | 'redis' | 'script';
export type Results<S> = ReadonlyMap<S, Record<Figure, Sample>>;

/** The columns of most tables. */
export const column = {
  /** The ratio of decisions a second to those of a peer. */
  ratio: (peer: number) =>
    ['ratio', (result: Record<'perSecond', Sample>) => fixed(result.perSecond.median / peer, 2)] as const,
  perSecond: spreads('decisions/s', 'perSecond', rate),
  p50: medians('p50 us', 'p50', 0),
  p99: medians('p99 us', 'p99', 0),
  node: medians('Node us', 'node', 2),
  redis: medians('Redis us', 'redis', 2),
  script: medians('script us', 'script', 2),
};

export const least = <S>(results: Results<S>, subjects: readonly S[], figure: Figure): number =>
  Math.min(...subjects.map((subject) => results.get(subject)![figure].median));

export const most = <S>(results: Results<S>, subjects: readonly S[], figure: Figure): number =>
  Math.max(...subjects.map((subject) => results.get(subject)![figure].median));

/** Limiters on one Redis, measured in turns. Each is warmed up for every number of decisions in flight. */
export async function redisRigs<S>(
  bench: Bench,
  subjects: readonly S[],
  optionsOf: (subject: S) => RedisOptions,
  inFlight: readonly number[],
  admitted: boolean | 'any' = true,
) {
  const rigs = await bench.startAll('redis', subjects, optionsOf);
  for (const rig of rigs.values()) await rig.warmUp(inFlight, admitted);
  return {
    rigs,
    measure: (what: string, inFlight: number, ms: number): Promise<Results<S>> =>
      bench.sample(what, subjects, (subject) => rigs.get(subject)!.round(inFlight, ms, admitted)),
    end: () => endAll(rigs),
  };
}

let cases = 0;

/** Compares cases that differ in some options, 64 in flight. No two cases share state. */
export async function compareRigs(
  bench: Bench,
  title: string,
  base: RedisOptions,
  differing: Readonly<Record<string, Partial<RedisOptions>>>,
  admitted: boolean | 'any' = true,
): Promise<Results<string>> {
  const optionsOf = (name: string) => ({ ...base, scope: `case ${cases++}`, ...differing[name] });
  const rigs = await redisRigs(bench, Object.keys(differing), optionsOf, [64], admitted);
  const results = await rigs.measure(title, 64, 300);
  await rigs.end();
  return results;
}

/** The longest overtaking among requests that arrived at `times`, in the order of their admission. */
export function overtakingOf(times: readonly number[]): number {
  let [most, latest] = [0, 0];
  for (const came of times) {
    most = Math.max(most, latest - came);
    latest = Math.max(latest, came);
  }
  return most;
}

/** The number of scripts that a server has run. */
export async function scriptsRun(redis: Redis): Promise<number> {
  const calls = (await redis.info('commandstats')).matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm);
  return [...calls].reduce((sum, [, calls]) => sum + Number(calls), 0);
}
