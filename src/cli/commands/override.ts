import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { Limiter } from '../../limiter/limiter.js';
import type { Override, OverrideChange, OverrideNote } from '../../limiter/overrides/override.js';
import { dimensionOf, nameOf, noteOf, type CliCommand, type Options as Shared } from '../command.js';
import { CliError, orUsage, usageError } from '../errors.js';
import { many, printable } from '../format.js';
import { readText, write, writeJson, type Io } from '../io.js';
import { dimensionJson, keyOf, prefixOf, typedKey } from '../keys.js';
import { withState } from '../open.js';
import { parsePolicies } from '../policy-text.js';
import type { Published } from '../redis/published.js';
import { checkKeys, subjectIn, unknownScope } from '../scope.js';
import type { State } from '../state.js';
import { durationOf } from './ban.js';

interface Options extends Shared {
  readonly for?: string;
  readonly until?: string;
  readonly all?: boolean;
  readonly remove?: boolean;
  readonly file?: string;
}

/** A requested change. `change` is undefined if the override is removed, and `key` if the override is for all keys. */
interface Wanted {
  readonly key: string | undefined;
  readonly dimension: string;
  readonly change: OverrideChange | undefined;
  readonly note: OverrideNote;
  /** The file and the line number, if the change comes from a file. */
  readonly at?: string;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('override')
    .summary('change the limits of a key, or of all, while everything runs')
    .description(
      'Gives a key limits of its own, at once and in every process; what it has spent stays spent. The limiter must have the option ' +
        '`overrides: true`. `headgate overrides` lists what is in force.',
    )
    .argument('[key]', 'whose limits: an address, or any other key; none with --all or --file')
    .argument(
      '[policy...]',
      "the limits: '1000/1m'; by name if the limiter has several policies: minute=1000/1m day=false (false leaves one out)",
    )
    .option('--for <duration>', "for how long: '2h', '30d' (default: until it is removed)")
    .option('--until <time>', 'until when instead: 2030-01-31T12:00Z')
    .option('--tier <name>', "the policies of another of the limiter's `tiers`, in place of a policy")
    .option('--all', 'all keys of the limiter, in place of a key')
    .option('--remove', 'end the override')
    .option('--file <file>', 'many at once: a line for each key, with the key and its policies, or as JSON')
    .nameOption()
    .keyOptions()
    .noteOptions()
    .serverOptions()
    .example(
      "override customer:42 1000/1m --name api --for 1d --reason 'launch' --redis redis://127.0.0.1:6379",
    )
    .action((key: string | undefined, policy: string[], options: Options) =>
      override(key === undefined ? policy : [key, ...policy], options, io),
    );
}

async function override(words: readonly string[], options: Options, io: Io): Promise<void> {
  const name = nameOf(options);
  const { file } = options;
  const wanted = file === undefined ? [wantedOf(words, options, io)] : wantedIn(file, words, options, io);
  await withState(options, io, async (state) => {
    const { published } = state;
    const limiter = limiterOf(state, name);
    try {
      const changes = wanted.map((each) => inScope(each, published, name, options, io));
      // Changes are stored only if all of them are valid.
      for (const each of changes) check(limiter, each, state.redis !== undefined);
      const results: Result[] = [];
      for (const each of changes) results.push(await make(limiter, each));
      await tell(results, name, io);
    } finally {
      await limiter.close();
    }
  });
}

/** An override for programs. Absent values are null. */
export function overrideJson({ change, since, until, by, reason }: Override) {
  const ends = until?.toISOString() ?? null;
  return { change, since: since.toISOString(), until: ends, by: by ?? null, reason: reason ?? null };
}

/** The change on the command line. @throws CliError `USAGE` */
function wantedOf(words: readonly string[], options: Options, io: Io): Wanted {
  const given = options.all ? undefined : words[0];
  const policy = options.all ? words : words.slice(1);
  if (given === undefined && !options.all) {
    throw usageError(
      'whose limits? Write the key, then its policy: headgate override customer:42 1000/1m. Or --all for all keys.',
    );
  }
  return {
    key: given,
    dimension: options.dimension ?? DEFAULT_DIMENSION,
    change: changeOf(policy, options),
    note: timed(options, io),
  };
}

