import type { Admin, Find, KeySearch, KeysOptions } from 'headgate/admin';
import { integer, limitOf, type CliCommand, type Options as Shared } from '../command.js';
import { CliError } from '../errors.js';
import { columns, duration, many, noteText, printable, quoted } from '../format.js';
import { warn, write, writeJsonLine, type Io } from '../io.js';
import { showKey, showText, textOrHash } from '../keys.js';
import { givenLimits, readLimits } from '../limits.js';
import { withAdmin } from '../open.js';

/** The default number of keys per step. */
const KEYS_PER_STEP = 500;

interface Options extends Shared {
  readonly limited?: boolean;
  readonly banned?: boolean;
  readonly all?: boolean;
  readonly scan?: boolean;
  readonly count: number;
}

/** The maximum number of keys per step. With more, the server would not serve other clients for milliseconds. */
const MAX_KEYS_PER_STEP = 10_000;

/** The most limiters in a sentence. */
const MAX_NAMES = 5;

/** The default of `--limit` for people, rows. */
const DEFAULT_LIMIT = 1000;

export function register(program: CliCommand, io: Io): void {
  program
    .command('list')
    .summary('the keys that are banned or limited now')
    .description(
      'Lists the keys that are banned or limited now, by scope. Redis stores charges, but not the limits. If limiters do not publish ' +
        'theirs, pass them with --policy or --policies. Otherwise the command lists only the banned keys, and the keys with state. It ' +
        'searches the keys by SCAN, in small steps.',
    )
    .nameOption()
    .limitsOptions()
    .option('--limited', 'only keys whose next request would be denied by a policy')
    .option('--banned', 'only banned keys')
    .option('--all', 'also keys whose next request would be admitted')
    .limitOption(
      `the maximum number of facts other than bans, or 0 for all (default: ${DEFAULT_LIMIT}, with --json 0)`,
    )
    .option('--scan', 'with --banned: search all keys in place of the index of bans')
    .option(
      '--count <n>',
      'the number of keys that the server checks in one step',
      integer('--count', 1, MAX_KEYS_PER_STEP),
      KEYS_PER_STEP,
    )
    .serverOptions()
    .example("list --redis redis://127.0.0.1:6379 --name api --policy '100/1m'")
    .action((options: Options) => list(options, io));
}

async function list(options: Options, io: Io): Promise<void> {
  const { name, count, tier, scan = false } = options;
  const given = [...readLimits(options, io)].map(([scope, limits]) => [scope, givenLimits(limits)] as const);
  const most = limitOf(options, io, DEFAULT_LIMIT);
  await withAdmin(options, io, async (admin) => {
    const stop = new AbortController();
    const ignore = io.onInterrupt?.(() => stop.abort());
    // The progress is only for people at a terminal.
    const isWatched = !io.json && (io.stderr.isTTY ?? false);
    const line = (text: string): unknown => isWatched && io.stderr.write(`\r\u001b[K${text}`);
    let done = 0;
    const progress = (share: number): void => {
      done = share;
      line(`${percent(share)}, ${many(search.checked, 'key')} of Headgate`);
    };
    const search: KeySearch = await admin.keys({
      ...{ name, tier, scan, count, progress, signal: stop.signal },
      ...(given.length > 0 && { limits: Object.fromEntries(given) }),
      ...kindsOf(options),
    });
    warn(io, search.warnings);
    try {
      const limited = await print(search, most, io, () => line(''));
      if (!io.json && search.wanted.limited && limited === 0) await explainNone(admin, name, io);
    } finally {
      line('');
      ignore?.();
    }
    if (stop.signal.aborted)
      throw new CliError('INTERRUPTED', `Stopped at ${percent(done)} of the keys: there may be more.`);
  });
}

const percent = (share: number): string => `${Math.floor(100 * share)} %`;

/** The kinds of facts that the flags select. */
function kindsOf({ limited = false, banned = false, all = false }: Options): Pick<KeysOptions, 'kinds'> {
  if (all) return { kinds: ['banned', 'limited', 'admitted', 'state'] };
  if (!limited && !banned) return {};
  return { kinds: [...(banned ? (['banned'] as const) : []), ...(limited ? (['limited'] as const) : [])] };
}

/** Prints the facts: lines of JSON at once, or tables in the order of the scopes at the end. @returns the number of limited keys */
async function print(search: KeySearch, most: number, io: Io, clear: () => unknown): Promise<number> {
  const finds: Find[] = [];
  let others = 0;
  let more = false;
  for await (const find of search) {
    if (find.kind !== 'banned' && others++ === most) {
      more = true;
      break;
    }
    if (io.json) await writeJsonLine(io, findJson(find));
    else finds.push(find);
  }
  const limited = finds.filter(({ kind }) => kind === 'limited').length;
  if (io.json) return limited;
  clear();
  for (const [name, ofScope] of [...byScope(finds)].sort(([a], [b]) => a.localeCompare(b, 'en')))
    await write(io, text(name, ofScope, io));
  await write(io, summary(finds, search, more));
  if (search.isOfIndex) await write(io, 'Read from the index of bans: --scan searches all keys.\n');
  return limited;
}

