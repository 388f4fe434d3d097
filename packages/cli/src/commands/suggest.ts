import { DEFAULT_DIMENSION } from 'headgate/admin';
import { collect, type CliCommand } from '../command.js';
import { orUsage, usageError } from '../errors.js';
import { quoted } from '../format.js';
import { writeAnswer, type Io } from '../io.js';
import { parsePolicies } from '../policy-text.js';
import { suggestJson } from '../replay/json.js';
import { Measure } from '../replay/measure.js';
import { forEachRequest, type Logs } from '../replay/logs.js';
import { addLogOptions, LOGS_HELP, readLogs, wordsOf, type LogOptions } from '../replay/options.js';
import { loggedKeys } from '../replay/dimensions.js';
import { MEASURED } from '../replay/policies.js';
import { shapeOf, shapesOf, type Shape } from '../replay/shapes.js';
import { Check, suggest as suggestFrom, type Suggestions } from '../replay/suggest.js';
import { suggestText } from '../replay/terminal.js';

interface Options extends LogOptions {
  readonly keep: string;
  readonly algorithm: string;
  readonly window?: readonly string[];
  readonly policy?: readonly string[];
}

const MAX_WINDOWS = 32;

export function register(program: CliCommand, io: Io): void {
  const command = program
    .command('suggest')
    .summary('limits that hardly any client would notice, from an access log')
    .description(
      'Measures the peak use of each client in access logs, by the real algorithms, and proposes the smallest limits that never deny ' +
        `the given share of the clients. ${LOGS_HELP}`,
    );
  addLogOptions(command)
    .option('--keep <percent>', 'the share of the clients that is never denied', '99.9')
    .option('--window <times>', 'the windows (default: 1s,10s,1m,10m,1h, none longer than the log)', collect)
    .option('--algorithm <name>', MEASURED.join(', '), 'sliding-window')
    .option(
      '--policy <policy>',
      "the kind of policy, repeatable: '1/1m segments 60'; for buckets the rate is kept, and the burst is found: 'token-bucket 20/1s'",
      collect,
    )
    .answers('a document: keep, requests, clients, first, last, busiest, windows, together, outliers, logs')
    .example('suggest --keep 99.9 access.log access.log.1.gz')
    .action((names: string[], options: Options) => suggest(names, options, io));
}

async function suggest(names: readonly string[], options: Options, io: Io): Promise<void> {
  const keep = keepOf(options.keep);
  const shapes = shapesFor(options).map((shape) => byKeyOf(options, shape));
  await readLogs(names, options, io, async (logs) => {
    const measure = new Measure(shapes);
    await forEachRequest(logs, io, 'measuring', ({ key, time }) => measure.add(key as string, time));
    logs.checkFound();
    const { first, last } = measure;
    const asked = options.window !== undefined || options.policy !== undefined;
    const suggestions = suggestFrom(measure, keep, asked ? Infinity : Math.max(1000, last - first));
    await count(logs, suggestions, io);
    const { summaries } = logs;
    const command = ['headgate', 'replay', ...names.map(quoted), ...wordsOf(options)].join(' ');
    await writeAnswer(io, suggestJson(suggestions, measure, summaries), () =>
      suggestText(suggestions, measure, { logs: summaries, command }, io),
    );
  });
}

/** Reads the logs once more, to count the requests that would be denied. Does nothing if the logs cannot be read again unchanged. */
async function count(logs: Logs, suggestions: Suggestions, io: Io): Promise<void> {
  const again = logs.changed ? undefined : logs.again();
  if (!again) return;
  const check = new Check(suggestions);
  await forEachRequest(again, io, 'checking', ({ key, time }) => check.add(key as string, time));
  if (!logs.changed) check.finish();
}

function keepOf(text: string): number {
  const keep = /^\d{1,3}(\.\d+)?\s?%?$/.test(text) ? parseFloat(text) : NaN;
  if (!(keep > 0 && keep <= 100)) {
    throw usageError(
      `--keep: ${JSON.stringify(text)} is not a share of clients. Pass a percentage above 0, up to 100: --keep 99.9.`,
    );
  }
  return keep;
}

/** Adds the dimension that `--key` names. Requests then have a single key, a text. @throws CliError `USAGE` if it names several */
function byKeyOf({ key }: LogOptions, shape: Shape): Shape {
  const [sole, ...others] = loggedKeys(key);
  if (others.length > 0)
    throw usageError(
      'suggest measures one kind of clients at a time. Pass one --key, and run the command again for the others.',
    );
  const { dimension } = sole!;
  return dimension === DEFAULT_DIMENSION
    ? shape
    : { ...shape, of: (units) => ({ ...shape.of(units), by: dimension }) };
}

function shapesFor({ policy, window, algorithm }: Options): readonly Shape[] {
  if (policy) {
    if (window)
      throw usageError(
        '--policy has its own window. Repeat --policy for each window, or pass --window alone.',
      );
    return parsePolicies(policy).map(shapeOf);
  }
  const known = MEASURED.find((name) => name === algorithm);
  if (!known) {
    throw usageError(`--algorithm: ${JSON.stringify(algorithm)} is not one of ${MEASURED.join(', ')}.`);
  }
  const windows = window?.flatMap((text) => text.split(/[\s,]+/)).filter((text) => text !== '');
  if (
    windows &&
    (windows.length === 0 || windows.length > MAX_WINDOWS || new Set(windows).size < windows.length)
  ) {
    throw usageError(`--window: pass 1 to ${MAX_WINDOWS} different windows: --window 1s,1m,1h.`);
  }
  return orUsage(
    () => shapesOf(known, windows),
    (message) => message.replace(/^[\w.]*window/, '--window'),
  );
}
