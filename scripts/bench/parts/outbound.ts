import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { startServer } from '../../../test/support/servers.js';
import { StrictServer } from '../../../test/support/strict-server.js';
import { barOf, type Bar, type Bench, type Part } from '../lib/part.js';
import { overtakingOf, scriptsRun } from '../lib/redis-rigs.js';
import { fixed } from '../lib/figures.js';
import { outboundSubjects, PER_SECOND, type OutboundSubject } from '../rigs/outbound.js';

const PROCESSES = 4;
/** The number of calling loops in each process. */
const LOOPS_PER_PROCESS = 5;
/** The additional distance of the last process from Redis, ms each way. */
const DISTANCE_MS = 8;
/** The time of calls before the measurement, the time of the measurement, and the pause of the server after it, ms. */
const BEGIN_MS = 3000;
const MEASURED_MS = 20_000;
const PAUSE_MS = 2000;

const hasSqlite = process.getBuiltinModule?.('node:sqlite' as 'node:fs') !== undefined;
const subjects = outboundSubjects.filter((subject) => hasSqlite || !subject.includes('SQLite'));

interface Figures {
  readonly perSecond: number;
  readonly violations: number;
  /** Calls that reached the server during a pause of the server. */
  readonly paused: number;
  /** The longest time by which a call was overtaken, ms. */
  readonly overtaking: number;
  /** The far process' calls, relative to its fair share. */
  readonly share: number;
  /** Redis scripts per call. */
  readonly scripts: number;
  /** The longest time without an arrival after a process was killed, ms. */
  readonly stall: number;
}

/** Calls to a server with a strict limit, from several processes. */
export const outbound: Part = {
  name: 'outbound',
  async run(bench) {
    const rounds = await bench.interleave('outbound', subjects, (subject) => measure(bench, subject));
    const bars: Bar[] = [];
    const rows = subjects.map((subject) => {
      const all = rounds.get(subject)!;
      const worst = (figure: keyof Figures): number => Math.max(...all.map((each) => each[figure]));
      const least = (figure: keyof Figures): number => Math.min(...all.map((each) => each[figure]));
      const add = (bar: string, figure: number, pass: boolean): void =>
        void bars.push(barOf(`${subject}: ${bar}`, fixed(figure, 2), pass));
      if (subject.startsWith('headgate')) {
        add('0 violations', worst('violations'), worst('violations') === 0);
        add('>= 95 % of the limit', least('perSecond') / PER_SECOND, least('perSecond') >= 0.95 * PER_SECOND);
        add('<= 4 calls in a pause', worst('paused'), worst('paused') <= 4);
        add('overtaken by <= 100 ms', worst('overtaking'), worst('overtaking') <= 100);
      }
      if (subject === 'headgate, Redis') {
        add('the far process has >= 0.8 of its share', least('share'), least('share') >= 0.8);
        add('<= 1.5 calls to Redis a call', worst('scripts'), worst('scripts') <= 1.5);
        add('a process that dies stalls others for <= 2 s', worst('stall'), worst('stall') <= 2000);
      }
      const isRedis = !/SQLite|memory/.test(subject);
      return [
        ...[subject, fixed(least('perSecond'), 1), String(worst('violations')), String(worst('paused'))],
        ...[fixed(worst('overtaking'), 0), isRedis ? fixed(least('share'), 2) : ''],
        ...[isRedis ? fixed(worst('scripts'), 2) : '', fixed(worst('stall'), 0)],
      ];
    });
    return [
      {
        title: `${PROCESSES} processes that call a strict server of ${PER_SECOND} a second`,
        note: `${MEASURED_MS / 1000} s, the worst of ${bench.rounds} rounds. The server keeps a sliding log. With Redis, the last process is ${DISTANCE_MS} ms farther from it each way.`,
        columns: [
          ...['', 'calls/s', 'violations', `calls in a pause of ${PAUSE_MS / 1000} s`, 'overtaken by, ms'],
          ...['share of the far one', 'calls to Redis', 'stall when a process dies, ms'],
        ],
        rows,
        bars,
        data: Object.fromEntries(rounds),
      },
    ];
  },
};

async function measure(bench: Bench, subject: OutboundSubject): Promise<Figures> {
  const redis = await startServer('redis');
  const client = new Redis(redis.port);
  const server = await new StrictServer(PER_SECOND).start();
  const directory = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
  const ends: (() => Promise<void>)[] = [];
  try {
    const road = await bench.start('distance', { port: redis.port, ms: DISTANCE_MS });
    ends.push(() => road.end());
    const ports = [...Array<number>(PROCESSES - 1).fill(redis.port), await road.port()];
    const path = join(directory, 'limits.db');
    const isAlone = subject.includes('one process');
    const rigs = await Promise.all(
      (isAlone ? ports.slice(0, 1) : ports).map((port, id) =>
        bench.start('outbound', { subject, url: server.url, port, path, id }),
      ),
    );
    ends.unshift(...rigs.map((rig) => () => rig.end()));
    await Promise.all(
      rigs.map((rig) => rig.begin(isAlone ? LOOPS_PER_PROCESS * PROCESSES : LOOPS_PER_PROCESS)),
    );
    await sleep(BEGIN_MS);
    const first = server.arrivals.length;
    const [violations, before] = [server.violations, await scriptsRun(client)];
    await sleep(MEASURED_MS);
    const measured = server.arrivals.slice(first);
    const figures = {
      perSecond: (1000 * measured.filter(({ status }) => status === 200).length) / MEASURED_MS,
      violations: server.violations - violations,
      overtaking: overtakingOf(measured.map(({ came }) => came)),
      share: (PROCESSES * measured.filter((each) => each.process === '3').length) / measured.length,
      scripts: ((await scriptsRun(client)) - before) / measured.length,
    };
    server.pause(PAUSE_MS);
    await sleep(PAUSE_MS);
    const { paused } = server;
    await sleep(BEGIN_MS);
    const last = server.arrivals.length - 1;
    if (!isAlone) await rigs[0]!.end();
    await sleep(BEGIN_MS);
    const after = server.arrivals.slice(last).map(({ at }) => at);
    const stall = Math.max(...after.slice(1).map((at, i) => at - after[i]!));
    return { ...figures, paused, stall };
  } finally {
    await Promise.all(ends.map((end) => end()));
    client.disconnect();
    await server.stop();
    await redis.stop();
    rmSync(directory, { recursive: true, force: true });
  }
}
