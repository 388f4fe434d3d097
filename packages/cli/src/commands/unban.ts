import type { UnbanResult } from 'headgate/admin';
import { count, duration, many, printable } from '../format.js';
import { keyOptionsOf, namesOf, noteOf, type CliCommand, type NamesOptions } from '../command.js';
import { EXIT, usageError } from '../errors.js';
import type { Io } from '../io.js';
import { show, subjectJson } from '../keys.js';
import { givenLimits, readOneLimits } from '../limits.js';
import { withAdmin } from '../open.js';
import { writeResults } from './ban.js';
import { chargesText } from './reset.js';

interface Options extends NamesOptions {
  readonly fresh?: boolean;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('unban')
    .summary('end the ban of a key')
    .description(
      "Ends a key's ban, if there is one, and forgets the denials and bans before it. The key's charges stay, so a spent quota still denies: " +
        'with --fresh, they are forgotten, too.',
    )
    .argument('<key>', 'the banned key: an address, a network, or any other key')
    .option('--fresh', 'also forget the charges of the key, as `headgate reset` does')
    .policyOptions()
    .namesOption()
    .keyOptions()
    .noteOptions()
    .serverOptions()
    .answers(
      'a document, or an array for several limiters: name, key (or network and keys), wasBanned (wereBanned), bannedForMs, denials, lastBanMs, with --fresh policies',
    )
    .example('unban 203.0.113.7 --name api --redis redis://127.0.0.1:6379')
    .action((given: string, options: Options) => unban(given, options, io));
}

async function unban(given: string, options: Options, io: Io): Promise<void> {
  const names = namesOf(options);
  const key = keyOptionsOf(options, given);
  const note = noteOf(options, io);
  const { fresh = false, policy, policies } = options;
  if (!fresh && (policy ?? policies) !== undefined)
    throw usageError('--policy, --policies: only --fresh reads them. Pass --fresh, too, or omit them.');
  const name = names !== 'all' && names.length === 1 ? names[0] : undefined;
  const limits = givenLimits(readOneLimits({ name, policy, policies }, io));
  await withAdmin(options, io, async (admin) => {
    const results = await admin.unbanIn(names, given, { ...key, ...note, ...limits, fresh });
    if (results.every(isOfUnknown)) io.exitCode = EXIT.unknownScope;
    await writeResults(io, results, { json, text });
  });
}

/** Whether nothing was changed, because there is no limiter of the name. */
const isOfUnknown = (result: UnbanResult): boolean =>
  result.warnings.some(({ code }) => code === 'UNKNOWN_SCOPE') &&
  isNothing(result) &&
  !result.policies?.length;

const isNothing = ({ keys, banned, bannedForMs, denials = 0, lastBanMs = 0 }: UnbanResult): boolean =>
  keys.length > 1 ? banned === 0 : bannedForMs + denials + lastBanMs === 0;

function json({ name, banned, bannedForMs, denials, lastBanMs, policies, ...subject }: UnbanResult): object {
  const isSole = subject.keys.length === 1;
  const found = isSole ? { wasBanned: banned > 0, bannedForMs, denials, lastBanMs } : { wereBanned: banned };
  return { name, ...subjectJson(subject), ...found, ...(policies && { policies }) };
}

function text(result: UnbanResult): string {
  const { keys, name, banned, policies } = result;
  const [shown, where] = [show(result), printable(name)];
  const isSole = keys.length === 1;
  const ended = isSole
    ? endText(result, shown, where)
    : `Of ${shown}, ${count(banned)} were banned in ${where}.${banned > 0 ? ' These bans have ended.' : ''}`;
  if (isSole && isNothing(result) && !policies)
    return `There was no ban of ${shown} in ${where}, so nothing was changed. \`headgate list --banned\` lists the banned keys.\n`;
  const charges = policies
    ? chargesText({ ...result, policies })
    : `${isSole ? 'Its' : "The keys'"} charges stay, so the next request may be denied; --fresh forgets them, too.`;
  return `${ended} ${charges}\n`;
}

/** Describes the ban and the denials that were removed. */
function endText(
  { bannedForMs, denials = 0, lastBanMs = 0 }: UnbanResult,
  shown: string,
  where: string,
): string {
  const ended =
    bannedForMs > 0
      ? `${shown} is no longer banned in ${where}; ${duration(bannedForMs)} of the ban were left`
      : `There was no ban of ${shown} in ${where}`;
  const forgotten = [
    ...(denials > 0 ? [`${many(denials, 'denial')} counted towards the next ban`] : []),
    ...(lastBanMs > 0 ? [`an earlier ban of ${duration(lastBanMs)}`] : []),
  ];
  return forgotten.length === 0 ? `${ended}.` : `${ended}. Forgotten: ${forgotten.join(', ')}.`;
}
