import { Option } from 'commander';
import {
  type Admin,
  factJson,
  identityOf,
  type KeySearch,
  type KeysOptions,
  type KeyVerdictFind,
  useIn,
} from 'headgate/admin';
import { authorsOf } from '../ban-authors.js';
import { integer, limitOf, type CliCommand, type Options as Shared } from '../command.js';
import { DeniedLately } from '../denied-lately.js';
import { CliError, usageError } from '../errors.js';
import { many, printable, quoted, table } from '../format.js';
import { warn, write, writeJsonLine, type Io } from '../io.js';
import { showKey, showText } from '../keys.js';
import { givenLimits, readLimits } from '../limits.js';
import { warnOfLoss } from '../loss.js';
import { warnIfNothing } from '../nothing.js';
import { withAdmin } from '../open.js';
import { optional } from '../optional.js';
import { writeQueues } from '../slots.js';
import { columnsFor, untilFor, type Look } from './list-rows.js';

const KEYS_PER_STEP = 500;

interface Options extends Shared {
  readonly limited?: boolean;
  readonly banned?: boolean;
  readonly all?: boolean;
  readonly above?: number;
  readonly hypothetical?: boolean;
  readonly count: number;
}

/** The maximum number of keys per step. With more, the server would not serve other clients for milliseconds. */
const MAX_KEYS_PER_STEP = 10_000;

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
    .option(
      '--above <percent>',
      'only keys that have used more than this part of a limit, the most used first',
      integer('--above', 0, 100),
    )
    .option(
      '--hypothetical',
      'also keys that would be denied only by a tier that they do not have, judging by their use',
    )
    .limitOption(
      `the maximum number of facts other than bans, or 0 for all (default: ${DEFAULT_LIMIT}, with --json 0)`,
    )
    // Without effect, for scripts that were written when there was a shorter search.
    .addOption(new Option('--scan').hideHelp())
    .option(
      '--count <n>',
      'the number of keys that the server checks in one step',
      integer('--count', 1, MAX_KEYS_PER_STEP),
      KEYS_PER_STEP,
    )
    .serverOptions()
    .answers(
      'a line for each fact, whose kind is banned, limited, admitted, state or unreadable, or denied (in the last minute) or queue (slots and waiting requests)',
    )
    .example("list --redis redis://127.0.0.1:6379 --name api --policy '100/1m'")
    .action((options: Options) => list(options, io));
}

async function list(options: Options, io: Io): Promise<void> {
  const { name, count, tier } = options;
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
      ...{ name, tier, count, progress, signal: stop.signal },
      ...(given.length > 0 && { limits: Object.fromEntries(given) }),
      ...kindsOf(options),
    });
    warn(io, search.warnings);
    await warnOfLoss(admin, io);
    try {
      const plausible = new PlausibleFinds(search, options.hypothetical ?? false);
      const found =
        options.above === undefined
          ? { finds: plausible, order: byKind }
          : { finds: mostUsed(plausible, options.above), order: byUse };
      const lately = wantsDenied(options) ? await DeniedLately.read(admin, name, io) : undefined;
      const limited = await print({ admin, search, ...found, most, lately }, io, () => line(''));
      if (!io.json && plausible.omitted > 0) await write(io, omittedText(plausible.omitted));
      if (!io.json && search.wanted.limited && limited === 0) await explainNone(admin, name, io);
      await lately?.write(io);
      if (lately) await writeQueues(admin, name, io);
      if (search.checked === 0 && !stop.signal.aborted) await warnIfNothing(admin, io);
    } finally {
      line('');
      ignore?.();
    }
    if (stop.signal.aborted)
      throw new CliError('INTERRUPTED', `Stopped at ${percent(done)} of the keys: there may be more.`);
  });
}

const percent = (share: number): string => `${Math.floor(100 * share)} %`;

function kindsOf({
  limited = false,
  banned = false,
  all = false,
  above,
}: Options): Pick<KeysOptions, 'kinds'> {
  if (above !== undefined) {
    if (banned || all) throw usageError('--above: omit --banned and --all.');
    return { kinds: limited ? ['limited'] : ['limited', 'admitted'] };
  }
  if (all) return { kinds: ['banned', 'limited', 'admitted', 'state'] };
  if (!limited && !banned) return {};
  return { kinds: [...(banned ? (['banned'] as const) : []), ...(limited ? (['limited'] as const) : [])] };
}

const wantsDenied = ({ limited = false, banned = false, above }: Options): boolean =>
  above === undefined && (limited || !banned);

/** The facts of a search, without denials by tiers that the keys do not have, unless these are wanted. */
class PlausibleFinds implements AsyncIterable<KeyVerdictFind> {
  readonly #search: KeySearch;
  readonly #isHypothetical: boolean;
  /** The number of omitted facts so far. */
  omitted = 0;

