import type { OverrideChange } from 'headgate';
import {
  type Admin,
  type BannedSince,
  checkKey,
  DEFAULT_DIMENSION,
  dimensionJson,
  ItemError,
  type OverrideResult,
  type OverrideWish,
  readChange,
  readOverrideLine,
  whoseJson,
  withoutPage,
} from 'headgate/admin';
import { nameOf, noteOf, type CliCommand, type Options as Shared } from '../command.js';
import { orUsage, usageError } from '../errors.js';
import { duration, many, printable } from '../format.js';
import { readText, warn, warnOnce, writeAnswer, type Io } from '../io.js';
import { prefixOf, showKey } from '../keys.js';
import { withAdmin } from '../open.js';
import { endOf, instant, left } from '../times.js';
import { durationOf } from './ban.js';
import { warnOfOtherLimit } from './override-hint.js';
import { reportPreview, type Preview } from './override-preview.js';
import { changeText } from './override-text.js';

interface Options extends Shared {
  readonly for?: string;
  readonly until?: string;
  readonly all?: boolean;
  readonly remove?: boolean;
  readonly unban?: boolean;
  readonly file?: string;
  readonly dryRun?: boolean;
}

/** A requested change. */
interface Wanted extends OverrideWish {
  /** The file and the line number, if the change comes from a file. */
  readonly at?: string;
  /** Whether the override has ended since the line was written. */
  readonly isOver?: boolean;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('override')
    .summary('change the limits of a key, or of all, without a deployment')
    .description(
      'Gives a key limits of its own, in every process at once, but a process may repeat an earlier denial, or spend its slice, for up ' +
        'to a second. Spent units stay spent. The limiter must have the option `overrides: true`. `headgate overrides` lists the overrides in force.',
    )
    .argument('[key]', 'the key: an address, or any other text; none with --all or --file')
    .argument(
      '[policy...]',
      "the limits: '1000/1m'; by name if the limiter has several policies: minute=1000/1m day=false (false removes a policy)",
    )
    .option('--for <duration>', "the duration: '2h', '30d' (default: until the override is removed)")
    .option(
      '--until <time>',
      'the end, in place of a duration: 2030-01-31T12:00Z, or 08:00Z, the next; without a zone, only with --local, or on a machine in UTC',
    )
    .option('--tier <name>', "the policies of another of the limiter's `tiers`, in place of a policy")
    .option('--all', 'all keys of the limiter, in place of a key')
    .option('--remove', 'end the override')
    .option('--unban', 'with --remove: also end the bans by denials since the override began')
    .option(
      '--file <file>',
      'a file of changes: a line for each key, with the key and its policies, or as JSON',
    )
    .option(
      '--dry-run',
      'only show the change, with the tiers whose limits get lower or higher, and bans to expect',
    )
    .nameOption()
    .keyOptions()
    .noteOptions()
    .serverOptions()
    .answers(
      'a document: name, key or all, change, until, by, reason, replaced; with --remove removed, stillBanned, unbanned; with --file: name, overrides; with --dry-run dryRun, and in place of replaced: effect, before',
    )
    .example(
      "override customer:42 1000/1m --name api --for 1d --reason 'launch' --redis redis://127.0.0.1:6379",
    )
    .action((key: string | undefined, policy: string[], options: Options) =>
      override(key === undefined ? policy : [key, ...policy], options, io),
    );
}

