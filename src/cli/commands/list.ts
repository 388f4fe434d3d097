import { integer, limitOf, type CliCommand, type Options as Shared } from '../command.js';
import { CliError, usageError } from '../errors.js';
import { columns, duration, many, noteText, printable } from '../format.js';
import { warn, write, writeJsonLine, type Io } from '../io.js';
import { ofTier, readLimits, type Limits } from '../limits.js';
import { withState } from '../open.js';
import { findJson, showKey, type Find, type Wanted } from '../redis/finds.js';
import type { Published } from '../redis/published.js';
import { KEYS_PER_STEP } from '../redis/scan.js';
import { unknownScope } from '../scope.js';
import { showText } from '../keys.js';

interface Options extends Shared {
  readonly limited?: boolean;
  readonly banned?: boolean;
  readonly all?: boolean;
  readonly scan?: boolean;
  readonly count: number;
}

/** The maximum number of keys per step. With more, the server would not serve other clients for milliseconds. */
const MAX_KEYS_PER_STEP = 10_000;

/** The default of `--limit` for people, rows. */
const DEFAULT_LIMIT = 1000;

export function register(program: CliCommand, io: Io): void {
  program
    .command('list')
    .summary('who is banned or limited now')
    .description(
      'Lists who is banned or limited now, by scope. Redis stores what was spent, but not the limits. If limiters do not publish ' +
        'theirs, write them with --policy or --policies. Otherwise the command only lists who is banned, and the keys that have state. ' +
        'It goes through the keys by SCAN, in small steps.',
    )
    .nameOption()
    .limitsOptions()
    .option('--limited', 'only those whose next request would be denied by a policy')
    .option('--banned', 'only those who are banned')
    .option('--all', 'also those whose next request would be admitted')
    .limitOption(
      `stop after this many, not counting bans; 0: never (default: ${DEFAULT_LIMIT}, with --json 0)`,
    )
    .option('--scan', 'with --banned: look at all keys instead of the index of bans')
    .option(
      '--count <n>',
      'how many keys the server looks at in one step',
      integer('--count', 1, MAX_KEYS_PER_STEP),
      KEYS_PER_STEP,
    )
    .serverOptions()
    .example("list --redis redis://127.0.0.1:6379 --name api --policy '100/1m'")
    .action((options: Options) => list(options, io));
}

async function list(options: Options, io: Io): Promise<void> {
  const { name, count } = options;
  const given = readLimits(options, io);
  const most = limitOf(options, io, DEFAULT_LIMIT);
  await withState(options, io, async (state) => {
    const { published } = state;
    warn(io, unknownScope(published, name));
    const wanted = wantedOf(options, given, published);
    const finder = state.finder(wanted);
    const finds: Find[] = [];
    // The progress is only for people at a terminal.
    const isWatched = !io.json && (io.stderr.isTTY ?? false);
    const line = (text: string): unknown => isWatched && io.stderr.write(`\r\u001b[K${text}`);
    const stop = new AbortController();
    const ignore = io.onInterrupt?.(() => stop.abort());
    let done = 0;
    let others = 0;
    let more = false;
    const progress = (share: number): void => {
      done = share;
      line(`${percent(share)}, ${many(finder.looked, 'key')} of Headgate`);
    };
    try {
      for await (const find of finder.finds({ count, progress, signal: stop.signal })) {
        if (find.kind !== 'banned' && others++ === most) {
          more = true;
          break;
        }
        if (io.json) await writeJsonLine(io, findJson(find));
        else finds.push(find);
      }
    } finally {
      line('');
      ignore?.();
    }
    if (!io.json) {
      for (const [name, ofScope] of [...byScope(finds)].sort(([a], [b]) => a.localeCompare(b, 'en')))
        await write(io, text(name, ofScope, io));
      await write(io, summary(finds, wanted, finder.looked, more));
      if (finder.isOfIndex) await write(io, 'Read from the index of bans: --scan looks at all keys.\n');
    }
    if (stop.signal.aborted) {
      throw new CliError('INTERRUPTED', `Stopped at ${percent(done)} of the keys: there may be more.`);
    }
  });
}

