import type { Command } from 'commander';
import { inForce } from '../../contract/overrides.js';
import { overrideOf } from '../../limiter/live-limits.js';
import { ALL_KEYS, escapeName, parseWho, type Hash } from '../../stores/keys.js';
import { overrideBookKeys, type LoggedOverride } from '../../stores/redis/override-book.js';
import { columns, duration, printable, utc } from '../format.js';
import { write, writeJsonLine, type Io } from '../io.js';
import { dimensionJson, prefixOf } from '../keys.js';
import { addNameOption, limitOf, nameOf } from '../limits.js';
import { showText, textOrHash } from '../redis/finds.js';
import { Published } from '../redis/published.js';
import { addRedisOptions, withRedis, type RedisOptions } from '../redis/session.js';
import { withState } from '../open.js';
import type { State } from '../state.js';
import { unknownScope } from '../scope.js';
import { warn } from '../warn.js';
import { changeText, overrideJson } from './override.js';

interface Options extends RedisOptions {
  readonly name?: string;
  readonly limit?: string;
}

/** The most rows that are shown to people. */
const ENOUGH = 100;

/** How many keys are read at a time. */
const TOGETHER = 200;

export function register(program: Command, io: Io): void {
  const most = `at most this many; 0: all (default: ${ENOUGH}, with --json 0)`;
  const overrides = program
    .command('overrides')
    .summary('which keys have limits of their own, and the log of who changed them')
    .description('Lists the overrides that are in force: whose, which limits, until when, by whom and why.')
    .option('--limit <n>', most);
  addRedisOptions(addNameOption(overrides))
    .addHelpText('after', '\nExample:\n  headgate overrides --name api --redis redis://127.0.0.1:6379')
    .action((options: Options) => list(options, io));
  const logging = overrides
    .command('log')
    .description(
      'Shows who overrode which limits, and who ended it, when and why. The newest entry comes first.',
    )
    .option('--limit <n>', most);
  addRedisOptions(addNameOption(logging)).action((_: Options, command: Command) =>
    tellLog(command.optsWithGlobals<Options>(), io),
  );
}

/** Whose override it is, as it is shown. */
interface Whose {
  readonly name: string | Hash;
  /** Undefined: all keys. */
  readonly key: string | Hash | undefined;
  readonly by: string;
}

/** Reads the text between the braces. Undefined: it is none of this name. */
function whoseOf(who: string, name: string | undefined): Whose | undefined {
  const isAll = who.endsWith(`:${ALL_KEYS}`);
  const whose = parseWho(isAll ? who.slice(0, -ALL_KEYS.length) : who);
  if (!whose || (name !== undefined && whose.scope !== escapeName(name))) return undefined;
  return { name: name ?? whose.name, key: isAll ? undefined : whose.key, by: whose.by };
}

function whoseJson({ name, key, by }: Whose): object {
  return {
    ...textOrHash('name', name),
    ...(key === undefined ? { all: true } : { ...textOrHash('key', key), ...dimensionJson(by) }),
  };
}

function whoseRow({ name, key, by }: Whose): string[] {
  return [showText(name), key === undefined ? 'all keys' : prefixOf(by) + showText(key)];
}

async function list(options: Options, io: Io): Promise<void> {
  const name = options.name === undefined ? undefined : nameOf(options);
  const most = limitOf(options.limit, io, ENOUGH);
  await withState(options, io, async (state) => {
    warn(io, name === undefined ? undefined : unknownScope(state.published, name));
    const rows: string[][] = [];
    let told = 0;
    for await (const { whose, override } of allInForce(state, name)) {
      if (told++ === most) break;
      if (io.json) {
        await writeJsonLine(io, { ...whoseJson(whose), ...overrideJson(override) });
      } else {
        const { change, until, by, reason } = override;
        rows.push([
          ...whoseRow(whose),
          changeText(change),
          until === undefined ? '-' : utc(until.toISOString()),
          by === undefined ? '-' : printable(by),
          reason === undefined ? '-' : printable(reason),
        ]);
      }
    }
    if (io.json) return;
    const head = ['scope', 'key', 'limits', 'until (UTC)', 'by', 'reason'];
    await write(io, rows.length === 0 ? 'No key has limits of its own.\n' : columns(io, head, rows));
  });
}

/** The overrides in force, in the order of their ends. One that no limiter has written changes nothing, and is left out. */
async function* allInForce(state: State, name: string | undefined) {
  const now = Date.now();
  for await (const [who, record] of state.overrides((who) => whoseOf(who, name) !== undefined)) {
    const line = inForce(record, now);
    const override = line && overrideOf(line);
    if (override) yield { whose: whoseOf(who, name)!, override };
  }
}

async function tellLog(options: Options, io: Io): Promise<void> {
  const name = options.name === undefined ? undefined : nameOf(options);
  const most = limitOf(options.limit, io, ENOUGH);
  await withRedis(options, io, async (session) => {
    warn(io, name === undefined ? undefined : unknownScope(await Published.read(session, io), name));
    const [, log] = overrideBookKeys(session.prefix);
    const rows: string[][] = [];
    let told = 0;
    let end = '+';
    for (;;) {
      const page = (await session.call('XREVRANGE', log, end, '-', 'COUNT', String(TOGETHER))) as [
        id: string,
        fields: string[],
      ][];
      for (const [id, [, text]] of page) {
        const { who, ...entry } = JSON.parse(text!) as LoggedOverride;
        const whose = whoseOf(who, name);
        if (!whose || told++ >= most) continue;
        const at = new Date(Number(id.split('-')[0])).toISOString();
        if (io.json) await writeJsonLine(io, { at, ...whoseJson(whose), ...entry });
        else rows.push(logRow(at, whose, entry));
      }
      if (page.length < TOGETHER || told >= most) break;
      end = `(${page.at(-1)![0]}`;
    }
    if (io.json) return;
    const head = ['when (UTC)', 'what', 'scope', 'key', 'limits', 'for', 'by', 'reason'];
    await write(io, rows.length === 0 ? 'No limits were changed lately.\n' : columns(io, head, rows));
  });
}

function logRow(
  at: string,
  whose: Whose,
  { action, change, forMs, by, reason }: Omit<LoggedOverride, 'who'>,
): string[] {
  const [limits, length] =
    action === 'remove' ? ['-', '-'] : [changeText(change), forMs === 0 ? '-' : duration(forMs)];
  const who = by === undefined ? '-' : printable(by);
  return [
    utc(at),
    action,
    ...whoseRow(whose),
    limits,
    length,
    who,
    reason === undefined ? '-' : printable(reason),
  ];
}
