import {
  DEFAULT_DIMENSION,
  type KeyView,
  lacksSlots,
  overrideJson,
  type PolicyVerdict,
} from 'headgate/admin';
import { authorsIn } from '../ban-authors.js';
import { integer, keyOptionsOf, type CliCommand, type Options as Shared } from '../command.js';
import { EXIT } from '../errors.js';
import { duration, many, noteText, printable, table, type Table, untilSlot } from '../format.js';
import { warn, write, writeJson, type Io } from '../io.js';
import { prefixOf } from '../keys.js';
import { withAdmin } from '../open.js';
import { slotNotes } from '../slots.js';
import { instant } from '../times.js';
import { recentDenials } from './key-denials.js';
import { changeText } from './override-text.js';
import { showPast } from './past.js';

interface Options extends Shared {
  readonly cost: number;
  readonly all?: boolean;
  readonly at?: string;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('key')
    .summary('the answers of all limiters to a key')
    .description(
      'Shows the answers of all published limiters to a request of a key, in every dimension and tier, without charging it. Limiters without ' +
        'state of the key are only counted. Tiers may share their charges, so the tier of a key is unknown if several have some. Exits with 3 if a ' +
        'limiter would deny the request in each tier that the key may have, and with 5 if no limiter has an answer.',
    )
    .argument('<key>', 'the key: an address, or any other text')
    .option('--all', 'also limiters without state of the key')
    .option(
      '--at <time>',
      'why the key was denied at a time of the last 24 hours: 03:12 (UTC, or with --local in the zone of this machine), ISO 8601, or an age such as 2h',
    )
    .option('--cost <units>', 'the units that the request would cost', integer('--cost', 0, 1e12), 1)
    .option('--tier <name>', 'only this tier')
    .nameOption()
    .keyOptions()
    .serverOptions()
    .answers(
      'an array, for each limiter, dimension and tier: name, key, dimension, tier, allowed, reason, retryAfterMs, policies, bannedForMs, override, likely, ...; with --at a document: at, known, denials, changes',
    )
    .example('key 203.0.113.7 --redis redis://127.0.0.1:6379')
    .action((given: string, options: Options) =>
      options.at === undefined ? showKeyOf(given, options, io) : showPast(given, options.at, options, io),
    );
}

async function showKeyOf(given: string, options: Options, io: Io): Promise<void> {
  const { cost, tier, all = false, name } = options;
  const key = keyOptionsOf(options, given);
  await withAdmin(options, io, async (admin) => {
    const { limiters, warnings } = await admin.limiters({ name });
    warn(io, warnings);
    const views = (await admin.key(given, { tier, cost, ...key })).filter(
      (view) => name === undefined || view.name === name,
    );
    if (isDenied(views)) io.exitCode = EXIT.denied;
    else if (views.every(({ allowed }) => allowed === null)) io.exitCode = EXIT.unknownScope;
    if (io.json) return writeJson(io, views.map(viewJson));
    const shown = views.filter((view) => all || isTouched(view));
    for (const view of shown) warnOf(view, io);
    const authors = await authorsIn(admin, shown, io);
    const others = views.length - shown.length;
    const denials = limiters.length > 0 ? await recentDenials(admin, given, { name, ...key }, io) : '';
    await write(io, text(given, shown, { others, limiters: limiters.length, authors }, io) + denials);
  });
}

type Authors = ReadonlyMap<KeyView, string>;

/** Whether a limiter denies the key in all tiers that the key may have. */
function isDenied(views: readonly KeyView[]): boolean {
  const likely = views.filter((view) => view.likely);
  const isSame = (a: KeyView, b: KeyView): boolean =>
    a.name === b.name && a.dimension === b.dimension && a.within === b.within;
  return likely.some((view) => likely.every((each) => !isSame(each, view) || each.allowed === false));
}

