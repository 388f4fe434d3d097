import { toMilliseconds } from '../../common/duration.js';
import { nameOf, noteOf, type CliCommand, type Options as Shared } from '../command.js';
import { usageError } from '../errors.js';
import { duration as showTime, printable } from '../format.js';
import { warn, write, writeJson, type Io, type Warning } from '../io.js';
import { headsOf, loggedOf, show, subjectJson, typedKey } from '../keys.js';
import { withState } from '../open.js';
import { SAME_END_MS } from '../redis/bans.js';
import { checkBans, subjectIn, warnUnnoted } from '../scope.js';

interface Options extends Shared {
  readonly for?: string;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('ban')
    .summary('ban a key for some time')
    .description(
      'Bans a key in the scope of one limiter. The limiter must have the option `ban` ({} is enough), or it does not check for bans.',
    )
    .argument('<key>', 'who is banned: an address, a network, or any other key')
    .argument('[duration]', "for how long: '10m', '2h', '30d', up to 366 days")
    .option('--for <duration>', 'the same as an option')
    .nameOption()
    .keyOptions()
    .noteOptions()
    .forceOption()
    .serverOptions()
    .example('ban 203.0.113.7 2h --name api --redis redis://127.0.0.1:6379')
    .action((given: string, length: string | undefined, options: Options) => ban(given, length, options, io));
}

async function ban(given: string, length: string | undefined, options: Options, io: Io): Promise<void> {
  const name = nameOf(options);
  const typed = typedKey(given, options);
  const duration = lengthOf(length, options.for);
  const note = noteOf(options, io);
  await withState(options, io, async ({ published, bans, keyText }) => {
    checkBans(published, name, typed.dimension, options, io);
    const subject = subjectIn(published, name, typed, io);
    const heads = headsOf(bans, name, subject);
    const done = { action: 'ban', ...loggedOf(name, subject, keyText), forMs: duration, ...note } as const;
    const before = await bans.left(heads);
    const changes = heads.map((head) => ({ head, duration, note }));
    const unnoted = await bans.set(changes, done);
    const until = new Date(Date.now() + duration).toISOString();
    const verb = subject.keys.length > 1 ? 'are' : 'is';
    const said = `${show(subject)} ${verb} banned in ${printable(name)} for ${showTime(duration)}, until ${until}.\n`;
    await (io.json
      ? writeJson(io, { name, ...subjectJson(subject), bannedForMs: duration, ...note })
      : write(io, said));
    warn(io, shortened(before, duration, name));
    warnUnnoted(io, unnoted);
  });
}

/** Warns if a ban is shorter than the rest of an earlier ban, which the user may not know about. */
function shortened(before: readonly number[], duration: number, name: string): Warning | undefined {
  const longer = before.filter((left) => left > duration + SAME_END_MS);
  if (longer.length === 0) return undefined;
  const who = before.length === 1 ? 'it was' : `${longer.length} of them were`;
  const left = showTime(Math.max(...longer));
  const message = `${who} banned in ${JSON.stringify(name)} already, for ${left} more: that ban is shorter now.`;
  return { code: 'SHORTENED', message };
}

/** The length of a ban, ms. @throws CliError `USAGE` @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function lengthOf(argument: string | undefined, option: string | undefined): number {
  if (argument !== undefined && option !== undefined && argument !== option)
    throw usageError(`the ban is for ${argument}, and --for ${option}. Write one of them.`);
  const text = argument ?? option;
  if (text === undefined) throw usageError("for how long? Write it after the key: '10m', '2h', '30d'.");
  return durationOf(text);
}

/**
 * Parses a typed duration. A unit is required, because a bare number may be meant in seconds, but would be milliseconds.
 *
 * @throws CliError `USAGE` @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function durationOf(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text))
    throw usageError(`duration: ${text} has no unit. Write ${text}s, ${text}m, ${text}h or ${text}d.`);
  return toMilliseconds('duration', text);
}
