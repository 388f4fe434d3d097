import { setTimeout } from 'node:timers/promises';
import { Option } from 'commander';
import { integer, type CliCommand, type Options as Shared } from '../command.js';
import { columns, count, cut, many, printable } from '../format.js';
import { write, writeAnswer, writeJsonLine, type Io } from '../io.js';
import { type Admin, type LimiterRates, type Rates, textOrHash, type Traffic } from 'headgate/admin';
import { withNamed } from '../open.js';
import { causeText, showKey } from '../keys.js';

interface Options extends Shared {
  readonly once?: boolean;
  readonly keys: number;
  readonly seconds: number;
  readonly sort: 'denials' | 'requests';
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('top')
    .summary('admitted and denied requests per second, live')
    .description(
      'Shows the admitted and denied requests per second, by limiter, key and policy, until Ctrl-C. Most ' +
        'denials come first. Stores count unless they have the option counts: false.',
    )
    .option('--once', 'print the counts once')
    .option('--keys <n>', 'the number of keys of each limiter: 0 to 20', integer('--keys', 0, 20), 5)
    .option('--seconds <n>', 'the span of time of the averages: 1 to 60', integer('--seconds', 1, 60), 5)
    .addOption(
      new Option('--sort <order>', 'the order of limiters and keys')
        .choices(['denials', 'requests'])
        .default('denials'),
    )
    .nameOption()
    .serverOptions()
    .answers(
      'a line a second, or with --once a document: spanMs, instances, isSampled, latency, limiters (rates, policies, reasons, keys), processes',
    )
    .example('top --redis redis://127.0.0.1:6379')
    .action((options: Options) => top(options, io));
}

/** The interval between two readings of the counts, ms. */
const READ_INTERVAL_MS = 1000;

/** Moves the cursor to the upper left corner, and clears everything below it. */
const CLEAR = '\u001b[H\u001b[J';

async function top(options: Options, io: Io): Promise<void> {
  const { name, keys, seconds, sort } = options;
  const wanted = { name, keys, seconds, sort };
  const show = async (admin: Admin): Promise<void> => {
    if (options.once) {
      const snapshot = await admin.traffic(wanted);
      return writeAnswer(io, json(snapshot), () => text(snapshot, io));
    }
    const stop = new AbortController();
    const ignore = io.onInterrupt?.(() => stop.abort());
    try {
      while (!stop.signal.aborted) {
        const snapshot = await admin.traffic(wanted);
        const height = io.isTTY ? io.stdout.rows : undefined;
        if (io.json) await writeJsonLine(io, json(snapshot));
        else await write(io, `${io.isTTY ? CLEAR : ''}${text(snapshot, io, height)}${io.isTTY ? '' : '\n'}`);
        await setTimeout(READ_INTERVAL_MS, undefined, { signal: stop.signal }).catch(() => {});
      }
    } finally {
      ignore?.();
    }
  };
  await withNamed(options, io, show);
}

function json({ limiters, ...snapshot }: Traffic): object {
  return {
    ...snapshot,
    limiters: limiters.map(({ keys, ...limiter }) => ({
      ...limiter,
      keys: keys.map(({ key, ...rates }) => ({ ...textOrHash('key', key), ...rates })),
    })),
  };
}

const NOTHING =
  'No decision was counted in this time. Either there was none, or the stores do not count: those with `counts: false` never do, and those with ' +
  'a clock of their own only with `counts: true`. In another database, or with another --prefix, there are no counts either.\n';

/** @param height the most lines, or `undefined` for all */
function text({ spanMs, instances, isSampled, limiters }: Traffic, io: Io, height?: number): string {
  if (limiters.length === 0) return NOTHING;
  const details = limiters.map((limiter) => detailsOf(limiter, io));
  const shown = height === undefined ? details : fit(details, height - FIXED_LINES);
  const rows = shown.flatMap((some, i) => [headOf(limiters[i]!, io), ...some]);
  const left = limiters.length - shown.length;
  const degraded = limiters.reduce((sum, each) => sum + each.degraded, 0);
  const notes = [
    // A banned or denied key can be admitted by them.
    ...(degraded > 0 ? [`${oneDigit(degraded)} decisions a second without the store: see check`] : []),
    ...(left > 0 ? [`${many(left, 'more limiter')}`] : []),
    ...(isSampled ? ['the numbers of keys are estimates'] : []),
  ];
  const table = columns(io, ['', 'admitted/s', 'denied/s', 'total/s', 'denied by'], rows);
  // A long line would otherwise take two lines of the terminal.
  const lines = height === undefined ? table : table.replace(/^.*$/gm, (line) => cut(line, io.width));
  return `${lines}\n${[`${many(instances, 'instance')}, the last ${spanMs / 1000} seconds`, ...notes].join('; ')}.\n`;
}

/** The lines of the live table other than rows: the heading, an empty line, the sentence and the cursor. */
const FIXED_LINES = 4;

/** The rows of details for a number of lines. Every limiter has a line, and the first ones keep their details. */
function fit(details: readonly string[][][], lines: number): string[][][] {
  const some = details.slice(0, Math.max(1, lines));
  let left = Math.max(0, lines - some.length);
  return some.map((rows) => {
    const kept = rows.slice(0, left);
    left -= kept.length;
    return kept;
  });
}

function headOf({ name, admitted, denied }: LimiterRates, io: Io): string[] {
  return [io.colors.bold(printable(name)), ...ratesText({ admitted, denied }, io), ''];
}

/** The busiest keys come first, because they are the reason for most visits. */
function detailsOf({ policies, reasons, keys, ...waits }: LimiterRates, io: Io): string[][] {
  return [
    ...waitsOf(waits),
    ...keys.map((key) => [`  ${showKey(key)}`, ...ratesText(key, io), causeText(key)]),
    ...policies.map(({ name, denied }) => [
      `  by policy ${printable(name)}`,
      '',
      deniedText(denied, io),
      '',
      '',
    ]),
    ...reasons.map(({ reason, denied }) => [`  ${printable(reason)}`, '', deniedText(denied, io), '', '']),
  ];
}

/** The row of the waiting and held requests and of the slots in use, if there are any. */
function waitsOf({ waiting, held, slots }: Pick<LimiterRates, 'waiting' | 'held' | 'slots'>): string[][] {
  const texts = [
    ...(waiting > 0 ? [`${count(waiting)} waiting`] : []),
    ...(held > 0 ? [`${count(held)} held`] : []),
    ...(slots > 0 ? [`${many(slots, 'slot')} in use by all keys`] : []),
  ];
  return texts.length > 0 ? [[`  ${texts.join(', ')}`, '', '', '', '']] : [];
}

const ratesText = ({ admitted, denied }: Rates, io: Io): string[] => [
  String(admitted),
  deniedText(denied, io),
  String(oneDigit(admitted + denied)),
];

const oneDigit = (rate: number): number => Math.round(10 * rate) / 10;

function deniedText(rate: number, { colors }: Io): string {
  return rate > 0 ? colors.red(String(rate)) : String(rate);
}