/** Whether there is anything to show: state, a denial, an override of the key, or the reason why there is no answer. */
function isTouched(view: KeyView): boolean {
  const { stored, bannedForMs, allowed, likely, override, deniedLately, warnings } = view;
  const isOverridden = override !== null && !override.all;
  const isUnanswered = warnings.some(({ code }) => code === 'UNANSWERED');
  const isShown = isOverridden || isUnanswered || deniedLately !== undefined;
  return stored || bannedForMs > 0 || (allowed === false && likely) || isShown;
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

function text(
  given: string,
  views: readonly KeyView[],
  { others, limiters, authors }: { others: number; limiters: number; authors: Authors },
  io: Io,
): string {
  if (limiters === 0 && views.length === 0)
    return `No limiter is published, and no state of the key was found. Processes publish their limiters every 30 seconds. Pass the limits to \`headgate peek\`, with --name and --policy.\n`;
  if (views.length === 0)
    return `No limiter has a record of ${printable(given)}, so none denies it now. If its requests are denied, then by another of their keys, such as an account: see decision.key in the application's log. The limits of the key: --all.\n`;
  const rest = `no state in ${many(others, 'other combination')} of limiter, tier and dimension. List ${others === 1 ? 'it' : 'them'} with --all.`;
  const unknown = views.every(({ allowed }) => allowed === null) ? UNKNOWN : '';
  const shown = table(io, columnsFor(io, authors), views) + unknown;
  return others > 0 ? `${shown}\nThe key has ${rest}\n` : shown;
}

const UNKNOWN =
  '\nThe answer is unknown, because the limits are. Pass them to `headgate peek`, with --name and --policy.\n';

const columnsFor = (io: Io, authors: Authors): Table<KeyView> => ({
  limiter: ({ name, tier }) =>
    tier === undefined ? printable(name) : `${printable(name)} (tier ${printable(tier)})`,
  key: ({ key, dimension, within }) =>
    `${prefixOf(dimension)}${printable(key)}${within === undefined ? '' : ` (within ${printable(within)})`}`,
  answer: ({ allowed, likely, reason }) => {
    if (allowed === null) return io.colors.yellow('unknown limits');
    if (allowed) return io.colors.green('allowed');
    return likely ? io.colors.red(`denied (${reason})`) : `would be denied (${reason})`;
  },
  for: ({ allowed, reason, policies, retryAfterMs: ms }) => {
    if (allowed !== false) return '-';
    if (reason !== 'banned' && lacksSlots(policies)) return untilSlot(ms);
    return ms === null ? 'ever' : duration(ms);
  },
  left: ({ policies }) => policies.map(leftText).join(', ') || '-',
  notes: (view) => notesOf(view, authors.get(view), io).join('; ') || '-',
});

function leftText({ name, limit, share, remaining, windowMs }: PolicyVerdict): string {
  const whole = share === undefined ? String(limit) : `a share of ${share} of ${limit}`;
  return `${printable(name)}: ${remaining} of ${whole} per ${duration(windowMs)}`;
}

const notesOf = (
  { bannedForMs, override, deniedLately, slots }: KeyView,
  author: string | undefined,
  io: Io,
): string[] => [
  ...(author === undefined ? [] : [`banned${author}, until ${instant(io, Date.now() + bannedForMs)}`]),
  ...(deniedLately ? [otherDenialText(deniedLately)] : []),
  ...(override ? [overrideText(override, io)] : []),
  ...(slots ? slotNotes(slots) : []),
];

function overrideText({ all, change, until, by, reason }: NonNullable<KeyView['override']>, io: Io): string {
  const end = until === undefined ? '' : ` until ${instant(io, until)}`;
  const note = noteText(by ?? null, reason ?? null);
  return `override${all ? ' of all keys' : ''}: ${changeText(change)}${end}${note === '' ? '' : ` (${note})`}`;
}

/** A key is denied with another one of its requests, whatever its own limits admit. */
function otherDenialText({ policy, reason, dimension }: NonNullable<KeyView['deniedLately']>): string {
  const by = dimension === DEFAULT_DIMENSION ? '' : ` (by ${printable(dimension)})`;
  if (policy === undefined && reason === 'banned')
    return `its requests are denied by a ban of another key${by}`;
  return `its requests are denied by \`${printable(policy ?? reason ?? '')}\`, a limit of another key${by}`;
}
