import { type KeyView, lacksSlots, overrideJson, type PolicyVerdict } from 'headgate/admin';
import { authorsIn } from '../ban-authors.js';
import { integer, keyOptionsOf, nameOf, type CliCommand, type Options as Shared } from '../command.js';
import { EXIT, usageError } from '../errors.js';
import { duration, noteText, printable, table, untilSlot, type Table } from '../format.js';
import { warn, writeAnswer, type Io } from '../io.js';
import { show, subjectJson } from '../keys.js';
import { givenLimits, readLimits } from '../limits.js';
import { withAdmin } from '../open.js';
import { instant } from '../times.js';
import { changeText } from './override-text.js';

interface Options extends Shared {
  readonly cost: number;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('peek')
    .summary('the answer to a request of a key')
    .description(
      'Shows the answer to a request of a key, without charging it. Exits with 3 if the request would be denied.',
    )
    .argument('<key>', 'the key: an address, or any other text')
    .nameOption()
    .keyOptions()
    .limitsOptions()
    .option('--cost <units>', 'the units that the request would cost', integer('--cost', 0, 1e12), 1)
    .serverOptions()
    .answers('a document: name, key, allowed, reason, retryAfterMs, policies, bannedForMs, override, ...')
    .example("peek user:42 --name api --policy '100/1m' --redis redis://127.0.0.1:6379")
    .action((given: string, options: Options) => peek(given, options, io));
}

async function peek(given: string, options: Options, io: Io): Promise<void> {
  const name = nameOf(options);
  const { tier, cost } = options;
  const key = keyOptionsOf(options, given);
  const limits = givenLimits(readLimits(options, io).get(name));
  await withAdmin(options, io, async (admin) => {
    const views = await admin.key(given, { name, tier, cost, ...key, ...limits });
    const view = tier === undefined ? answerOf(views, name) : views[0]!;
    await print(view, (await authorsIn(admin, [view], io)).get(view) ?? '', io);
  });
}

/**
 * The answer to a request whose tier is not given: the policies for requests without a tier, a ban, which is in force in every tier, or the
 * only tier with charges of the key.
 *
 * @throws CliError `USAGE` if the answer depends on the tier
 */
function answerOf(views: readonly KeyView[], name: string): KeyView {
  const [first] = views;
  // The policies for requests without a tier come first, if there are any.
  if (first!.tier === undefined || first!.bannedForMs > 0) return first!;
  const charged = views.filter(({ likely, stored }) => likely && stored);
  if (charged.length === 1) return charged[0]!;
  const tiers = views.map((each) => JSON.stringify(each.tier)).join(', ');
  throw usageError(
    `--tier: missing. The limiter ${JSON.stringify(name)} has the tiers ${tiers}. \`headgate key\` shows the answers of all tiers.`,
  );
}

async function print(view: KeyView, author: string, io: Io): Promise<void> {
  const { name, key, given: typed, dimension, known, warnings, override, likely: _, ...answer } = view;
  warn(io, warnings);
  if (!known && (!view.stored || view.allowed === null)) io.exitCode = EXIT.unknownScope;
  else if (view.allowed === false) io.exitCode = EXIT.denied;
  const subject = { given: typed, keys: [key], dimension };
  const shown = override && { all: override.all, ...overrideJson(override) };
  const inTier = view.tier === undefined || view.bannedForMs > 0 ? '' : ` (tier ${printable(view.tier)})`;
  const heading = `${io.colors.bold(show(subject))} in ${io.colors.bold(printable(name))}${inTier}`;
  const document = { name, ...subjectJson(subject), ...answer, override: shown };
  await writeAnswer(io, document, () => text(heading, view, author, io));
}

function overrideText({ all, change, until, by, reason }: NonNullable<KeyView['override']>, io: Io): string {
  const owner = all ? 'All keys have other limits' : 'The key has limits of its own';
  const end = until === undefined ? 'without an end' : `until ${instant(io, until)}`;
  const note = noteText(by ?? null, reason ?? null);
  return `${owner}, ${end}: ${changeText(change)}${note === '' ? '' : ` (${note})`}`;
}

function text(heading: string, outlook: KeyView, author: string, io: Io): string {
  const { cost, allowed, reason, bannedForMs, stored, policies } = outlook;
  const { green, red, yellow } = io.colors;
  const unknown = yellow(stored ? 'unknown limits' : 'nothing stored');
  const answer = allowed === null ? unknown : allowed ? green('allowed') : red(`denied (${reason})`);
  const lines = [`${heading}, a request of cost ${cost}: ${answer}`];
  if (bannedForMs > 0) lines.push(`banned for ${duration(bannedForMs)}${author}`);
  if (outlook.override) lines.push(overrideText(outlook.override, io));
  if (policies.length === 0 && allowed) lines.push('The plan is unlimited: no policy applies.');
  else if (!stored) {
    lines.push(
      'Nothing is stored: the key was not charged recently, or the limiter has another name, other keys or other policies. Or a limiter behind ' +
        'this one denied the requests, and their charge was given back: `headgate key` asks all limiters.',
    );
  }
  if (allowed === null)
    lines.push("The limits are unknown: pass --policy '100/1m', or --policies limits.json.");
  if (policies.length === 0) return `${lines.join('\n')}\n`;
  return `${lines.join('\n')}\n\n${table(io, VERDICTS, policies)}`;
}

const VERDICTS: Table<PolicyVerdict> = {
  policy: ({ name, shadow }) => (shadow ? `${name} (shadow)` : name),
  algorithm: ({ algorithm }) => algorithm,
  limit: ({ limit, windowMs }) => `${limit} per ${duration(windowMs)}`,
  remaining: ({ remaining }) => String(remaining),
  'retry after': (verdict) => {
    const { allowed, retryAfterMs: ms } = verdict;
    if (lacksSlots([verdict])) return untilSlot(ms);
    return allowed ? '-' : ms === null ? 'never' : duration(ms);
  },
  'reset after': ({ resetAfterMs }) => (resetAfterMs === 0 ? '-' : duration(resetAfterMs)),
};
