import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { Readable } from 'node:stream';
import {
  banJson,
  contentOf,
  ItemError,
  readBanLine,
  withoutPage,
  type Admin,
  type BanLineDefaults,
  type BannedKey,
  type ImportedBan,
  type ImportResult,
} from 'headgate/admin';
import { originsOf } from '../ban-authors.js';
import { noteOf, type CliCommand, type Options } from '../command.js';
import { orUsage, usageError } from '../errors.js';
import { count, many } from '../format.js';
import { warn, writeAnswer, writeJsonLine, type Io } from '../io.js';
import { orWarning } from '../nothing.js';
import { withAdmin, withNamed } from '../open.js';
import { durationOf } from './ban.js';
import { showLog } from './log.js';

interface ImportOptions extends Options {
  readonly for?: string;
  readonly dryRun?: boolean;
}

export function register(program: CliCommand, io: Io): void {
  const bans = program
    .command('bans')
    .summary('export bans as lines, import such lines, or show the log of bans by hand')
    .description(
      'Exports bans as lines of JSON, imports such lines, and shows the changes of bans by operators.',
    );
  bans
    .command('export')
    .description('Writes the bans as lines of JSON, for `bans import`: of one scope, or of all.')
    .nameOption()
    .answers(
      "the same lines: kind 'banned', name, key, bannedForMs, bannedUntil, by, reason, and for bans without an operator from and cause",
    )
    .serverOptions()
    .action((options: Options) => withNamed(options, io, (admin) => writeBans(admin, options, io)));
  bans
    .command('import')
    .description(
      'Bans the keys in a file. It has lines of `bans export` or `list --json`, or one key per line, for which --name and --for set ' +
        'the rest. All lines are checked before any key is banned. No ban becomes shorter.',
    )
    .argument('[file]', 'the file, or - for standard input', STDIN)
    .nameOption()
    .keyOptions()
    .serverOptions()
    .noteOptions()
    .forceOption()
    .option('--for <duration>', "the length of bans for lines without one: '2h'")
    .option('--dry-run', 'only show the effect')
    .answers('a document: dryRun, banned and already (keys), over and others (lines)')
    .example('bans import addresses.txt --name api --for 2h --redis redis://127.0.0.1:6379')
    .action((file: string, options: ImportOptions) => importBans(file, options, io));
  bans
    .command('log')
    .description(
      'Shows the changes of bans by hand, with the operator and the reason. The newest change comes first.',
    )
    .answers('lines as those of `headgate log`')
    .limitOption()
    .nameOption()
    .serverOptions()
    .action((options: Options) =>
      showLog(options, io, {
        actions: ['ban', 'unban', 'import'],
        columns: ['when', 'ago', 'what', 'scope', 'key', 'for', 'by', 'reason'],
        isByHand: true,
        none: 'There are no changes of bans by hand lately.',
      }),
    );
}

const STDIN = '-';

/** The bans that are written together: for each part, the log is read once. */
const EXPORTED = 5000;

/** Writes the bans as lines, each with its origin. If the search fails, the operator has the bans that were found. */
export async function writeBans(admin: Admin, { name }: Pick<Options, 'name'>, io: Io): Promise<void> {
  let some: BannedKey[] = [];
  const writeSome = async (): Promise<void> => {
    const origins = await originsOf(admin, some, io);
    for (const [i, ban] of some.entries()) await writeJsonLine(io, banJson(ban, origins[i]));
    some = [];
  };
  try {
    for await (const ban of orWarning(admin.bans({ name }), admin, io))
      if (some.push(ban) === EXPORTED) await writeSome();
  } finally {
    await writeSome();
  }
}

async function importBans(file: string, options: ImportOptions, io: Io): Promise<void> {
  const standard = options.for === undefined ? undefined : durationOf(options.for, '--for');
  // Errors in the file are reported before the server is queried.
  const lines = await readBans(linesOf(file, io), { ...options, duration: standard });
  const { bans } = lines;
  const { dryRun = false, force = false } = options;
  const note = noteOf(options, io);
  await withAdmin(options, io, async (admin) => {
    const list = bans.map(({ line: _, ...ban }) => ban);
    const result = await admin.importBans(list, { ...note, dryRun, force }).catch((error: unknown) => {
      if (!(error instanceof ItemError)) throw error;
      throw usageError(`bans import, line ${bans[error.index]!.line}: ${withoutPage(error.cause.message)}`);
    });
    const { banned, already } = result;
    const { over, others } = lines;
    const document = { dryRun, banned, already, over, others };
    await writeAnswer(io, document, () => text(result, lines, dryRun));
    warn(io, result.warnings);
  });
}

async function* linesOf(file: string, { stdin, cwd }: Io): AsyncGenerator<Buffer | string> {
  try {
    yield* file === STDIN ? stdin : createReadStream(resolve(cwd, file));
  } catch (error) {
    throw usageError(`bans import ${file}: the file cannot be read: ${(error as Error).message}.`);
  }
}

function text({ banned, already }: ImportResult, { over, others }: BanLines, dryRun: boolean): string {
  const parts = [
    `${many(banned, 'key')} ${dryRun ? 'would be' : banned === 1 ? 'is' : 'are'} banned`,
    ...(already > 0
      ? [`${many(already, 'key')} already ${already === 1 ? 'has' : 'have'} a ban that is at least as long`]
      : []),
    ...(over > 0 ? [`${count(over)} ${over === 1 ? 'ban is' : 'bans are'} over`] : []),
    ...(others > 0 ? [`${count(others)} ${others === 1 ? 'line is' : 'lines are'} not about bans`] : []),
  ];
  return `${parts.join('; ')}.\n`;
}

interface BanLines {
  readonly bans: readonly (ImportedBan & { readonly line: number })[];
  /** The number of bans that have ended since the lines were written. */
  readonly over: number;
  /** The number of lines of `list --json` that are not about bans. */
  readonly others: number;
}

/**
 * Reads lines of `bans export`, lines of `list --json`, or one key per line.
 *
 * @throws CliError `USAGE` with the number of the wrong line
 */
async function readBans(
  content: AsyncIterable<Buffer | string>,
  defaults: BanLineDefaults,
): Promise<BanLines> {
  const bans: BanLines['bans'][number][] = [];
  let over = 0;
  let others = 0;
  let number = 0;
  for await (const line of createInterface({ input: Readable.from(content), crlfDelay: Infinity })) {
    number += 1;
    const text = contentOf(line, defaults.raw);
    if (text === undefined) continue;
    const found = orUsage(
      () => readBanLine(text, defaults),
      (message) => `bans import, line ${number}: ${withoutPage(message)}`,
    );
    if (found === undefined) others += 1;
    else if (found.for === 0) over += 1;
    else bans.push({ ...found, line: number });
  }
  return { bans, over, others };
}
