import { setTimeout } from 'node:timers/promises';
import { integer, type CliCommand, type Options as Shared } from '../command.js';
import { columns, many, printable } from '../format.js';
import { warn, write, writeJson, writeJsonLine, type Io } from '../io.js';
import type { LimiterRates, Traffic } from 'headgate/admin';
import { withRedis } from '../open.js';
import { showText, textOrHash } from '../keys.js';

interface Options extends Shared {
  readonly once?: boolean;
  readonly keys: number;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('top')
    .summary('admitted and denied requests per second, live')
    .description(
      'Shows the admitted and denied requests per second, by limiter, policy and key, over the last five seconds, until Ctrl-C. The ' +
        'stores must count: redisStore(client, { top: true }).',
    )
    .option('--once', 'print the counts once')
    .option('--keys <n>', 'the number of keys of each limiter: 0 to 20', integer('--keys', 0, 20), 5)
    .nameOption()
    .serverOptions()
    .example('top --redis redis://127.0.0.1:6379')
    .action((options: Options) => top(options, io));
}

/** The interval between two readings of the counts, ms. */
const READ_INTERVAL_MS = 1000;

/** Moves the cursor to the upper left corner, and clears everything below it. */
const CLEAR = '\u001b[H\u001b[J';

async function top(options: Options, io: Io): Promise<void> {
  const { name, keys } = options;
  await withRedis(options, io, async (admin) => {
    if (name !== undefined) warn(io, (await admin.limiters({ name })).warnings);
    if (options.once) {
      const snapshot = await admin.traffic({ name, keys });
      await (io.json ? writeJson(io, json(snapshot)) : write(io, text(snapshot, io)));
      return;
    }
    const stop = new AbortController();
    const ignore = io.onInterrupt?.(() => stop.abort());
    try {
      while (!stop.signal.aborted) {
        const snapshot = await admin.traffic({ name, keys });
        if (io.json) await writeJsonLine(io, json(snapshot));
        else await write(io, `${io.isTTY ? CLEAR : ''}${text(snapshot, io)}${io.isTTY ? '' : '\n'}`);
        await setTimeout(READ_INTERVAL_MS, undefined, { signal: stop.signal }).catch(() => {});
      }
    } finally {
      ignore?.();
    }
  });
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
  'There are no counts of the last five seconds. Stores count with the option top: redisStore(client, { top: true }).\n';

function text({ spanMs, instances, isSampled, limiters }: Traffic, io: Io): string {
  if (limiters.length === 0) return NOTHING;
  const rows = limiters.flatMap((limiter) => rowsOf(limiter, io));
  const note = isSampled ? '; the numbers of keys are estimates' : '';
  const table = columns(io, ['', 'admitted/s', 'denied/s'], rows);
  return `${table}\n${many(instances, 'instance')}, the last ${spanMs / 1000} seconds${note}.\n`;
}

function rowsOf(
  { name, admitted, denied, policies, reasons, keys }: LimiterRates,
  { colors }: Io,
): string[][] {
  const deniedText = (rate: number): string => (rate > 0 ? colors.red(String(rate)) : String(rate));
  return [
    [colors.bold(printable(name)), String(admitted), deniedText(denied)],
    ...policies.map((policy) => [`  by policy ${printable(policy.name)}`, '', deniedText(policy.denied)]),
    ...reasons.map(({ reason, denied }) => [`  ${printable(reason)}`, '', deniedText(denied)]),
    ...keys.map((key) => [`  ${showText(key.key)}`, String(key.admitted), deniedText(key.denied)]),
  ];
}