const percent = (share: number): string => `${Math.floor(100 * share)} %`;

function wantedOf(options: Options, given: ReadonlyMap<string, Limits>, published: Published): Wanted {
  const { name, tier, limited = false, banned = false, all = false, scan = false } = options;
  const limits = byTier(given.size > 0 ? given : published.limits(name), name, tier);
  if (limited && limits.size === 0) {
    throw usageError(
      `--limited: by which limits? ${whyUnknown(published, name)} Write them: --name api --policy '100/1m', or --policies limits.json.`,
    );
  }
  const either = limited || banned;
  return {
    name,
    limits,
    banned: banned || all || !either,
    limited: limited || all || (!either && limits.size > 0),
    admitted: all,
    states: all || (!either && (limits.size === 0 || (given.size === 0 && 'of unknown scopes'))),
    scan,
  };
}

/** Selects limits by tier. A key's tier is unknown, so scopes whose requests all have a tier are omitted without --tier. */
function byTier(
  limits: ReadonlyMap<string, Limits>,
  name: string | undefined,
  tier: string | undefined,
): ReadonlyMap<string, Limits> {
  if (tier !== undefined && name === undefined)
    throw usageError('--tier: of which limiter? Write --name, too.');
  const known = [...limits].filter(([, { policies }]) => tier !== undefined || policies.length > 0);
  return new Map(known.map(([scope, each]) => [scope, ofTier(each, scope, tier)]));
}

function whyUnknown({ scopes }: Published, name: string | undefined): string {
  if (name === undefined || scopes.size === 0) return 'No limiter has published its limits.';
  const who = `limiter called ${JSON.stringify(name)}`;
  const tiers = Object.keys(scopes.get(name)?.[0]?.tiers ?? {});
  if (tiers.length > 0)
    return `The ${who} has the tiers ${tiers.map((tier) => JSON.stringify(tier)).join(', ')}: write --tier.`;
  return scopes.has(name)
    ? `The limits of the ${who} depend on the request.`
    : `No ${who} has published its limits.`;
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
      return [colors.yellow('limited'), `${find.policy ?? '-'}${ownLimit(find)}`, time(find.retryAfterMs)];
    case 'admitted':
      return [
        'admitted',
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

/** The limits of a key from an override. */
function ownLimit({ overridden, policies }: Extract<Find, { policies: unknown }>): string {
  if (!overridden) return '';
  const limits = policies.map(({ limit, windowMs }) => `${limit} per ${duration(windowMs)}`);
  return ` (override: ${limits.join(', ')})`;
}

const time = (ms: number | null): string => (ms === null ? 'no end' : duration(ms));

function summary(finds: readonly Find[], wanted: Wanted, looked: number, more: boolean): string {
  const count = (kind: Find['kind']): number => finds.filter((find) => find.kind === kind).length;
  const parts = [
    ...(wanted.banned ? [`${count('banned')} banned`] : []),
    ...(wanted.limited ? [`${count('limited')} limited`] : []),
    ...(wanted.admitted && wanted.limits.size > 0 ? [`${count('admitted')} admitted`] : []),
    ...(wanted.states === true || count('state') > 0
      ? [`${count('state')} ${wanted.limits.size > 0 ? 'other states' : 'states'}`]
      : []),
    ...(count('unreadable') > 0 ? [`${count('unreadable')} unreadable`] : []),
  ];
  const lines = [
    `${parts.join(', ')}; ${many(looked, 'key')} of Headgate ${looked === 1 ? 'was' : 'were'} looked at.`,
  ];
  if (more) lines.push('There are more: --limit 0 lists all, --name one scope.');
  if (wanted.states && wanted.limits.size === 0 && count('state') > 0) {
    lines.push(
      "Which of them are limited depends on the limits: add --name and --policy '100/1m', or --policies limits.json.",
    );
  }
  return `${lines.join('\n')}\n`;
}
