import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { Hash } from '../../stores/keys.js';
import { bookKeys, type LoggedBan } from '../../stores/redis/operators/ban-book.js';
import { longestOf, readBans, type BanLines, type WantedBan } from '../ban-list.js';
import { nameOf, noteOf, type CliCommand, type Options } from '../command.js';
import { usageError } from '../errors.js';
import { count, duration, many, printable, utc } from '../format.js';
import { warn, write, writeJson, writeJsonLine, type Io } from '../io.js';
import { withState } from '../open.js';
import { SAME_END_MS, type BanChange } from '../redis/bans.js';
import { findJson } from '../redis/finds.js';
import { showLog, type Logged } from '../redis/log.js';
import { checkBans, subjectsIn, unknownScope, warnUnnoted } from '../scope.js';
import { keyJson, showKeyOf, showText, textOrHash } from '../keys.js';
import { durationOf } from './ban.js';

interface ImportOptions extends Options {
  readonly for?: string;
  readonly dryRun?: boolean;
}

export function register(program: CliCommand, io: Io): void {
  const bans = program
    .command('bans')
    .summary('export bans as lines, import such lines, or show the log of bans by hand');
  bans
    .command('export')
    .description('Writes who is banned as lines of JSON, for `bans import`: of one scope, or of all.')
    .nameOption()
    .serverOptions()
    .action((options: Options) => exportBans(options, io));
  bans
    .command('import')
    .description(
      'Bans the keys in a file. It has lines of `bans export` or `list --json`, or one key per line, for which --name and --for give ' +
        'the rest. All lines are checked before any key is banned. No ban becomes shorter.',
    )
    .argument('[file]', '- is standard input', STDIN)
    .nameOption()
    .keyOptions()
    .serverOptions()
    .noteOptions()
    .forceOption()
    .option('--for <duration>', "the length of bans for lines that do not give one: '2h'")
    .option('--dry-run', 'only show what would be done')
    .example('bans import addresses.txt --name api --for 2h --redis redis://127.0.0.1:6379')
    .action((file: string, options: ImportOptions) => importBans(file, options, io));
  bans
    .command('log')
    .description(
      'Shows who banned whom by hand, and who ended bans, when and why. The newest entry comes first.',
    )
    .limitOption()
    .nameOption()
    .serverOptions()
    .action((options: Options) => tellLog(options, io));
}

const STDIN = '-';

async function exportBans(options: Options, io: Io): Promise<void> {
  const { name } = options;
  await withState(options, io, async (state) => {
    warn(io, unknownScope(state.published, name));
    // The index may lack bans, because some limiters do not publish themselves, or may not write to it. An export must contain all bans.
    const nothingElse = { limited: false, admitted: false, states: false } as const;
    const finder = state.finder({ name, limits: new Map(), banned: true, ...nothingElse, scan: true });
    for await (const find of finder.finds()) await writeJsonLine(io, findJson(find));
  });
}

/** The number of bans that are checked and created at a time. */
const BATCH_SIZE = 1000;