async function override(words: readonly string[], options: Options, io: Io): Promise<void> {
  const name = nameOf(options);
  const { file, raw, ipv6Subnet, unban = false, dryRun = false } = options;
  if (unban && !options.remove) throw usageError('--unban: it needs --remove. Or pass: headgate unban KEY.');
  const all = file === undefined ? [wantedOf(words, options, io)] : wantedIn(file, words, options, io);
  const wanted = all.filter((each) => !each.isOver);
  const over = all.length - wanted.length;
  if (over > 0)
    warn(io, [
      {
        code: 'ENDED',
        message: `${many(over, 'override')} of the file ended meanwhile, and ${over === 1 ? 'was' : 'were'} left out.`,
      },
    ]);
  for (const { key, dimension, at } of wanted)
    if (key !== undefined) inLine(at, () => checkKey(key, { raw, dimension, ipv6Subnet }));
  await withAdmin(options, io, async (admin) => {
    const wishes = wanted.map(({ at: _, isOver: __, ...wish }) => ({ ...wish, ...(unban && { unban }) }));
    const scope = { name, raw, ipv6Subnet };
    if (dryRun) {
      const effects = await admin.previewOverrides(wishes, scope);
      return reportPreview(previewsOf(effects, wishes, wanted), name, io);
    }
    const results = await admin.overrideMany(wishes, scope).catch((error: unknown) => {
      if (!(error instanceof ItemError)) throw error;
      const { at } = wanted[error.index]!;
      throw at === undefined ? error.cause : usageError(`${at}: ${withoutPage(error.cause.message)}`);
    });
    warnOnce(
      io,
      results.flatMap(({ warnings }) => warnings),
    );
    await report(results, wishes, name, io);
    const [sole, ...others] = results;
    if (sole?.override !== undefined && others.length === 0) await warnOfOtherLimit(admin, sole, io);
  });
}

/** The effect of each change. @throws CliError `USAGE` if a limiter would refuse one */
const previewsOf = (
  effects: Awaited<ReturnType<Admin['previewOverrides']>>,
  wishes: readonly OverrideWish[],
  wanted: readonly Wanted[],
): Preview[] =>
  effects.map((effect, i) => {
    if (!('error' in effect)) return { wish: wishes[i]!, effect };
    const { at } = wanted[i]!;
    throw usageError(at === undefined ? effect.error : `${at}: ${effect.error}`);
  });

const inLine = (at: string | undefined, check: () => unknown): unknown =>
  orUsage(check, (message) => withoutPage(at === undefined ? message : `${at}: ${message}`));

/** The change on the command line. @throws CliError `USAGE` */
function wantedOf(words: readonly string[], options: Options, io: Io): Wanted {
  const given = options.all ? undefined : words[0];
  const policy = options.all ? words : words.slice(1);
  if (given === undefined && !options.all) {
    throw usageError(
      'the key is missing. Pass it before its policy: headgate override customer:42 1000/1m. Or pass --all for all keys.',
    );
  }
  return {
    key: given,
    dimension: options.dimension ?? DEFAULT_DIMENSION,
    change: changeOf(policy, options),
    ...timed(options, io),
  };
}

