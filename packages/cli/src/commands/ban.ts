import { exactMilliseconds, type AdminWarning, type BanResult } from 'headgate/admin';
import { keyOptionsOf, namesOf, noteOf, type CliCommand, type NamesOptions } from '../command.js';
import { usageError } from '../errors.js';
import { duration as showTime, printable } from '../format.js';
import { warn, writeAnswer, type Io } from '../io.js';
import { show, subjectJson } from '../keys.js';
import { withAdmin } from '../open.js';
import { instant } from '../times.js';

interface Options extends NamesOptions {
  readonly for?: string;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('ban')
    .summary('ban a key for some time')
    .description(
      'Bans a key in the scope of one limiter, of several, or of all. The limiter must have the option `ban` ({} is enough), or it does not check for bans.',
    )
    .argument('<key>', 'the banned key: an address, a network, or any other key')
    .argument('[duration]', "the length of the ban: '10m', '2h', '30d', up to 366 days")
    .option('--for <duration>', 'the same as an option')
    .namesOption()
    .keyOptions()
    .noteOptions()
    .forceOption()
    .serverOptions()
    .answers(
      'a document, or an array for several limiters: name, key (or network and keys), bannedForMs, by, reason',
    )
    .example('ban 203.0.113.7 2h --name api --redis redis://127.0.0.1:6379')
    .action((given: string, length: string | undefined, options: Options) => ban(given, length, options, io));
}

async function ban(given: string, length: string | undefined, options: Options, io: Io): Promise<void> {
  const names = namesOf(options);
  const key = keyOptionsOf(options, given);
  const duration = lengthOf(length, options.for);
  const note = noteOf(options, io);
  await withAdmin(options, io, async (admin) => {
    const force = options.force ?? false;
    const results = await admin.banIn(names, given, `${duration}ms`, { force, ...key, ...note });
    await writeResults(io, results, {
      json: ({ name, by, reason, ...subject }) => {
        return { name, ...subjectJson(subject), bannedForMs: duration, by, reason };
      },
      text: (result) => text(result, duration, io),
    });
  });
}

function text({ name, until, ...subject }: BanResult, duration: number, io: Io): string {
  const verb = subject.keys.length > 1 ? 'are' : 'is';
  return `${show(subject)} ${verb} banned in ${printable(name)} for ${showTime(duration)}, until ${instant(io, until)}.\n`;
}

/** The results of a change in several limiters, for programs and for people. */
interface Results<T> {
  readonly json: (result: T) => object;
  readonly text: (result: T) => string;
}

export async function writeResults<T extends { readonly warnings: readonly AdminWarning[] }>(
  io: Io,
  results: readonly T[],
  { json, text }: Results<T>,
): Promise<void> {
  const documents = results.map(json);
  const document = documents.length === 1 ? documents[0] : documents;
  await writeAnswer(io, document, () => results.map(text).join(''));
  // The same doubt about several limiters, such as unreadable publications, is shown once.
  const warnings = results.flatMap((each) => each.warnings);
  warn(io, [...new Map(warnings.map((each) => [each.message, each])).values()]);
}

/** The length of a ban, ms. @throws CliError `USAGE` @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function lengthOf(argument: string | undefined, option: string | undefined): number {
  if (argument !== undefined && option !== undefined && argument !== option)
    throw usageError(`duration: the argument ${argument} and --for ${option} differ. Pass one of them.`);
  const text = argument ?? option;
  if (text === undefined) throw usageError("duration: missing. Pass it after the key: '10m', '2h', '30d'.");
  return durationOf(text, argument === undefined ? '--for' : undefined);
}

/**
 * Parses a typed duration. A unit is required, because a bare number may be meant in seconds, but would be milliseconds.
 *
 * @throws CliError `USAGE` @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function durationOf(text: string, option = 'duration'): number {
  if (/^\d+(\.\d+)?$/.test(text))
    throw usageError(`${option}: ${text} has no unit. Pass ${text}s, ${text}m, ${text}h or ${text}d.`);
  return exactMilliseconds(option, text);
}
