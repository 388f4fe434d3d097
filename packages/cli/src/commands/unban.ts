import { checkKey, type UnbanResult } from 'headgate/admin';
import { count, duration, many, printable } from '../format.js';
import { keyOptionsOf, namesOf, noteOf, type CliCommand, type Options as Shared } from '../command.js';
import { warn, write, writeJson, type Io } from '../io.js';
import { show, subjectJson } from '../keys.js';
import { withAdmin } from '../open.js';
import { distinct } from './ban.js';

interface Options extends Omit<Shared, 'name'> {
  readonly name?: readonly string[];
  readonly allLimiters?: boolean;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('unban')
    .summary('end the ban of a key')
    .description("Ends a key's ban, if there is one, and forgets the denials and bans before it.")
    .argument('<key>', 'the banned key: an address, a network, or any other key')
    .namesOption()
    .keyOptions()
    .noteOptions()
    .serverOptions()
    .example('unban 203.0.113.7 --name api --redis redis://127.0.0.1:6379')
    .action((given: string, options: Options) => unban(given, options, io));
}

async function unban(given: string, options: Options, io: Io): Promise<void> {
  const names = namesOf(options);
  const key = keyOptionsOf(options);
  checkKey(given, key);
  const note = noteOf(options, io);
  await withAdmin(options, io, async (admin) => {
    const results = await admin.unbanIn(names, given, { ...key, ...note });
    warn(io, distinct(results.flatMap(({ warnings }) => warnings)));
    if (io.json) {
      const documents = results.map(json);
      return writeJson(io, documents.length === 1 ? documents[0] : documents);
    }
    await write(io, results.map(text).join(''));
  });
}

function json({ name, banned, bannedForMs, denials, lastBanMs, ...subject }: UnbanResult): object {
  const isSole = subject.keys.length === 1;
  const found = isSole ? { wasBanned: banned > 0, bannedForMs, denials, lastBanMs } : { wereBanned: banned };
  return { name, ...subjectJson(subject), ...found };
}

function text(result: UnbanResult): string {
  const [shown, where] = [show(result), printable(result.name)];
  if (result.keys.length === 1) return `${endText(result, shown, where)}\n`;
  return `Of ${shown}, ${count(result.banned)} were banned in ${where}. These bans have ended.\n`;
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
