import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { startServer } from '../../../test/support/servers.js';
import { ratioBar, type Bench, type Part, type Section } from '../lib/part.js';
import { fixed, rate, spread } from '../lib/report.js';
import { summarize, type Sample } from '../lib/stats.js';
import type { RedisOptions, RedisSubject } from '../rigs/redis.js';

const PEER = 'rate-limiter-flexible';

/** What each of ours may take and must reach, as multiples of rate-limiter-flexible's: script time, calls a second, p50 alone. */
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

type Rig = Awaited<ReturnType<typeof startRig>>;

const startRig = (bench: Bench, subject: RedisSubject, port: number) =>
  bench.start('redis', { subject, port, scope: 'alone', ...options } satisfies RedisOptions);

/** One decision at a time: where many processes have one or two under way each, batches help nobody. */
export const alone: Part = {
  name: 'alone',
  async run(bench) {
    const server = await startServer('redis');
    const redis = new Redis(server.port);
    try {
      const rigs = new Map<RedisSubject, Rig>();
      for (const subject of subjects) rigs.set(subject, await startRig(bench, subject, server.port));
      return [await fleet(bench, redis, rigs), ...(await oneProcess(bench, rigs))];
    } finally {
      redis.disconnect();
      await server.stop();
    }
  },
};

/** The calls themselves, as each limiter makes them, from many connections that wait for each answer. */
async function fleet(bench: Bench, redis: Redis, rigs: ReadonlyMap<RedisSubject, Rig>): Promise<Section> {
  const calls = new Map<RedisSubject, readonly string[]>();
  for (const [subject, rig] of rigs) calls.set(subject, await callOf(redis, rig));
  const title = `${CONNECTIONS} connections with one call in flight each, ${KEYS} keys`;
  const rounds = await bench.interleave(title, subjects, (subject) => load(redis, calls.get(subject)!));
  const results = new Map([...rounds].map(([subject, values]) => [subject, summarize(values)]));
  const of = (subject: RedisSubject, figure: 'script' | 'perSecond') => results.get(subject)![figure].median;
  return {
    title,
    note: 'Calls that were seen on the server, repeated by redis-benchmark. Ratios are to rate-limiter-flexible.',
    columns: ['', 'script us', 'ratio', 'calls/s', 'ratio'],
    rows: subjects.map((subject) => {
      const { script, perSecond } = results.get(subject)!;
      const ratio = (figure: Sample, peer: number) => fixed(figure.median / peer, 2);
      return [
        ...[subject, spread(script, 2), ratio(script, of(PEER, 'script'))],
        ...[spread(perSecond, rate), ratio(perSecond, of(PEER, 'perSecond'))],
      ];
    }),
    bars: ours.flatMap((subject) => {
      const [most, least] = bars[subject]!;
      return [
        ratioBar(`${subject}: script <= ${most}x`, of(subject, 'script'), of(PEER, 'script'), most, true),
        ratioBar(`${subject}: calls/s >= ${least}x`, of(subject, 'perSecond'), of(PEER, 'perSecond'), least),
      ];
    }),
    data: Object.fromEntries(results),
  };
}

/** What a limiter sends for a decision, with a key for each of many clients, and a deadline that does not pass. */
async function callOf(redis: Redis, rig: Rig): Promise<readonly string[]> {
  const monitor = await redis.monitor();
  let last: readonly string[] = [];
  monitor.on('monitor', (_, args: string[]) => {
    if (/^evalsha$/i.test(args[0]!) || /^rl/i.test(args[0]!)) last = args;
  });
  await rig.round(1, 50, true);
  monitor.disconnect();
  const [command, sha, count, key, ...args] = last;
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

async function oneProcess(bench: Bench, rigs: ReadonlyMap<RedisSubject, Rig>): Promise<Section[]> {
  const sections: Section[] = [];
  for (const rig of rigs.values()) await rig.warmUp([1, 8], true);
  for (const inFlight of [1, 8]) {
    const title = `One process, ${inFlight} in flight`;
    const rounds = await bench.interleave(title, subjects, (subject) =>
      rigs.get(subject)!.round(inFlight, 300, true),
    );
    const results = new Map([...rounds].map(([subject, values]) => [subject, summarize(values)]));
    const peer = results.get(PEER)!.p50.median;
    sections.push({
      title,
      columns: ['', 'p50 us', 'ratio', 'Node us', 'Redis us', 'script us'],
      rows: [...results].map(([subject, { p50, node, redis, script }]) => [
        ...[subject, spread(p50, 1), fixed(p50.median / peer, 2)],
        ...[node, redis, script].map((figure) => spread(figure, 2)),
      ]),
      bars: ours.flatMap((subject) => {
        const most = inFlight === 1 ? bars[subject]![2] : 1;
        if (most === undefined) return [];
        return [ratioBar(`${subject}: p50 <= ${most}x`, results.get(subject)!.p50.median, peer, most, true)];
      }),
      data: Object.fromEntries(results),
    });
  }
  return sections;
}
