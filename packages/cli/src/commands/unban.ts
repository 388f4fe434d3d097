import { checkKey, type Admin } from 'headgate/admin';
import { count, duration, many, printable } from '../format.js';
import { keyOptionsOf, nameOf, noteOf, type CliCommand, type Options } from '../command.js';
import { warn, write, writeJson, type Io } from '../io.js';
import { show, subjectJson } from '../keys.js';
import { withAdmin } from '../open.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('unban')
    .summary('end the ban of a key')
    .description("Ends a key's ban, if there is one, and forgets the denials and bans before it.")
    .argument('<key>', 'the banned key: an address, a network, or any other key')
    .nameOption()
    .keyOptions()
    .noteOptions()
    .serverOptions()
    .example('unban 203.0.113.7 --name api --redis redis://127.0.0.1:6379')
    .action((given: string, options: Options) => unban(given, options, io));
}

async function unban(given: string, options: Options, io: Io): Promise<void> {
  const name = nameOf(options);
  const key = keyOptionsOf(options);
  checkKey(given, key);
  const note = noteOf(options, io);
  await withAdmin(options, io, async (admin) => {
    const result = await admin.unban(given, { name, ...key, ...note });
    const { banned, bannedForMs, denials, lastBanMs } = result;
    warn(io, result.warnings);
    const isSole = result.keys.length === 1;
    if (io.json) {
      const found = isSole
        ? { wasBanned: banned > 0, bannedForMs, denials, lastBanMs }
        : { wereBanned: banned };
      await writeJson(io, { name, ...subjectJson(result), ...found });
      return;
    }
    const [shown, where] = [show(result), printable(name)];
    await write(
      io,
      isSole
        ? `${text(result, shown, where)}\n`
        : `Of ${shown}, ${count(banned)} were banned in ${where}. These bans have ended.\n`,
    );
  });
}

type Unbanned = Awaited<ReturnType<Admin['unban']>>;

/** Describes the ban and the denials that were removed. */
function text({ bannedForMs, denials = 0, lastBanMs = 0 }: Unbanned, shown: string, where: string): string {
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
