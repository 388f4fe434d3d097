import type { Command } from 'commander';
import type { Policy } from '../../policy.js';
import { usageError } from '../errors.js';
import { printable } from '../format.js';
import { write, writeJson, type Io } from '../io.js';
import { addLimitsOptions, readOneLimits, type LimitsOptions } from '../limits.js';
import { policyText } from '../../policy-text.js';
import { replayJson } from '../replay/json.js';
import { addLogOptions, LOGS_HELP, readLogs, type LogOptions } from '../replay/options.js';
import { Replay } from '../replay/replay.js';
import { checkReportPath, writeReport } from '../replay/report.js';
import { forEachRequest } from '../replay/run.js';
import { replayText } from '../replay/terminal.js';

interface Options extends LogOptions, LimitsOptions {
  readonly top: string;
  readonly report?: string;
}

const MOST_TOP = 10_000;

export function register(program: Command, io: Io): void {
  const command = program
    .command('replay')
    .summary('who would have been denied, from an access log')
    .description(
      'Replays access logs through the real policies, in the time of the logs, and tells who would have been denied, when, how ' +
        `often and by which policy. ${LOGS_HELP}`,
    );
  addLimitsOptions(addLogOptions(command))
    .option('--name <limiter>', 'which limiter of --policies, if it has several')
    .option('--top <n>', 'how many of the clients that were denied are named', '10')
    .option('--report <file>', 'write a page with plots, which needs no network')
    .addHelpText(
      'after',
      "\nExample:\n  headgate replay access.log --policy '100/1m' --policy 'burst=token-bucket 20/1s burst 40'",
    )
    .action(async (names: string[], options: Options) => replay(names, options, io));
}

async function replay(names: readonly string[], options: Options, io: Io): Promise<void> {
  const limits = readOneLimits(options, io);
  if (!limits) {
    throw usageError(
      "replay: by which policies? Write for example --policy '100/1m'; `headgate suggest` proposes some.",
    );
  }
  const { replayed, left } = split(limits.policies);
  const run = new Replay(replayed);
  const top = topOf(options.top);
  const report = options.report === undefined ? undefined : await checkReportPath(options.report, names, io);
  await readLogs(names, options, io, async (logs) => {
    await forEachRequest(logs, io, 'replaying', (key, time) => run.add(key, time));
    logs.checkFound();
    const result = run.result(top);
    if (report !== undefined) await writeReport(report, result, logs.summaries, left);
    await (io.json
      ? writeJson(io, replayJson(result, logs.summaries, left))
      : write(io, replayText(result, logs.summaries, left, io)));
  });
  if (report !== undefined && !io.json)
    await write(io, `\nThe report is in ${printable(options.report!, Infinity)}\n`);
}

/** Policies of slots are left out of those that are replayed, unless there are no others. */
function split(policies: readonly Policy[]): { replayed: readonly Policy[]; left: readonly string[] } {
  const replayed = policies.filter(({ algorithm }) => algorithm !== 'concurrency');
  if (replayed.length === 0) return { replayed: policies, left: [] };
  return { replayed, left: policies.filter((policy) => !replayed.includes(policy)).map(policyText) };
}

function topOf(text: string): number {
  const top = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!(top <= MOST_TOP)) throw usageError(`--top: write a whole number from 0 to ${MOST_TOP}.`);
  return top;
}
