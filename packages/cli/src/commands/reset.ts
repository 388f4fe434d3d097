import { DEFAULT_DIMENSION, type Admin, type ResetResult } from 'headgate/admin';
import { keyOptionsOf, namesOf, noteOf, type CliCommand, type Options as Shared } from '../command.js';
import { duration, printable, quoted } from '../format.js';
import { writeAnswer, type Io } from '../io.js';
import { show, subjectJson } from '../keys.js';
import { givenLimits, readOneLimits } from '../limits.js';
import { withAdmin } from '../open.js';
import { writeResults } from './ban.js';

interface Options extends Omit<Shared, 'name'> {
  readonly name?: readonly string[];
  readonly allLimiters?: boolean;
  readonly scan?: boolean;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('reset')
    .summary('forget the charges of a key')
    .description(
      'Forgets the charges of a key in one limiter or several. A ban stays. The policies are those that a limiter has published. ' +
        'Without published policies, the server is searched for the state of this key.',
    )
    .argument('<key>', 'the key: an address, a network, or any other key')
    .option('--scan', 'also search the server for the state of policies that the limiter no longer has')
    .namesOption('all limiters with a record of the key')
    .keyOptions()
    .limitsOptions()
    .noteOptions()
    .serverOptions()
    .example('reset user:42 --name api --redis redis://127.0.0.1:6379')
    .action((given: string, options: Options) => reset(given, options, io));
}

async function reset(given: string, options: Options, io: Io): Promise<void> {
  const names = namesOf(options);
  const { tier, scan = false, policy, policies } = options;
  const key = keyOptionsOf(options, given);
  const note = noteOf(options, io);
  const limitsOf = (name: string) =>
    givenLimits(
      readOneLimits({ name, ...(policy && { policy }), ...(policies !== undefined && { policies }) }, io),
    );
  // Limits that cannot be read are refused before the connection.
  if (names !== 'all') names.forEach(limitsOf);
  await withAdmin(options, io, async (admin) => {
    const results: ResetResult[] = [];
    const wanted = names === 'all' ? await recordedIn(admin, given, key) : names;
    for (const name of wanted)
      results.push(await admin.reset(given, { name, scan, tier, ...key, ...limitsOf(name), ...note }));
    if (results.length === 0)
      await writeAnswer(io, [], () => `No limiter has a record of ${printable(given)}.\n`);
    else await writeResults(io, results, { json, text });
  });
}

/** The limiters with a record of a key. */
async function recordedIn(
  admin: Admin,
  given: string,
  key: ReturnType<typeof keyOptionsOf>,
): Promise<readonly string[]> {
  const views = await admin.key(given, key);
  return [...new Set(views.flatMap(({ name, stored, within }) => (stored && !within ? [name] : [])))];
}

const json = (result: ResetResult): object => {
  const { name, policies, bannedForMs } = result;
  return { name, ...subjectJson(result), policies, bannedForMs };
};

const text = (result: ResetResult): string => `${chargesText(result)}${banText(result)}\n`;

/** Describes the charges that were forgotten. */
export function chargesText(result: Omit<ResetResult, 'banned' | 'bannedForMs'>): string {
  const { policies, name } = result;
  const [key, where] = [show(result), printable(name)];
  if (policies.length === 0) return `${key} had no charges in ${where}.`;
  return `The charges of ${key} in ${where} are forgotten: ${policies.map((policy) => printable(policy)).join(', ')}.`;
}

/** Explains that a reset does not end bans, because some users expect that. */
function banText({ name, keys, given, dimension, banned, bannedForMs }: ResetResult): string {
  if (bannedForMs === 0) return '';
  const option = dimension === DEFAULT_DIMENSION ? '' : ` --dimension ${dimension}`;
  const ban =
    keys.length === 1 ? 'The key is still banned, for' : `${banned} of them are still banned, for up to`;
  return ` ${ban} ${duration(bannedForMs)}. To end the ban: headgate unban ${quoted(printable(given))}${option} --name ${quoted(printable(name))}.`;
}
