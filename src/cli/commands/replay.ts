import type { Command } from 'commander';
import { usageError } from '../errors.js';
import { write, writeJson, type Io } from '../io.js';
import { parsePolicies, POLICY_GRAMMAR } from '../policy-text.js';
import { replayJson } from '../replay/json.js';
import { addLogOptions, collect, LOGS_HELP, readLogs, type LogOptions } from '../replay/options.js';
import { Replay } from '../replay/replay.js';
import { checkReportPath, writeReport } from '../replay/report.js';
import { forEachRequest } from '../replay/run.js';
import { replayText } from '../replay/terminal.js';

interface Options extends LogOptions {
  readonly policy?: readonly string[];
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
  addLogOptions(command)
    .option('--policy <policy>', `a policy, again for each: ${POLICY_GRAMMAR}`, collect)
    .option('--top <n>', 'how many of the clients that were denied are named', '10')
    .option('--report <file>', 'write a page with plots, which needs no network')
    .addHelpText(
      'after',
      "\nExample:\n  headgate replay access.log --policy '100/1m' --policy 'burst=token-bucket 20/1s burst 40'",
    )
    .action(async (names: string[], options: Options) => replay(names, options, io));
}

async function replay(names: readonly string[], options: Options, io: Io): Promise<void> {
  if (!options.policy) {
    throw usageError(
      "replay: by which policies? Write for example --policy '100/1m'; `headgate suggest` proposes some.",
    );
  }
  const run = new Replay(parsePolicies(options.policy));
  const top = topOf(options.top);
  const report = options.report === undefined ? undefined : await checkReportPath(options.report, names, io);
  const logs = readLogs(names, options, io);
  await forEachRequest(logs, io, 'replaying', (key, time) => run.add(key, time));
  const result = run.result(top);
  if (report !== undefined) await writeReport(report, result, logs.summaries);
  await (io.json
    ? writeJson(io, replayJson(result, logs.summaries))
    : write(io, replayText(result, logs.summaries, io)));
  if (report !== undefined && !io.json) await write(io, `\nThe report is in ${options.report}\n`);
}

function topOf(text: string): number {
  const top = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!(top <= MOST_TOP)) throw usageError(`--top: write a whole number from 0 to ${MOST_TOP}.`);
  return top;
}
