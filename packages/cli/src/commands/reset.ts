import {
  type Admin,
  DEFAULT_DIMENSION,
  type KeyOptions,
  type KeyView,
  type PolicyVerdict,
  type ResetResult,
  type Subject,
  useIn,
} from 'headgate/admin';
import { keyOptionsOf, namesOf, noteOf, type CliCommand, type NamesOptions } from '../command.js';
import { EXIT, reportOf } from '../errors.js';
import { count, duration, printable, quoted } from '../format.js';
import { warn, writeAnswer, type Io } from '../io.js';
import { show, subjectJson } from '../keys.js';
import { givenLimits, readOneLimits } from '../limits.js';
import { inEach, isNetwork, limitersBy } from '../networks.js';
import { withAdmin } from '../open.js';
import { writeResults } from './ban.js';

interface Options extends NamesOptions {
  readonly scan?: boolean;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('reset')
    .summary('forget the charges of a key')
    .description(
      'Forgets the charges of a key in one limiter or several. A ban stays. The policies are those that a limiter has published. ' +
        'Without published policies, the server is searched for the state of this key. A network stands for all keys in it.',
    )
    .argument('<key>', 'the key: an address, a network, or any other key')
    .option('--scan', 'also search the server for the state of policies that the limiter no longer has')
    .namesOption('all limiters with a record of the key, or of a key of the network, in its dimension')
    .keyOptions()
    .limitsOptions()
    .noteOptions()
    .serverOptions()
    .answers(
      'a document for one limiter, or an array for none or several: name, key (or network and keys), policies, charged (the number of keys), bannedForMs',
    )
    .example('reset user:42 --name api --redis redis://127.0.0.1:6379')
    .action((given: string, options: Options) => reset(given, options, io));
}

async function reset(given: string, options: Options, io: Io): Promise<void> {
  const names = namesOf(options);
  const { tier, scan = false, policy, policies } = options;
  const key = keyOptionsOf(options, given);
  const note = noteOf(options, io);
  const limitsOf = (name: string) => givenLimits(readOneLimits({ name, policy, policies }, io));
  // Limits that cannot be read are refused before the connection.
  if (names !== 'all') names.forEach(limitsOf);
  await withAdmin(options, io, async (admin) => {
    const resetIn = (name: string): Promise<ResetResult> =>
      admin.reset(given, { name, scan, tier, ...key, ...limitsOf(name), ...note });
    if (names === 'all' && isNetwork(given, key)) return resetNetwork(admin, given, key, { resetIn, io });
    const wanted = names === 'all' ? await recordedIn(admin, given, key) : names;
    const results = await resetKey(wanted, { resetIn, io });
    const charged = await chargedIn(admin, given, names, key);
    // Other tiers of the key may have charges if only one is reset.
    const others = charged.filter(({ dimension }) => dimension !== dimensionOf(key));
    if (results.length === 0)
      await writeAnswer(io, [], () => `No limiter has a record of ${printable(given)}.\n`);
    else await writeResults(io, results, { json, text });
    // The command line names the key of another dimension, so a script must not take it as done.
    const isDone = others.length === 0 || results.some(({ policies }) => policies.length > 0);
    if (!isDone) io.exitCode = EXIT.unknownScope;
    warn(io, others.map(leftWarning));
  });
}

interface Resetting {
  readonly resetIn: (name: string) => Promise<ResetResult>;
  readonly io: Io;
}

/** Resets one key, or the keys of a network, in some limiters. An error is thrown after the results so far are written. */
async function resetKey(names: readonly string[], { resetIn, io }: Resetting): Promise<ResetResult[]> {
  const results: ResetResult[] = [];
  try {
    for (const name of names) results.push(await resetIn(name));
  } catch (error) {
    if (results.length > 0) await writeBefore(error, results, io);
    throw error;
  }
  return results;
}

/** Writes the resets that were made before an error. */
async function writeBefore(error: unknown, results: readonly ResetResult[], io: Io): Promise<void> {
  io.exitCode = reportOf(error).exitCode;
  await writeResults(io, results, { json, text });
}

