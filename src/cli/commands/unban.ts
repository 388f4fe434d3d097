import { count, duration, many, printable } from '../format.js';
import { noteOf, nameOf, type CliCommand, type Options } from '../command.js';
import { warn, write, writeJson, type Io } from '../io.js';
import { headsOf, loggedOf, show, subjectJson, typedKey } from '../keys.js';
import { withState } from '../open.js';
import type { BanState } from '../redis/bans.js';
import { subjectIn, unknownScope, warnUnnoted } from '../scope.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('unban')
    .summary('end the ban of a key')
    .description("Ends a key's ban, if there is one, and forgets the denials and bans before it.")
    .argument('<key>', 'whose ban ends: an address, a network, or any other key')
    .nameOption()
    .keyOptions()
    .noteOptions()
    .serverOptions()
    .example('unban 203.0.113.7 --name api --redis redis://127.0.0.1:6379')
    .action((given: string, options: Options) => unban(given, options, io));
}

async function unban(given: string, options: Options, io: Io): Promise<void> {
  const name = nameOf(options);
  const typed = typedKey(given, options);
  const note = noteOf(options, io);
  await withState(options, io, async ({ published, bans, keyText }) => {
    warn(io, unknownScope(published, name));
    const subject = subjectIn(published, name, typed, io);
    const heads = headsOf(bans, name, subject);
    const before = heads.length === 1 ? await bans.stateOf(heads[0]!) : undefined;
    const banned = before ? Number(before.bannedForMs > 0) : bannedOf(await bans.left(heads));
    const changes = heads.map((head) => ({ head, duration: 0, note }));
    const done = { action: 'unban', ...loggedOf(name, subject, keyText), forMs: 0, ...note } as const;
    // Nothing is logged if there was nothing to end.
    const isWorthIt = banned > 0 || (before && before.denials + before.lastBanMs > 0);
    const unnoted = await bans.set(changes, isWorthIt ? done : undefined);
    warnUnnoted(io, unnoted);
    if (io.json) {
      const found = before ? { wasBanned: banned > 0, ...before } : { wereBanned: banned };
      await writeJson(io, { name, ...subjectJson(subject), ...found });
      return;
    }
    const [who, where] = [show(subject), printable(name)];
    await write(
      io,
      before
        ? `${who} ${text(before, where)}\n`
        : `Of ${who}, ${count(banned)} were banned in ${where}, and are no longer.\n`,
    );
  });
}

const bannedOf = (bans: readonly number[]): number => bans.filter((ms) => ms > 0).length;

/** Describes the ban and the denials that were removed. */
function text({ bannedForMs, denials, lastBanMs }: BanState, where: string): string {
  const ended =
    bannedForMs > 0
      ? `is no longer banned in ${where}; ${duration(bannedForMs)} of the ban were left`
      : `was not banned in ${where}`;
  const forgotten = [
    ...(denials > 0 ? [`${many(denials, 'denial')} counted towards the next ban`] : []),
    ...(lastBanMs > 0 ? [`an earlier ban of ${duration(lastBanMs)}`] : []),
  ];
  return forgotten.length === 0 ? `${ended}.` : `${ended}. Forgotten: ${forgotten.join(', ')}.`;
}
