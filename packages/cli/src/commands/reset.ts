import { checkKey, DEFAULT_DIMENSION, type ResetResult } from 'headgate/admin';
import { keyOptionsOf, nameOf, noteOf, type CliCommand, type Options as Shared } from '../command.js';
import { duration, printable, quoted } from '../format.js';
import { warn, write, writeJson, type Io } from '../io.js';
import { show, subjectJson } from '../keys.js';
import { givenLimits, readLimits } from '../limits.js';
import { withAdmin } from '../open.js';

interface Options extends Shared {
  readonly scan?: boolean;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('reset')
    .summary('forget the charges of a key')
    .description(
      'Forgets the charges of a key in the scope of one limiter. A ban stays. The policies are those that the limiter has published. ' +
        'Without published policies, the server is searched for the state of this key.',
    )
    .argument('<key>', 'the key: an address, a network, or any other key')
    .option('--scan', 'also search the server for the state of policies that the limiter no longer has')
    .nameOption()
    .keyOptions()
    .limitsOptions()
    .noteOptions()
    .serverOptions()
    .example('reset user:42 --name api --redis redis://127.0.0.1:6379')
    .action((given: string, options: Options) => reset(given, options, io));
}

async function reset(given: string, options: Options, io: Io): Promise<void> {
  const name = nameOf(options);
  const { tier, scan = false } = options;
  const key = keyOptionsOf(options);
  checkKey(given, key);
  const note = noteOf(options, io);
  const limits = givenLimits(readLimits(options, io).get(name));
  await withAdmin(options, io, async (admin) => {
    const result = await admin.reset(given, { name, scan, tier, ...key, ...limits, ...note });
    const { policies, bannedForMs } = result;
    warn(io, result.warnings);
    await (io.json
      ? writeJson(io, { name, ...subjectJson(result), policies, bannedForMs })
      : write(io, `${text(result)}${banText(result)}\n`));
  });
}

function text(result: ResetResult): string {
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