/** Resets every key of a network, in all limiters that count by its dimension. */
async function resetNetwork(admin: Admin, given: string, key: KeyOptions, { resetIn, io }: Resetting) {
  const { names, others } = await limitersBy(admin, dimensionOf(key));
  const { results, refusals, failure } = await inEach(names, resetIn);
  const found = results.filter(({ policies, banned }) => policies.length > 0 || banned > 0);
  if (failure) {
    if (found.length > 0) await writeBefore(failure.error, found, io);
    warn(io, refusals);
    throw failure.error;
  }
  // A limiter that refused still has its charges, so a script must not take the reset as done.
  if (refusals.length > 0) io.exitCode = EXIT.failed;
  if (found.length === 0)
    await writeAnswer(
      io,
      [],
      () => `No limiter has a record of a key of ${printable(given)} by ${dimensionOf(key)}.\n`,
    );
  else await writeResults(io, found, { json, text });
  const dimensions = others.map((each) => `--dimension ${printable(each)}`).join(' or ');
  const left = {
    code: 'OTHER_DIMENSIONS',
    message: `charges by other dimensions stay. To reset them, add ${dimensions}.`,
  };
  warn(io, [...refusals, ...(others.length > 0 ? [left] : [])]);
}

const dimensionOf = ({ dimension = DEFAULT_DIMENSION }: KeyOptions): string => dimension;

/** The limiters with a record of a key in its dimension. */
async function recordedIn(admin: Admin, given: string, key: KeyOptions): Promise<readonly string[]> {
  const views = await admin.key(given, key);
  const own = views.filter(({ dimension, within }) => within === undefined && dimension === dimensionOf(key));
  return [...new Set(own.flatMap(({ name, stored }) => (stored ? [name] : [])))];
}

/** The places in which a text is charged, as a key of any dimension or as a tenant, each once. */
async function chargedIn(
  admin: Admin,
  given: string,
  names: readonly string[] | 'all',
  { raw, ipv6Subnet }: KeyOptions,
): Promise<readonly KeyView[]> {
  // A network has no single answer.
  const views = await admin.key(given, { raw, ipv6Subnet }).catch(() => []);
  const charged = views.filter(
    ({ name, policies }) =>
      (names === 'all' || names.includes(name)) && policies.some((policy) => useIn(policy).used > 0),
  );
  const placeOf = ({ name, dimension, within }: KeyView): string => JSON.stringify([name, dimension, within]);
  return [...new Map(charged.map((view) => [placeOf(view), view])).values()];
}

/** Names charges that stay because they are of another dimension, and the command that resets them. */
function leftWarning({ name, given, dimension, within, policies }: KeyView) {
  const uses = policies.filter((policy) => useIn(policy).used > 0);
  const used = uses.map((policy) => `${printable(policy.name)}: ${usedText(policy)}`).join(', ');
  const [by, key] = within === undefined ? [dimension, given] : splitOnce(within);
  const option = by === DEFAULT_DIMENSION ? '' : ` --dimension ${by}`;
  const command = `headgate reset ${quoted(printable(key))}${option} --name ${quoted(printable(name))}`;
  const place = within === undefined ? '' : ` within ${printable(within)}`;
  const how =
    within === undefined
      ? `To reset it: ${command}`
      : `A tenant has no charges of its own. To reset the whole limit: ${command}`;
  return {
    code: 'STILL_CHARGED',
    message: `${printable(given)} is still charged as ${dimension}${place} in ${printable(name)} (${used}). ${how}.`,
  };
}

const usedText = (policy: PolicyVerdict): string => {
  const { used, quota } = useIn(policy);
  return `${used} of ${quota}`;
};

/** The dimension and the key of a text such as `provider openai`. */
function splitOnce(within: string): [dimension: string, key: string] {
  const space = within.indexOf(' ');
  return [within.slice(0, space), within.slice(space + 1)];
}

const json = (result: ResetResult): object => {
  const { name, policies, charged, bannedForMs } = result;
  return { name, ...subjectJson(result), policies, charged, bannedForMs };
};

const text = (result: ResetResult): string => `${chargesText(result)}${banText(result)}\n`;

export function chargesText(
  result: Subject & Pick<ResetResult, 'name' | 'policies'> & Partial<Pick<ResetResult, 'charged'>>,
): string {
  const { policies, name, charged, keys } = result;
  const [key, where] = [show(result), printable(name)];
  if (policies.length === 0) return `${key} had no charges in ${where}.`;
  const of = keys.length === 1 || charged === undefined ? key : `${count(charged)} of ${key}`;
  return `The charges of ${of} in ${where} are forgotten: ${policies.map((policy) => printable(policy)).join(', ')}.`;
}

/** Explains that a reset does not end bans, because some users expect that. */
function banText({ name, keys, given, dimension, banned, bannedForMs }: ResetResult): string {
  if (bannedForMs === 0) return '';
  const option = dimension === DEFAULT_DIMENSION ? '' : ` --dimension ${dimension}`;
  const ban =
    keys.length === 1 ? 'The key is still banned, for' : `${banned} of them are still banned, for up to`;
  return ` ${ban} ${duration(bannedForMs)}. To end the ban: headgate unban ${quoted(printable(given))}${option} --name ${quoted(printable(name))}.`;
}
