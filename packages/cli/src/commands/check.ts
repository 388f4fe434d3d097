import { createAdmin, type Admin, type LimiterHistory, type Outage, type ProcessState } from 'headgate/admin';
import type { CliCommand, Options } from '../command.js';
import { EXIT } from '../errors.js';
import { count, many, printable, table, type Table } from '../format.js';
import { writeAnswer, type Io } from '../io.js';
import { lossMessage } from '../loss.js';
import { timeoutOf, withState } from '../open.js';
import { withinLimit } from '../within-limit.js';
import { clock, zoneOf } from '../times.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('check')
    .summary('whether limits can be enforced on a server')
    .description(
      'Checks version, commands, permissions, eviction, clock and latency, as `store.check()` does, and shows how processes see the ' +
        'server, and its outages of the last hour. It writes nothing. Exits with 1 if limits do not hold on the server.',
    )
    .serverOptions()
    .answers('a document: holds, findings, each with level, code and message')
    .example('check --redis redis://127.0.0.1:6379')
    .action((options: Options) => check(options, io));
}

/** A line of the answer: a finding about the server, or one about the processes. */
interface Line {
  readonly level: 'ok' | 'warning' | 'error';
  readonly code: string;
  readonly message: string;
}

/** The time in which a fast server is connected and has answered, ms. The default timeout of decisions is 100 ms. */
const FAST_MS = 100;

/** The minute of the counts, ms. */
const MINUTE_MS = 60_000;

/** The time from which a blocked event loop is reported, ms. */
const BUSY_MS = 50;

/** The time from which a connection is reported as late, ms. */
const LATE_MS = 1000;

async function check(options: Options, io: Io): Promise<void> {
  const timeout = timeoutOf(options);
  await withState(options, io, async (source, settings, connectMs) => {
    const left = Math.max(1, Math.floor(timeout - connectMs));
    const admin = createAdmin(source, { ...settings, timeout: left });
    try {
      const findings = [
        ...(options.sqlite === undefined ? [connected(connectMs)] : []),
        ...(await withinLimit(
          left,
          findingsOf(admin, connectMs, io),
          `The check has not ended within ${timeout} ms. --timeout sets the limit.`,
        )),
      ];
      const holds = findings.every(({ level }) => level !== 'error');
      if (!holds) io.exitCode = EXIT.failed;
      await writeAnswer(io, { holds, findings }, () => table(io, COLUMNS, findings));
    } finally {
      await admin.close();
    }
  });
}

async function findingsOf(admin: Admin, connectMs: number, io: Io): Promise<Line[]> {
  // A user without permission for the counts still gets the other findings.
  const [findings, loss, processes, { outages, limiters }] = await Promise.all([
    admin.check(),
    lossMessage(admin),
    admin.traffic({ keys: 0 }).then(
      (traffic) => traffic.processes,
      () => [],
    ),
    admin.history({ minutes: 60 }).catch(() => ({ outages: [], limiters: [] })),
  ]);
  const isUp = processes.length > 0 && processes.every(({ health }) => health.state === 'up');
  const wasDown = loss !== undefined || processes.some(({ health }) => health.state === 'down');
  return [
    // The client belongs to this command, so its options differ from the service's.
    ...findings.filter(({ code }) => code !== 'client'),
    ...(loss === undefined ? [] : [{ level: 'warning', code: 'records', message: loss } as const]),
    ...processLines(processes),
    ...causeLines(processes, connectMs, wasDown || limiters.some(wasDownLately)),
    ...outages.map((each) => outageLine(each, isUp, io)),
  ];
}

function connected(connectMs: number): Line {
  const message = `The server was connected and answered after ${count(Math.ceil(connectMs))} ms.`;
  if (connectMs < LATE_MS) return { level: 'ok', code: 'connection', message };
  const late = `${message} Limiters do not wait that long, so onStoreError decided meanwhile.`;
  return { level: 'warning', code: 'connection', message: late };
}

/** The store as processes see it. A process that decided nothing in the last seconds has no view. */
function processLines(processes: readonly ProcessState[]): Line[] {
  const sick = processes.filter(({ health, latency }) => health.state !== 'up' || (latency?.late ?? 0) > 0);
  const fine = processes.filter((each) => !sick.includes(each));
  const slowest = Math.max(...fine.map(({ latency }) => latency?.p99Ms ?? 0));
  const up: Line = {
    level: 'ok',
    code: 'processes',
    message: `${many(fine.length, 'process')} counted decisions in the last seconds, with the store up${slowest > 0 ? `, and 99 % of the answers within ${slowest} ms` : ''}.`,
  };
  return [...(fine.length > 0 ? [up] : []), ...sick.map(sickLine)];
}

function sickLine({ host, pid, health, latency, degraded, loopDelayMs }: ProcessState): Line {
  const parts = [
    `${host}:${pid} sees the store as ${health.state}`,
    ...(latency && latency.late > 0
      ? [`${latency.late} answers a second came too late, 99 % within ${latency.p99Ms} ms`]
      : []),
    ...(loopDelayMs >= BUSY_MS ? [`its event loop was blocked for ${Math.ceil(loopDelayMs)} ms`] : []),
    ...(degraded > 0
      ? [`it decides ${degraded} ${degraded === 1 ? 'request' : 'requests'} a second without the store`]
      : []),
  ];
  return { level: 'warning', code: 'processes', message: `${parts.join('; ')}.` };
}

/** The present minute and the one before it, in which an outage may have ended a few seconds ago. */
const RECENT_MINUTES = 2;

/** Whether the store was down lately. A single late answer does not count. */
const wasDownLately = ({ unreachable, unanswered }: LimiterHistory): boolean =>
  [unreachable, unanswered].some((counts) => counts.slice(-RECENT_MINUTES).some((count) => count > 0));

/**
 * The cause of late answers: processes see a server as slow that answers this command at once, or the server is slow.
 *
 * @param wasDown whether the store was down lately, so that the late answers may be of the outage
 */
function causeLines(processes: readonly ProcessState[], connectMs: number, wasDown: boolean): Line[] {
  const late = processes.filter(({ latency }) => (latency?.late ?? 0) > 0).length;
  if (late === 0) return [];
  const message = wasDown
    ? 'The store was down within the last two minutes, so the late answers may be of that outage.'
    : connectMs < FAST_MS
      ? `The server answered this command at once, so ${many(late, 'process')} or the network in between ${late === 1 ? 'is' : 'are'} busy.`
      : 'The server answered this command late, too, so it is overloaded, or the network is slow.';
  return [{ level: 'warning', code: 'cause', message }];
}

/** @param isUp whether all processes see the store as up */
function outageLine({ from, to, degraded }: Outage, isUp: boolean, io: Io): Line {
  const [start, end] = [clock(io, from), clock(io, to)].map((each) => each.slice(11, 16));
  // The present minute has not ended. Counts are by the minute, and the outage may have been shorter.
  const isPresent = to > Date.now();
  let when = `between about ${start} and ${isPresent ? 'now' : end}`;
  if (isPresent && !isUp) when = `since ${start}`;
  else if (to - from <= MINUTE_MS) when = `in the minute of ${start}`;
  const message = `The store was down or late ${when} ${zoneOf(io, to)}: ${many(degraded, 'decision')} without it.`;
  return { level: 'warning', code: 'outages', message };
}

const COLUMNS: Table<Line> = {
  level: ({ level }) => level,
  what: ({ code }) => code,
  finding: ({ message }) => printable(message, 500),
};
