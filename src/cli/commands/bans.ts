import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { escapeName, parseWho, type Hash } from '../../stores/keys.js';
import { addNoteOptions, noteOf, type NoteOptions } from '../ban-note.js';
import { usageError } from '../errors.js';
import { columns, count, duration, many, printable, utc } from '../format.js';
import { write, writeJson, writeJsonLine, type Io } from '../io.js';
import { addKeyOptions, dimensionJson, prefixOf, type KeyOptions } from '../keys.js';
import { addNameOption, limitOf, nameOf } from '../limits.js';
import { longestOf, readBans, type BanLines, type WantedBan } from '../ban-list.js';
import { Bans, SAME, type BanChange, type LogEntry } from '../redis/bans.js';
import { BANS_ALONE, findJson, showText, textOrHash, type Wanted } from '../redis/finds.js';
import { Published } from '../redis/published.js';
import {
  addForceOption,
  checkBans,
  subjectsIn,
  unknownScope,
  warnUnnoted,
  type ForceOption,
} from '../scope.js';
import { warn } from '../warn.js';
import { addRedisOptions, withRedis, type RedisOptions } from '../redis/session.js';
import { withState } from '../open.js';
import { durationOf } from './ban.js';

interface NamedOptions extends RedisOptions {
  readonly name?: string;
}

type ExportOptions = NamedOptions;

interface LogOptions extends NamedOptions {
  readonly limit?: string;
}

interface ImportOptions extends NamedOptions, KeyOptions, NoteOptions, ForceOption {
  readonly for?: string;
  readonly dryRun?: boolean;
}

export function register(program: Command, io: Io): void {
  const bans = program
    .command('bans')
    .summary('export bans as lines, import such lines, or show the log of bans by hand');
  const exporting = bans
    .command('export')
    .description('Writes who is banned as lines of JSON, for `bans import`: of one scope, or of all.');
  addRedisOptions(addNameOption(exporting)).action((options: ExportOptions) => exportBans(options, io));
  const importing = bans
    .command('import')
    .description(
      'Bans the keys in a file. It has lines of `bans export` or `list --json`, or one key per line, for which --name and --for give ' +
        'the rest. All lines are checked before any key is banned. No ban becomes shorter.',
    )
    .argument('[file]', '- is standard input', STDIN);
  addForceOption(addNoteOptions(addRedisOptions(addKeyOptions(addNameOption(importing)))))
    .option('--for <duration>', "the length of bans for lines that do not give one: '2h'")
    .option('--dry-run', 'only show what would be done')
    .addHelpText(
      'after',
      '\nExample:\n  headgate bans import addresses.txt --name api --for 2h --redis redis://127.0.0.1:6379',
    )
    .action((file: string, options: ImportOptions) => importBans(file, options, io));
  const logging = bans
    .command('log')
    .description(
      'Shows who banned whom by hand, and who ended bans, when and why. The newest entry comes first.',
    )
    .option('--limit <n>', `at most this many; 0: all (default: ${ENOUGH}, with --json 0)`);
  addRedisOptions(addNameOption(logging)).action((options: LogOptions) => tellLog(options, io));
}

const STDIN = '-';

async function exportBans(options: ExportOptions, io: Io): Promise<void> {
  const { name } = options;
  if (name !== undefined) nameOf(options);
  await withState(options, io, async (state) => {
    const { published } = state;
    warn(io, name === undefined ? undefined : unknownScope(published, name));
    // The index may lack bans: some limiters do not publish themselves, or may not write it. An export must have all bans.
    const wanted: Wanted = { ...BANS_ALONE, name, scan: true };
    const finder = state.finder(wanted);
    for await (const find of finder.finds()) await writeJsonLine(io, findJson(find));
  });
}

/** How many bans are checked and made at a time. */
const TOGETHER = 1000;

async function importBans(file: string, options: ImportOptions, io: Io): Promise<void> {
  if (options.name !== undefined) nameOf(options);
  const standard = options.for === undefined ? undefined : durationOf(options.for);
  // Errors in the file are reported before a server is asked.
  const lines = await readBans(linesOf(file, io), { ...options, duration: standard });
  const { dryRun = false } = options;
  const note = noteOf(options, io);
  await withState(options, io, async (state) => {
    const { published } = state;
    const { typed, over, others } = lines;
    const typedFor = typed.length > 0 ? [nameOf(options)] : [];
    const names = lines.bans.flatMap(({ name }) => (typeof name === 'string' ? [name] : []));
    checkBans(published, [...new Set([...names, ...typedFor])], options, io);
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
    for (let at = 0; at < wanted.length; at += TOGETHER) {
      const some = wanted.slice(at, at + TOGETHER);
      const left = await bans.left(some.map(({ head }) => head));
      const longer = some.filter(({ duration }, i) => left[i]! + SAME < duration);
      if (!dryRun) unnoted = (await bans.set(longer)) ?? unnoted;
      for (const { head } of longer) {
        const [scope = ''] = head.split('{')[1]!.split(':');
        banned.set(scope, (banned.get(scope) ?? 0) + 1);
      }
    }
    for (const [scope, keys] of dryRun ? [] : banned) {
      const done = {
        action: 'import',
        who: `${scope}:`,
        keys,
        forMs: 0,
        from: 'cli',
        ...note,
      } as const;
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

/** The most rows that are shown to people. */
const ENOUGH = 100;

async function tellLog(options: LogOptions, io: Io): Promise<void> {
  const name = options.name === undefined ? undefined : nameOf(options);
  const most = limitOf(options.limit, io, ENOUGH);
  await withRedis(options, io, async (session) => {
    warn(io, name === undefined ? undefined : unknownScope(await Published.read(session, io), name));
    const rows: string[][] = [];
    let told = 0;
    for await (const { who, ...entry } of new Bans(session).log()) {
      const whose = parseWho(who);
      if (!whose || (name !== undefined && whose.scope !== escapeName(name))) continue;
      if (told++ === most) break;
      const scope = name ?? whose.name;
      const shown = { ...entry, dimension: whose.by };
      if (io.json) await writeJsonLine(io, logJson(shown, scope, whose.key));
      else rows.push(logRow(shown, scope, whose.key));
    }
    if (io.json) return;
    const head = ['when (UTC)', 'what', 'scope', 'key', 'for', 'by', 'reason'];
    await write(io, rows.length === 0 ? 'Nothing was done by hand lately.\n' : columns(io, head, rows));
  });
}

type Entry = Omit<LogEntry, 'who'> & { readonly dimension: string };

function logJson(entry: Entry, name: string | Hash, key: string | Hash): object {
  const { at, action, keys, forMs, by, reason, from, dimension } = entry;
  const whose =
    keys === 1
      ? { ...textOrHash('key', key), ...dimensionJson(dimension) }
      : key === ''
        ? {}
        : textOrHash('network', key);
  return { at, action, ...textOrHash('name', name), ...whose, keys, forMs, by, reason, from };
}

function logRow(entry: Entry, name: string | Hash, key: string | Hash): string[] {
  const { at, action, keys, forMs, by, reason, from, dimension } = entry;
  const time = utc(at);
  const whose =
    keys === 1
      ? prefixOf(dimension) + showText(key)
      : key === ''
        ? many(keys, 'key')
        : `${showText(key)} (${many(keys, 'key')})`;
  const who = by === null ? (from === 'program' ? 'the program' : '-') : printable(by);
  const length = forMs === 0 ? '-' : duration(forMs);
  return [time, action, showText(name), whose, length, who, reason === null ? '-' : printable(reason)];
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