/** The lines of a file. @throws CliError `USAGE` */
function wantedIn(file: string, words: readonly string[], options: Options, io: Io): Wanted[] {
  if (words.length > 0 || options.all) throw usageError('--file already contains the keys; do not pass any.');
  return readText(`--file ${file}`, file, io)
    .split(/\r?\n/)
    .flatMap((line, i): Wanted[] => {
      if (/^\s*(?:#|$)/.test(line)) return [];
      const at = `${file}, line ${i + 1}`;
      const read = () =>
        line.trimStart().startsWith('{')
          ? fromJson(line, options, io)
          : wantedOf(wordsOf(line, options), options, io);
      return [{ ...orUsage(read, (message) => `${at}: ${withoutPage(message)}`), at }];
    });
}

/** The key of a line, and its policies, which a removal ignores, so that a file can end the overrides that it began. */
function wordsOf(line: string, { remove = false }: Options): string[] {
  const words = line.trim().split(/\s+/);
  return remove ? words.slice(0, 1) : words;
}

/** A line of `overrides --json`. @throws HeadgateError, CliError `USAGE` */
function fromJson(line: string, options: Options, io: Io): Wanted {
  const { name = '', dimension, remove } = options;
  const { key, dimension: own, change, until, by, reason } = readOverrideLine(line, { name, dimension });
  const note = timed(options, io);
  // The author of an override is not the author of its removal.
  if (remove) return { key, dimension: own, change: undefined, ...note };
  if (change === undefined)
    throw usageError('the line has no "change". Add it, or pass --remove to end the overrides.');
  const isTimed = note.for !== undefined || note.until !== undefined;
  return {
    ...{ key, dimension: own, change, ...note },
    ...(by !== undefined && { by }),
    ...(reason !== undefined && { reason }),
    ...(!isTimed && until !== undefined && { until, isOver: new Date(until).getTime() <= Date.now() }),
  };
}

/** @throws CliError `USAGE` */
function changeOf(words: readonly string[], { tier, remove }: Options): OverrideChange | undefined {
  if (remove) {
    if (words.length > 0 || tier !== undefined)
      throw usageError('--remove does not take a policy. Pass only the key, or --all.');
    return undefined;
  }
  if (tier !== undefined) {
    if (words.length > 0) throw usageError('--tier and a policy: pass one of them.');
    return { tier };
  }
  if (words.length === 0)
    throw usageError(
      'the policy is missing. Pass a policy: 1000/1m. Or pass --tier, or --remove to end the override.',
    );
  return orUsage(() => readChange(words), withoutPage);
}

/** The duration, the author and the reason. @throws CliError `USAGE` @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function timed(options: Options, io: Io): Omit<OverrideWish, 'key' | 'change' | 'dimension'> {
  if (options.for !== undefined && options.until !== undefined)
    throw usageError('--for and --until: pass one of them.');
  return {
    ...(options.for !== undefined && { for: `${durationOf(options.for, '--for')}ms` }),
    ...(options.until !== undefined && { until: endOf(options.until, io) }),
    ...noteOf(options, io),
  };
}

async function report(
  results: readonly OverrideResult[],
  wishes: readonly OverrideWish[],
  name: string,
  io: Io,
): Promise<void> {
  const documents = results.map((result, i) => {
    const { key, dimension = DEFAULT_DIMENSION, override, replaced } = result;
    const { change, by, reason } = wishes[i]!;
    const whose = key === undefined ? { all: true } : { key, ...dimensionJson(dimension) };
    const done =
      change === undefined
        ? { removed: replaced, ...bansJson('stillBanned', result), ...bansJson('unbanned', result) }
        : { change, until: override?.until?.toISOString() ?? null, by, reason, replaced };
    return { name, ...whose, ...done };
  });
  const isSole = results.length === 1;
  const bans = results.map(bansText).join('');
  await writeAnswer(io, isSole ? documents[0] : { name, overrides: documents }, () =>
    isSole
      ? `${sentence(results[0]!, wishes[0]!, { where: `in ${printable(name)}`, io })}\n${bans}`
      : `The limits of ${many(results.length, 'key')} are changed in ${printable(name)}.\n${bans}`,
  );
}

const bansJson = (field: 'stillBanned' | 'unbanned', { [field]: bans }: OverrideResult): object =>
  bans === undefined
    ? {}
    : { [field]: bans.map(({ bannedForMs, ...whose }) => ({ ...whoseJson(whose), bannedForMs })) };

const MAX_NAMED = 10;

/** The keys that denials have banned since the override began. */
function bansText({ stillBanned = [], unbanned = [] }: OverrideResult): string {
  const named = (bans: readonly BannedSince[]): string => {
    const keys = bans.slice(0, MAX_NAMED).map((ban) => `${showKey(ban)} (${duration(ban.bannedForMs)} left)`);
    return `${keys.join(', ')}${bans.length > MAX_NAMED ? `, and ${bans.length - MAX_NAMED} more` : ''}`;
  };
  if (unbanned.length > 0) return `No longer banned: ${named(unbanned)}.\n`;
  return stillBanned.length > 0 ? `Still banned: ${named(stillBanned)}.\n` : '';
}

function sentence(
  { key, dimension = DEFAULT_DIMENSION, override, replaced }: OverrideResult,
  { change }: OverrideWish,
  { where, io }: { readonly where: string; readonly io: Io },
): string {
  const [owner, has] =
    key === undefined ? ['All keys', 'have'] : [prefixOf(dimension) + printable(key), 'has'];
  if (change === undefined)
    return `${owner} ${replaced ? `${has} the configured limits again` : 'had no override'} ${where}.`;
  const end =
    override?.until === undefined
      ? 'until the override is removed'
      : `until ${instant(io, override.until)} (${left(override.until)} left)`;
  return `${owner} ${has} ${changeText(change)} ${where}, ${end}${replaced ? ', in place of an earlier override' : ''}.`;
}