/** The lines of a file. @throws CliError `USAGE` */
function wantedIn(file: string, words: readonly string[], options: Options, io: Io): Wanted[] {
  if (words.length > 0 || options.all) throw usageError('--file: the keys stand in the file, so write none.');
  return readText(`--file ${file}`, file, io)
    .split(/\r?\n/)
    .flatMap((line, i): Wanted[] => {
      if (line.trim() === '' || line.startsWith('#')) return [];
      const at = `${file}, line ${i + 1}`;
      const read = () =>
        line.trimStart().startsWith('{')
          ? fromJson(line, options, io)
          : wantedOf(line.trim().split(/\s+/), options, io);
      return [{ ...orUsage(read, (message) => `${at}: ${message}`), at }];
    });
}

/** A line of `overrides --json`. @throws CliError `USAGE` */
function fromJson(line: string, options: Options, io: Io): Wanted {
  const json = JSON.parse(line) as Readonly<Record<string, unknown>>;
  const { name, nameHash, key, all, dimension, within, change, until, by, reason } = json;
  // Without this check, the lines of all limiters would become overrides of one limiter.
  if ((name ?? nameHash ?? options.name) !== options.name)
    throw usageError(
      `it is of the limiter ${JSON.stringify(name ?? nameHash)}. Leave it out, or write --name with that.`,
    );
  if (typeof key !== 'string' && (all !== true || key !== undefined))
    throw usageError('it has no key. Write {"key":"customer:42","change":"1000/1m"}.');
  if (within !== undefined)
    throw usageError('it is of a limiter with `slotBy`, whose overrides are made by the program alone.');
  const note = {
    ...timed(options, io),
    // The author of an override is not the author of its removal.
    ...(!options.remove && typeof by === 'string' && { by }),
    ...(!options.remove && typeof reason === 'string' && { reason }),
  };
  const isTimed = note.for !== undefined || note.until !== undefined;
  return {
    key,
    dimension:
      dimension === undefined
        ? (options.dimension ?? DEFAULT_DIMENSION)
        : dimensionOf('--dimension', dimension),
    change: options.remove ? undefined : (change as OverrideChange | undefined),
    note: isTimed || typeof until !== 'string' ? note : { ...note, until },
  };
}

/** @throws CliError `USAGE` */
function changeOf(words: readonly string[], { tier, remove }: Options): OverrideChange | undefined {
  if (remove) {
    if (words.length > 0 || tier !== undefined)
      throw usageError('--remove: an override that ends has no policy. Write the key alone.');
    return undefined;
  }
  if (tier !== undefined) {
    if (words.length > 0) throw usageError('--tier: write it, or a policy.');
    return { tier };
  }
  if (words.length === 0)
    throw usageError('which limits? Write a policy: 1000/1m. Or --tier, or --remove to end the override.');
  if (words.length === 1 && words[0]!.startsWith('{')) {
    return orUsage(
      () => JSON.parse(words[0]!) as OverrideChange,
      (message) => `the JSON cannot be read: ${message}.`,
    );
  }
  if (!/^[^=\s]+=./.test(words[0]!)) return words.join(' ');
  const parts = words.join(' ').split(/\s+(?=[^=\s]+=.)/);
  const byName = parts.map((part) => /^(.+?)=(.*)$/s.exec(part)!.slice(1) as [name: string, policy: string]);
  const names = byName.map(([name]) => name);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) throw usageError(`${twice}: it is there twice.`);
  return Object.fromEntries(
    byName.map(([name, policy]) => [name, policy === 'false' || policy === 'off' ? false : policy]),
  );
}

/** The duration, the author and the reason. @throws CliError `USAGE` @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function timed(options: Options, io: Io): OverrideNote {
  const { by, reason } = noteOf(options, io);
  return {
    ...(options.for !== undefined && { for: durationOf(options.for) }),
    ...(options.until !== undefined && { until: options.until }),
    ...(by !== null && { by }),
    ...(reason !== null && { reason }),
  };
}

/** @throws CliError `USAGE` if the limiter would refuse the change */
function check(limiter: Limiter, { change, note, at, ...whose }: Wanted, isKnown: boolean): void {
  if (change === undefined) return;
  if (!isKnown) checkTexts(change);
  orUsage(
    () => limiter.internals.operations.checkOverride(keyFor(whose), change, note),
    (message) => (at === undefined ? message : `${at}: ${message}`),
  );
}

