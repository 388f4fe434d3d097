import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { usageError } from '../errors.js';
import { write, writeJson, writeJsonLine, type Io } from '../io.js';
import { addKeyOptions, subnetOf, type KeyOptions } from '../keys.js';
import { addNameOption, nameOf } from '../limits.js';
import { readBans, type BanList } from '../ban-list.js';
import { Bans } from '../redis/bans.js';
import { Finder, findJson } from '../redis/finds.js';
import { addRedisOptions, withRedis, type RedisOptions } from '../redis/session.js';
import { durationOf } from './ban.js';

interface ExportOptions extends RedisOptions {
  readonly name?: string;
}

interface ImportOptions extends ExportOptions, KeyOptions {
  readonly for?: string;
  readonly dryRun?: boolean;
}

export function register(program: Command, io: Io): void {
  const bans = program.command('bans').summary('write all bans as lines, or ban what such lines say');
  const exporting = bans
    .command('export')
    .description('Writes who is banned as lines of JSON, for `bans import`: of one scope, or of all.');
  addRedisOptions(addNameOption(exporting)).action((options: ExportOptions) => exportBans(options, io));
  const importing = bans
    .command('import')
    .description(
      'Bans whom a file says: lines of `bans export` or `list --json`, or a key each, for which --name and --for tell the rest. ' +
        'All lines are checked before anybody is banned; no ban becomes shorter.',
    )
    .argument('[file]', '- is standard input', STDIN);
  addRedisOptions(addKeyOptions(addNameOption(importing)))
    .option('--for <duration>', "how long to ban the keys of lines that don't say it: '2h'")
    .option('--dry-run', 'only tell what would be done')
    .addHelpText(
      'after',
      '\nExample:\n  headgate bans import addresses.txt --name api --for 2h --redis redis://127.0.0.1:6379',
    )
    .action((file: string, options: ImportOptions) => importBans(file, options, io));
}

const STDIN = '-';

async function exportBans(options: ExportOptions, io: Io): Promise<void> {
  const { name } = options;
  if (name !== undefined) nameOf(options);
  await withRedis(options, io, async (session) => {
    const wanted = { name, limits: new Map(), banned: true, limited: false, admitted: false, states: false };
    for await (const find of new Finder(session, wanted).finds()) await writeJsonLine(io, findJson(find));
  });
}

/** A ban that ends so little later is the same. */
const SAME = 1000;

/** How many bans are looked at, and made, at a time. */
const TOGETHER = 1000;

async function importBans(file: string, options: ImportOptions, io: Io): Promise<void> {
  if (options.name !== undefined) nameOf(options);
  subnetOf(options);
  const duration = options.for === undefined ? undefined : durationOf(options.for);
  const list = await readBans(linesOf(file, io), { ...options, duration });
  const { dryRun = false } = options;
  await withRedis(options, io, async (session) => {
    const bans = new Bans(session);
    const wanted = list.bans.map(({ name, key, duration }) => ({ head: bans.head(name, key), duration }));
    let banned = 0;
    for (let at = 0; at < wanted.length; at += TOGETHER) {
      const some = wanted.slice(at, at + TOGETHER);
      const left = await bans.left(some.map(({ head }) => head));
      const longer = some.filter(({ duration }, i) => left[i]! + SAME < duration);
      if (!dryRun) await bans.set(longer);
      banned += longer.length;
    }
    const already = wanted.length - banned;
    const { over, others } = list;
    await (io.json
      ? writeJson(io, { dryRun, banned, already, over, others })
      : write(io, text(banned, already, list, dryRun)));
  });
}

async function* linesOf(file: string, { stdin, cwd }: Io): AsyncGenerator<Buffer | string> {
  try {
    yield* file === STDIN ? stdin : createReadStream(resolve(cwd, file));
  } catch (error) {
    throw usageError(`bans import ${file}: it cannot be read: ${(error as Error).message}.`);
  }
}

function text(banned: number, already: number, { over, others }: BanList, dryRun: boolean): string {
  const parts = [
    `${keys(banned)} ${dryRun ? 'would be' : banned === 1 ? 'is' : 'are'} banned`,
    ...(already > 0 ? [`${already} were banned for as long already`] : []),
    ...(over > 0 ? [`${over} bans are over`] : []),
    ...(others > 0 ? [`${others} lines are of no ban`] : []),
  ];
  return `${parts.join('; ')}.\n`;
}

const keys = (n: number): string => (n === 1 ? '1 key' : `${n.toLocaleString('en-US')} keys`);
