import { checkKey, type KeyView } from 'headgate/admin';
import { integer, keyOptionsOf, type CliCommand, type Options as Shared } from '../command.js';
import { EXIT } from '../errors.js';
import { columns, duration, many, noteText, printable } from '../format.js';
import { warn, write, writeJson, type Io } from '../io.js';
import { prefixOf } from '../keys.js';
import { withAdmin } from '../open.js';
import { changeText, overrideJson } from './override.js';

interface Options extends Shared {
  readonly cost: number;
  readonly all?: boolean;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('key')
    .summary('the answers of all limiters to a key')
    .description(
      'Shows the answers of all published limiters to a request of a key, in every dimension and tier, without charging it. Limiters without ' +
        'state of the key are only counted. Exits with 3 if a limiter would deny the request.',
    )
    .argument('<key>', 'the key: an address, or any other text')
    .option('--all', 'also limiters without state of the key')
    .option('--cost <units>', 'the units that the request would cost', integer('--cost', 0, 1e12), 1)
    .option('--tier <name>', 'only this tier')
    .nameOption()
    .keyOptions()
    .serverOptions()
    .example('key 203.0.113.7 --redis redis://127.0.0.1:6379')
    .action((given: string, options: Options) => showKeyOf(given, options, io));
}

async function showKeyOf(given: string, options: Options, io: Io): Promise<void> {
  const { cost, tier, all = false, name } = options;
  const key = keyOptionsOf(options);
  checkKey(given, key);
  await withAdmin(options, io, async (admin) => {
    const { limiters, warnings } = await admin.limiters({ name });
    warn(io, warnings);
    const views = (await admin.key(given, { tier, cost, ...key })).filter(
      (view) => name === undefined || view.name === name,
    );
    if (views.some(({ allowed }) => allowed === false)) io.exitCode = EXIT.denied;
    if (io.json) return writeJson(io, views.map(viewJson));
    const shown = views.filter((view) => all || isTouched(view));
    for (const view of shown) warnOf(view, io);
    await write(io, text(given, shown, views.length - shown.length, limiters.length, io));
  });
}

/** Whether there is anything to show: state, a denial, an override of the key, or the reason why there is no answer. */
function isTouched({ stored, bannedForMs, allowed, override, warnings }: KeyView): boolean {
  const isOverridden = override !== null && !override.all;
  const isUnanswered = warnings.some(({ code }) => code === 'UNANSWERED');
  return stored || bannedForMs > 0 || allowed === false || isOverridden || isUnanswered;
}

function warnOf({ name, warnings }: KeyView, io: Io): void {
  warn(
    io,
    warnings.map(({ code, message }) => ({ code, message: `${printable(name)}: ${message}` })),
  );
}

function viewJson({ override, ...view }: KeyView): object {
  return { ...view, override: override && { all: override.all, ...overrideJson(override) } };
}

function text(given: string, views: readonly KeyView[], others: number, limiters: number, io: Io): string {
  if (limiters === 0)
    return `No limiter is published. Pass the limits to \`headgate peek\`, with --name and --policy.\n`;
  const combinations = many(others, views.length === 0 ? 'combination' : 'other combination');
  const rest = `no state in ${combinations} of limiter, tier and dimension. List ${others === 1 ? 'it' : 'them'} with --all.`;
  if (views.length === 0) return `${printable(given)}: ${rest}\n`;
  const rows = views.map((view) => rowOf(view, io));
  const table = columns(io, ['limiter', 'key', 'answer', 'for', 'left', 'notes'], rows);
  return others > 0 ? `${table}\nThe key has ${rest}\n` : table;
}

function rowOf(view: KeyView, { colors }: Io): string[] {
  const { name, tier, key, dimension, allowed, reason, retryAfterMs, policies, override } = view;
  const answer =
    allowed === null
      ? colors.yellow('unknown limits')
      : allowed
        ? colors.green('allowed')
        : colors.red(`denied (${reason})`);
  const lefts = policies.map((verdict) => {
    const { limit, remaining, windowMs } = verdict;
    return `${printable(verdict.name)}: ${remaining} of ${limit} per ${duration(windowMs)}`;
  });
  const notes = [
    ...(view.bannedForMs > 0 ? [`banned ${noteText(view.bannedBy, view.banReason)}`.trimEnd()] : []),
    ...(override ? [`override${override.all ? ' of all keys' : ''}: ${changeText(override.change)}`] : []),
  ];
  return [
    tier === undefined ? printable(name) : `${printable(name)} (tier ${printable(tier)})`,
    prefixOf(dimension) + printable(key),
    answer,
    allowed === false ? (retryAfterMs === null ? 'ever' : duration(retryAfterMs)) : '-',
    lefts.join(', ') || '-',
    notes.join('; ') || '-',
  ];
}