/** Checks each policy separately, if the limiter's policies are unknown. */
function checkTexts(change: OverrideChange): void {
  const texts: unknown[] =
    typeof change === 'string' ? [change] : 'tier' in change ? [] : Object.values(change);
  for (const text of texts) if (typeof text === 'string') parsePolicies([text], 'override');
}

/** A published limiter of the scope. @throws CliError `UNKNOWN_SCOPE`, `NO_OVERRIDES` */
function limiterOf(state: State, name: string): Limiter {
  const { published, redis } = state;
  // A file does not contain the limiter's policies. The limiter reports a change that does not fit them.
  if (!redis) return state.liveLimiter(name, undefined);
  const [configuration] = published.scopes.get(name) ?? [];
  if (!configuration) {
    const doubt = unknownScope(published, name)?.message ?? 'the limiters are unknown.';
    throw new CliError('UNKNOWN_SCOPE', `${doubt} The policies of a limiter must be known to change them.`);
  }
  if (!published.scopes.get(name)!.some(({ overrides }) => overrides)) {
    throw new CliError(
      'NO_OVERRIDES',
      `the limiter ${JSON.stringify(name)} has no option \`overrides\`, so it never reads one. Give it overrides: true.`,
    );
  }
  const limits = published.limitsOf(name);
  if (!limits && !configuration.dynamic)
    throw new CliError(
      'UNKNOWN_SCOPE',
      `the policies of ${JSON.stringify(name)} cannot be read: a newer version published them.`,
    );
  return state.liveLimiter(name, limits);
}

/** The change with the limiter's key for the typed key. */
function inScope(wanted: Wanted, published: Published, name: string, options: Options, io: Io): Wanted {
  checkKeys(published, name, wanted.dimension);
  if (wanted.key === undefined) return wanted;
  const typed = typedKey(wanted.key, { ...options, ...dimensionJson(wanted.dimension) });
  return { ...wanted, key: keyOf(subjectIn(published, name, typed, io)) };
}

const keyFor = ({
  key,
  dimension,
}: Pick<Wanted, 'key' | 'dimension'>): string | Record<string, string> | undefined =>
  key === undefined || dimension === DEFAULT_DIMENSION ? key : { [dimension]: key };

interface Result extends Wanted {
  readonly until: Date | undefined;
  readonly was: boolean;
}

async function make(limiter: Limiter, wanted: Wanted): Promise<Result> {
  const key = keyFor(wanted);
  const { change, note } = wanted;
  if (change === undefined) {
    const { for: _for, until: _until, ...who } = note;
    return { ...wanted, until: undefined, was: await limiter.removeOverride(key, who) };
  }
  const was = (await limiter.overrideOf(key)) !== undefined;
  await (key === undefined ? limiter.overrideAll(change, note) : limiter.override(key, change, note));
  return { ...wanted, until: (await limiter.overrideOf(key))?.until, was };
}

async function tell(results: readonly Result[], name: string, io: Io): Promise<void> {
  if (io.json) {
    const all = results.map(({ key, dimension, change, until, was, note: { by, reason } }) => {
      const whose = key === undefined ? { all: true } : { key, ...dimensionJson(dimension) };
      const done =
        change === undefined
          ? { removed: was }
          : { change, until: until?.toISOString() ?? null, by, reason, replaced: was };
      return { name, ...whose, ...done };
    });
    await writeJson(io, all.length === 1 ? all[0]! : { name, overrides: all });
    return;
  }
  const [only] = results;
  if (results.length !== 1 || !only) {
    await write(io, `The limits of ${many(results.length, 'key')} are changed in ${printable(name)}.\n`);
    return;
  }
  const { key, dimension, change, until, was } = only;
  const [who, has] = key === undefined ? ['All keys', 'have'] : [prefixOf(dimension) + printable(key), 'has'];
  const end = until === undefined ? 'until it is removed' : `until ${until.toISOString()}`;
  const where = `in ${printable(name)}`;
  const removed = was ? `${has} the configured limits again` : 'had no override';
  await write(
    io,
    change === undefined
      ? `${who} ${removed} ${where}.\n`
      : `${who} ${has} ${changeText(change)} ${where}, ${end}${was ? ', in place of an earlier override' : ''}.\n`,
  );
}

/** A change as text for people. */
export function changeText(change: unknown): string {
  if (typeof change === 'string') return printable(change);
  const { tier } = change as { tier?: unknown };
  if (typeof tier === 'string') return `the tier ${printable(tier)}`;
  return printable(JSON.stringify(change), 100);
}