  constructor(search: KeySearch, isHypothetical: boolean) {
    this.#search = search;
    this.#isHypothetical = isHypothetical;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<KeyVerdictFind> {
    for await (const find of this.#search)
      if (this.#isHypothetical || find.kind !== 'limited' || find.likely) yield find;
      else this.omitted++;
  }
}

const omittedText = (omitted: number): string =>
  `${many(omitted, 'key')} would be limited only in a tier that ${omitted === 1 ? 'it does' : 'they do'} not have, judging by the use: add --hypothetical.\n`;

type Order = (a: KeyVerdictFind, b: KeyVerdictFind) => number;

interface Printed {
  readonly admin: Admin;
  readonly search: KeySearch;
  readonly finds: AsyncIterable<KeyVerdictFind>;
  readonly order: Order;
  /** The maximum number of facts other than bans. */
  readonly most: number;
  readonly lately: DeniedLately | undefined;
}

/** Prints the facts: lines of JSON at once, or tables in the order of the scopes at the end. @returns the number of limited keys */
async function print(
  { admin, search, finds: found, order, most, lately }: Printed,
  io: Io,
  clear: () => unknown,
): Promise<number> {
  const finds: KeyVerdictFind[] = [];
  let others = 0;
  let more = false;
  for await (const find of found) {
    lately?.omit(find);
    if (find.kind !== 'banned' && others++ === most) {
      more = true;
      break;
    }
    if (io.json) await writeJsonLine(io, factJson(find));
    else finds.push(find);
  }
  const limited = finds.filter(({ kind }) => kind === 'limited').length;
  if (io.json) return limited;
  const bans = finds.filter((find) => find.kind === 'banned');
  const authors = await authorsOf(admin, bans, io);
  const notes = new Map<KeyVerdictFind, string>(bans.map((ban, i) => [ban, authors[i]!]));
  clear();
  for (const [name, ofScope] of [...byScope(finds)].sort(([a], [b]) => a.localeCompare(b, 'en')))
    await write(io, text(name, ofScope.sort(order), { io, isByUse: order === byUse, notes }));
  await write(io, summary(finds, search, more));
  return limited;
}

/** The used part of the limit that a key has used most, in percent. */
const usedOf = (find: KeyVerdictFind): number =>
  find.kind === 'limited' || find.kind === 'admitted'
    ? Math.max(0, ...find.policies.map(useIn).map(({ used, quota }) => (100 * used) / Math.max(1, quota)))
    : 0;

/** The keys that have used more than a part of a limit, in percent, the most used first. */
async function* mostUsed(
  search: AsyncIterable<KeyVerdictFind>,
  above: number,
): AsyncGenerator<KeyVerdictFind> {
  const finds: KeyVerdictFind[] = [];
  for await (const find of search) if (usedOf(find) > above) finds.push(find);
  yield* finds.sort(byUse);
}

/** Explains that requests are denied although no key is limited: windows are over within a moment, or a request costs more. */
async function explainNone(admin: Admin, name: string | undefined, io: Io): Promise<void> {
  const traffic = await optional(admin.traffic({ name, keys: 0 }), 'the counts of denials', io);
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

function byScope(finds: readonly KeyVerdictFind[]): Map<string, KeyVerdictFind[]> {
  const scopes = new Map(finds.map(({ name }) => [showText(name), [] as KeyVerdictFind[]]));
  for (const find of finds) scopes.get(showText(find.name))!.push(find);
  return scopes;
}

/** @param look with `isByUse`, the keys have their use of each policy */
function text(name: string, finds: readonly KeyVerdictFind[], look: Look): string {
  const { io, notes } = look;
  const rows = withoutRepetitions(finds);
  const noteOf = (find: KeyVerdictFind) => notes.get(find) ?? '-';
  const isNoted = finds.some((find) => notes.has(find));
  const columns = { ...columnsFor(look), ...(isNoted && { ...untilFor(look), 'by: reason': noteOf }) };
  return `${io.colors.bold(name)}\n${table(io, columns, rows)}\n`;
}

/** The facts without limits that end before the ban of the same key. */
function withoutRepetitions(finds: readonly KeyVerdictFind[]): KeyVerdictFind[] {
  const bans = new Map(
    finds.flatMap((find) => (find.kind === 'banned' ? [[identityOf(find), find.bannedForMs] as const] : [])),
  );
  return finds.filter(
    (find) => find.kind !== 'limited' || (find.retryAfterMs ?? Infinity) > (bans.get(identityOf(find)) ?? 0),
  );
}

const KINDS: readonly KeyVerdictFind['kind'][] = ['banned', 'limited', 'admitted', 'state', 'unreadable'];

/** Numbers in keys are compared as numbers, so that the addresses of a network are in their order. */
const { compare: compareText } = new Intl.Collator('en', { numeric: true });

const byKind: Order = (a, b) =>
  KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || compareText(showKey(a), showKey(b));
/** Keys that may have another tier come last. */
const byUse: Order = (a, b) => Number(isOpen(a)) - Number(isOpen(b)) || usedOf(b) - usedOf(a);

const isOpen = (find: KeyVerdictFind): boolean =>
  (find.kind === 'limited' || find.kind === 'admitted') && !find.certain;

function summary(
  finds: readonly KeyVerdictFind[],
  { wanted, checked, unjudged }: KeySearch,
  more: boolean,
): string {
  const count = (kind: KeyVerdictFind['kind']): number => finds.filter((find) => find.kind === kind).length;
  const unsure = finds.filter((find) => find.kind === 'limited' && !find.certain).length;
  const parts = [
    ...(wanted.banned ? [`${count('banned')} banned`] : []),
    ...(wanted.limited ? [`${count('limited') - unsure} limited`] : []),
    ...(unsure > 0 ? [`${unsure} limited only in some tiers`] : []),
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