/** Explains that requests are denied although no key is limited: windows are over within a moment, or a request costs more. */
async function explainNone(admin: Admin, name: string | undefined, io: Io): Promise<void> {
  // A user without permission for the counts still gets the list.
  const traffic = await admin.traffic({ name, keys: 0 }).catch(() => undefined);
  for (const limiter of traffic?.limiters ?? []) {
    const denied = limiter.policies.reduce((sum, policy) => sum + policy.denied, 0);
    if (denied === 0) continue;
    const scope = printable(limiter.name);
    await write(
      io,
      `${scope} denies ${limiter.denied} requests a second, but no key of it is limited at this moment: \`headgate top --name ${quoted(limiter.name)}\` shows the denied keys.\n`,
    );
  }
}

/** For programs: `name` and `key`, or `nameHash` and `keyHash` if only the hash is known; then the rest. */
function findJson({ kind, name, key, ...rest }: Find): object {
  return { kind, ...textOrHash('name', name), ...textOrHash('key', key), ...rest };
}

function byScope(finds: readonly Find[]): Map<string, Find[]> {
  const scopes = new Map(finds.map(({ name }) => [showText(name), [] as Find[]]));
  for (const find of finds) scopes.get(showText(find.name))!.push(find);
  return scopes;
}

function text(name: string, finds: readonly Find[], io: Io): string {
  // The author of a ban by hand, and the reason.
  const noteOf = (find: Find) => (find.kind === 'banned' ? noteText(find.by, find.reason) : '') || '-';
  const isNoted = finds.some((find) => noteOf(find) !== '-');
  const rows = [...finds].sort(inOrder).map((find) => {
    return [showKey(find), ...describe(find, io), ...(isNoted ? [noteOf(find)] : [])];
  });
  const head = ['key', 'state', 'policy', 'time left', ...(isNoted ? ['by: reason'] : [])];
  return `${io.colors.bold(name)}\n${columns(io, head, rows)}\n`;
}

const KINDS: readonly Find['kind'][] = ['banned', 'limited', 'admitted', 'state', 'unreadable'];

function inOrder(a: Find, b: Find): number {
  return KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || showKey(a).localeCompare(showKey(b), 'en');
}

function describe(find: Find, { colors }: Io): [state: string, policy: string, time: string] {
  switch (find.kind) {
    case 'banned':
      return [colors.red('banned'), '-', duration(find.bannedForMs)];
    case 'limited':
      return [
        colors.yellow(`limited${inTier(find)}`),
        `${find.policy ?? '-'}${ownLimit(find)}`,
        time(find.retryAfterMs),
      ];
    case 'admitted':
      return [
        `admitted${inTier(find)}`,
        find.policies.map(({ name, remaining }) => `${name}: ${remaining} left`).join(', ') + ownLimit(find),
        '-',
      ];
    case 'state': {
      const state = find.algorithm === 'ban' ? 'denials counted' : (find.algorithm ?? 'of another version');
      return [state, find.policy ?? '-', time(find.expiresInMs)];
    }
    case 'unreadable':
      return [colors.red(`unreadable: ${printable(find.message)}`), '-', '-'];
  }
}

/** The tier in which a key is judged. */
const inTier = ({ tier }: { tier?: string }): string =>
  tier === undefined ? '' : ` in tier ${printable(tier)}`;

/** The limits of a key from an override. */
function ownLimit({ overridden, policies }: Extract<Find, { policies: unknown }>): string {
  if (!overridden) return '';
  const limits = policies.map(({ limit, windowMs }) => `${limit} per ${duration(windowMs)}`);
  return ` (override: ${limits.join(', ')})`;
}

const time = (ms: number | null): string => (ms === null ? 'no end' : duration(ms));

function summary(finds: readonly Find[], { wanted, checked, unjudged }: KeySearch, more: boolean): string {
  const count = (kind: Find['kind']): number => finds.filter((find) => find.kind === kind).length;
  const parts = [
    ...(wanted.banned ? [`${count('banned')} banned`] : []),
    ...(wanted.limited ? [`${count('limited')} limited`] : []),
    ...(wanted.admitted && wanted.hasLimits ? [`${count('admitted')} admitted`] : []),
    ...(wanted.states === true || count('state') > 0
      ? [`${count('state')} ${wanted.hasLimits ? 'other states' : 'states'}`]
      : []),
    ...(count('unreadable') > 0 ? [`${count('unreadable')} unreadable`] : []),
  ];
  const lines = [
    `${parts.join(', ')}; ${many(checked, 'key')} of Headgate ${checked === 1 ? 'was' : 'were'} checked.`,
  ];
  if (unjudged.length > 0) {
    const names = unjudged.slice(0, MAX_NAMES).map((each) => printable(each));
    const others = unjudged.length > MAX_NAMES ? `, and ${unjudged.length - MAX_NAMES} more` : '';
    lines.push(
      `Keys of limiters with unknown limits were not judged: ${names.join(', ')}${others}. Add --name and --policy '100/1m'.`,
    );
  }
  if (more) lines.push('There are more: --limit 0 lists all, --name one scope.');
  if (wanted.states && !wanted.hasLimits && count('state') > 0) {
    lines.push(
      "The limits decide which of these keys are limited: add --name and --policy '100/1m', or --policies limits.json.",
    );
  }
  return `${lines.join('\n')}\n`;
}
