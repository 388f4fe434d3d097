import { policyText, type Policy } from 'headgate';
import { collect, integer, type CliCommand, type Options as Shared } from '../command.js';
import { usageError } from '../errors.js';
import { printable, quoted } from '../format.js';
import { write, writeAnswer, type Io } from '../io.js';
import { ofTier, readOneLimits } from '../limits.js';
import { parsePolicies } from '../policy-text.js';
import { replayJson } from '../replay/json.js';
import { forEachRequest, type Logs } from '../replay/logs.js';
import { addLogOptions, LOGS_HELP, readLogs, type LogOptions } from '../replay/options.js';
import { checkKeys, loggedKeys } from '../replay/dimensions.js';
import { Engine } from '../replay/engine.js';
import { compare, Replay, type Results } from '../replay/replay.js';
import { countsSlots } from '../replay/policies.js';
import { checkReportPath, DeniedRequests, timesOf, writeReport } from '../replay/report.js';
import { reportPage } from '../replay/report-page.js';
import { replayText } from '../replay/terminal.js';

interface Options extends LogOptions, Pick<Shared, 'name' | 'policy' | 'policies' | 'tier'> {
  readonly top: number;
  readonly report?: string;
  readonly compare?: readonly string[];
  readonly comparePolicies?: string;
}

const MOST_TOP = 10_000;

export function register(program: CliCommand, io: Io): void {
  const command = program
    .command('replay')
    .summary('the clients that policies would have denied, from an access log')
    .description(
      'Replays access logs through the real policies, in the time of the logs, and reports the denied clients, with times, numbers ' +
        `and policies. ${LOGS_HELP}`,
    );
  addLogOptions(command)
    .limitsOptions()
    .option('--name <limiter>', 'the limiter in --policies, if the file has several')
    .option('--top <n>', 'the number of denied clients to name', integer('--top', 0, MOST_TOP), 10)
    .option(
      '--compare <text>',
      'a policy of another set to compare with, written as for --policy; repeatable',
      collect,
    )
    .option(
      '--compare-policies <file>',
      'the other set as JSON, as in --policies; --name selects the limiter',
    )
    .option('--report <file>', 'write a page with plots, which needs no network')
    .answers(
      'a document: requests, admitted, denied, clients, deniedClients, busiest, policies, top, timeline, notReplayed, notes, logs, ...; with two sets of policies also compared',
    )
    .example("replay access.log --policy '100/1m' --policy 'burst=token-bucket 20/1s burst 40'")
    .action((names: string[], options: Options) => replay(names, options, io));
}

async function replay(names: readonly string[], options: Options, io: Io): Promise<void> {
  const limits = readOneLimits(options, io);
  if (!limits) {
    throw usageError(
      "replay: no policies. Pass some, such as --policy '100/1m'; `headgate suggest` proposes limits.",
    );
  }
  const { replayed, left } = split(ofTier(limits, options.name ?? 'default', options.tier).policies);
  const given = comparedTo(options, io);
  const second = given && split(given);
  const keys = loggedKeys(options.key);
  checkKeys(keys, second ? [replayed, second.replayed] : [replayed]);
  const dimensions = keys.map(({ dimension }) => dimension);
  const run = new Replay(replayed, dimensions);
  const other = second && new Replay(second.replayed, dimensions);
  const { top } = options;
  const report = options.report === undefined ? undefined : await checkReportPath(options.report, names, io);
  const denied = report === undefined ? undefined : new DeniedRequests();
  const read = async (logs: Logs): Promise<void> => {
    await forEachRequest(logs, io, 'replaying', (entry) => {
      const isAdmitted = run.add(entry.key, entry.time);
      other?.add(entry.key, entry.time);
      if (denied && !isAdmitted) denied.add(entry);
    });
    logs.checkFound();
    const compared = other && compare(run, other, second.left, top);
    const results: Results = { result: run.result(top), logs: logs.summaries, left, compared };
    if (report !== undefined) {
      const most = run.result(PLOTTED).top.map(({ key }) => key);
      const clients = await timesOf(most, logs, new Engine(replayed, dimensions.length > 1), io);
      const command = ['headgate', ...io.args.map(quoted)].join(' ');
      await writeReport(report, reportPage({ ...results, command, denied: denied!, clients }));
    }
    await writeAnswer(io, replayJson(results), () => replayText(results, io));
  };
  await readLogs(names, { ...options, details: denied !== undefined }, io, read);
  if (report !== undefined && !io.json)
    await write(io, `\nThe report is in ${printable(options.report!, Infinity)}\n`);
}

/** The set of policies to compare with. @throws CliError `USAGE` */
function comparedTo(
  { name, compare: texts, comparePolicies: file }: Options,
  io: Io,
): readonly Policy[] | undefined {
  if (texts && file !== undefined)
    throw usageError('--compare and --compare-policies exclude each other. Pass one of them.');
  if (texts) return parsePolicies(texts, '--compare');
  if (file === undefined) return undefined;
  const option = '--compare-policies';
  return readOneLimits({ name, policies: file, option }, io)?.policies;
}

const PLOTTED = 6;

/** Leaves out concurrency policies, which cannot be replayed, unless there are no others. */
function split(policies: readonly Policy[]): { replayed: readonly Policy[]; left: readonly string[] } {
  const replayed = policies.filter((policy) => !countsSlots(policy));
  if (replayed.length === 0) return { replayed: policies, left: [] };
  return { replayed, left: policies.filter((policy) => !replayed.includes(policy)).map(policyText) };
}
