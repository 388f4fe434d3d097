import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import type { Remote } from '../lib/child.js';
import { atLeast, atMost, redisPart, spreads, tableOf, type Bench, type Section } from '../lib/part.js';
import { redisRigs } from '../lib/redis-rigs.js';
import { fixed, rate } from '../lib/figures.js';
import type { RedisSubject } from '../rigs/redis.js';

const PEER = 'rate-limiter-flexible';

/** The bars for Headgate's limiters, as multiples of rate-limiter-flexible's figures: script time, calls a second, p50 alone. */
const bars: Partial<Record<RedisSubject, readonly [number, number, number?]>> = {
  'headgate fixed-window': [1.25, 0.93, 1.08],
  'headgate sliding-window (default)': [1.5, 0.86, 1.15],
  'headgate gcra': [1.5, 0.86, 1.15],
  'headgate calendar': [1.6, 0.83],
};
const ours = Object.keys(bars) as RedisSubject[];
const subjects: readonly RedisSubject[] = [PEER, 'express-rate-limit', '@fastify/rate-limit', ...ours];

const CONNECTIONS = 50;
const CALLS = 20_000;
const KEYS = 1000;
const options = { limit: 1e5, window: 60_000, keys: KEYS };

type Rig = Remote<'redis'>;
type Rigs = Awaited<ReturnType<typeof redisRigs<RedisSubject>>>;

/** One decision at a time, as in many processes with one or two open decisions each, where batches do not help. */
export const alone = redisPart('alone', async (bench, port) => {
  const redis = new Redis(port);
  try {
    const rigs = await redisRigs(
      bench,
      subjects,
      (subject) => ({ subject, port, scope: 'alone', ...options }),
      [1, 8],
    );
    return [await fleet(bench, redis, rigs.rigs), ...(await oneProcess(rigs))];
  } finally {
    redis.disconnect();
  }
});

/** The calls of each limiter, sent by many connections that wait for each answer. */
async function fleet(bench: Bench, redis: Redis, rigs: ReadonlyMap<RedisSubject, Rig>): Promise<Section> {
  const calls = new Map<RedisSubject, readonly string[]>();
  for (const [subject, rig] of rigs) calls.set(subject, await callOf(redis, rig));
  const title = `${CONNECTIONS} connections with one call in flight each, ${KEYS} keys`;
  const results = await bench.sample(title, subjects, (subject) => load(redis, calls.get(subject)!));
  const of = (subject: RedisSubject, figure: 'script' | 'perSecond') => results.get(subject)![figure].median;
  const ratio = (figure: 'script' | 'perSecond') =>
    [
      'ratio',
      (_: unknown, subject: RedisSubject) => fixed(of(subject, figure) / of(PEER, figure), 2),
    ] as const;
  const columns = [
    ...[spreads('script us', 'script', 2), ratio('script')],
    ...[spreads('calls/s', 'perSecond', rate), ratio('perSecond')],
  ];
  return tableOf(title, results, columns, {
    note: 'Calls that were seen on the server, repeated by redis-benchmark. Ratios are to rate-limiter-flexible.',
    bars: ours.flatMap((subject) => {
      const [most, least] = bars[subject]!;
      return [
        atMost(`${subject}: script <= ${most}x`, of(subject, 'script'), of(PEER, 'script'), most),
        atLeast(`${subject}: calls/s >= ${least}x`, of(subject, 'perSecond'), of(PEER, 'perSecond'), least),
      ];
    }),
  });
}

/** The command of a limiter for a decision, with a key for each of many clients, and a deadline that does not pass. */
async function callOf(redis: Redis, rig: Rig): Promise<readonly string[]> {
  const monitor = await redis.monitor();
  let last: readonly string[] = [];
  monitor.on('monitor', (_, args: string[]) => {
    if (/^evalsha$/i.test(args[0]!) || /^rl/i.test(args[0]!)) last = args;
  });
  await rig.round(1, 50, true);
  monitor.disconnect();
  // MONITOR escapes backslashes, of which packed params have some.
  const [command, sha, count, key, ...args] = last.map((text) => text.replaceAll('\\\\', '\\'));
  if (sha === undefined || key === undefined) throw new Error('The limiter called no script.');
  const isDeadline = Math.abs(Number(args[0]) - Date.now()) < 60_000;
  if (isDeadline) args[0] = String(Date.now() + 1e9);
  return [command!, sha, count!, `${key}:__rand_int__`, ...args];
}

async function load(redis: Redis, call: readonly string[]): Promise<{ script: number; perSecond: number }> {
  await redis.config('RESETSTAT');
  const { stdout } = await promisify(execFile)('redis-benchmark', [
    ...['-p', String(redis.options.port), '-c', String(CONNECTIONS), '-n', String(CALLS), '-r', String(KEYS)],
    ...['-q', ...call],
  ]);
  const script = /^cmdstat_evalsha:calls=\d+,usec=\d+,usec_per_call=([\d.]+)/m;
  return {
    script: Number(script.exec(await redis.info('commandstats'))?.[1]),
    perSecond: Number(/([\d.]+) requests per second/.exec(stdout)?.[1]),
  };
}

async function oneProcess({ measure }: Rigs): Promise<Section[]> {
  const sections: Section[] = [];
  for (const inFlight of [1, 8]) {
    const title = `One process, ${inFlight} in flight`;
    const results = await measure(title, inFlight, 300);
    const peer = results.get(PEER)!.p50.median;
    const columns = [
      spreads('p50 us', 'p50', 1),
      [
        'ratio',
        (_: unknown, subject: RedisSubject) => fixed(results.get(subject)!.p50.median / peer, 2),
      ] as const,
      ...[spreads('Node us', 'node', 2), spreads('Redis us', 'redis', 2), spreads('script us', 'script', 2)],
    ];
    const held = ours.flatMap((subject) => {
      const limit = inFlight === 1 ? bars[subject]![2] : 1;
      if (limit === undefined) return [];
      return [atMost(`${subject}: p50 <= ${limit}x`, results.get(subject)!.p50.median, peer, limit)];
    });
    sections.push(tableOf(title, results, columns, { bars: held }));
  }
  return sections;
}