async function importBans(file: string, options: ImportOptions, io: Io): Promise<void> {
  const standard = options.for === undefined ? undefined : durationOf(options.for);
  // Errors in the file are reported before the server is queried.
  const lines = await readBans(linesOf(file, io), { ...options, duration: standard });
  const { dryRun = false } = options;
  const note = noteOf(options, io);
  await withState(options, io, async (state) => {
    const { published } = state;
    const { typed, over, others } = lines;
    const typedFor = typed.length > 0 ? [nameOf(options)] : [];
    /** By limiter, the dimensions of the keys. */
    const wantedBy = new Map<string, Set<string>>();
    const noteKey = (name: string | Hash, dimension = DEFAULT_DIMENSION): void => {
      if (typeof name === 'string') wantedBy.set(name, (wantedBy.get(name) ?? new Set()).add(dimension));
    };
    for (const { name, dimension } of lines.bans) noteKey(name, dimension);
    for (const name of typedFor) for (const { dimension } of typed) noteKey(name, dimension);
    for (const [name, dimensions] of wantedBy)
      for (const dimension of dimensions) checkBans(published, name, dimension, options, io);
    const told = typedFor.flatMap((name): WantedBan[] => {
      const subjects = subjectsIn(published, name, typed, io);
      return subjects.flatMap(({ keys, dimension }) =>
        keys.map((key) => ({ name, key, dimension, duration: standard! })),
      );
    });
    const list = longestOf([...lines.bans, ...told]);
    const { bans } = state;
    const wanted: BanChange[] = list.map(({ name, key, dimension, duration, ...told }) => ({
      head: bans.head(name, key, dimension),
      duration,
      note: { by: told.by ?? note.by, reason: told.reason ?? note.reason },
    }));
    let unnoted: string | undefined;
    /** The number of banned keys, by the limiter's name as written in Redis keys. */
    const banned = new Map<string, number>();
    for (let at = 0; at < wanted.length; at += BATCH_SIZE) {
      const some = wanted.slice(at, at + BATCH_SIZE);
      const left = await bans.left(some.map(({ head }) => head));
      const longer = some.filter(({ duration }, i) => left[i]! + SAME_END_MS < duration);
      if (!dryRun) unnoted = (await bans.set(longer)) ?? unnoted;
      for (const { head } of longer) {
        const [scope = ''] = head.split('{')[1]!.split(':');
        banned.set(scope, (banned.get(scope) ?? 0) + 1);
      }
    }
    for (const [scope, keys] of dryRun ? [] : banned) {
      const done = { action: 'import', who: `${scope}:`, keys, forMs: 0, from: 'cli', ...note } as const;
      unnoted = (await bans.logOf(done)) ?? unnoted;
    }
    const changed = [...banned.values()].reduce((sum, keys) => sum + keys, 0);
    const already = wanted.length - changed;
    await (io.json
      ? writeJson(io, { dryRun, banned: changed, already, over, others })
      : write(io, text(changed, already, lines, dryRun)));
    warnUnnoted(io, unnoted);
  });
}

const tellLog = (options: Options, io: Io): Promise<void> =>
  showLog<LoggedBan>(options, io, (prefix) => bookKeys(prefix)[2], {
    json: logJson,
    head: ['when (UTC)', 'what', 'scope', 'key', 'for', 'by', 'reason'],
    row: logRow,
    none: 'Nothing was done by hand lately.',
  });

function logJson({ at, action, keys, forMs, by, reason, from, whose }: Logged<LoggedBan>): object {
  const { name, key = '' } = whose;
  const shown = keys === 1 ? keyJson(whose) : key === '' ? {} : textOrHash('network', key);
  return { at, action, ...textOrHash('name', name), ...shown, keys, forMs, by, reason, from };
}

function logRow({ at, action, keys, forMs, by, reason, from, whose }: Logged<LoggedBan>): string[] {
  const { name, key = '' } = whose;
  const several = key === '' ? many(keys, 'key') : `${showText(key)} (${many(keys, 'key')})`;
  const who = by === null ? (from === 'program' ? 'the program' : '-') : printable(by);
  return [
    utc(at),
    action,
    showText(name),
    keys === 1 ? showKeyOf(whose) : several,
    forMs === 0 ? '-' : duration(forMs),
    who,
    reason === null ? '-' : printable(reason),
  ];
}

async function* linesOf(file: string, { stdin, cwd }: Io): AsyncGenerator<Buffer | string> {
  try {
    yield* file === STDIN ? stdin : createReadStream(resolve(cwd, file));
  } catch (error) {
    throw usageError(`bans import ${file}: it cannot be read: ${(error as Error).message}.`);
  }
}

function text(banned: number, already: number, { over, others }: BanLines, dryRun: boolean): string {
  const parts = [
    `${many(banned, 'key')} ${dryRun ? 'would be' : banned === 1 ? 'is' : 'are'} banned`,
    ...(already > 0 ? [`${already} were banned for as long already`] : []),
    ...(over > 0 ? [`${count(over)} ${over === 1 ? 'ban is' : 'bans are'} over`] : []),
    ...(others > 0 ? [`${count(others)} ${others === 1 ? 'line is' : 'lines are'} not about bans`] : []),
  ];
  return `${parts.join('; ')}.\n`;
}
