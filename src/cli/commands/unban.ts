import type { Command } from 'commander';
import { count, duration, many, printable } from '../format.js';
import { write, writeJson, type Io } from '../io.js';
import { addNoteOptions, noteOf, type NoteOptions } from '../ban-note.js';
import { addKeyOptions, loggedOf, show, subjectJson, typedKey, type KeyOptions } from '../keys.js';
import { addNameOption, nameOf } from '../limits.js';
import type { BanState } from '../redis/bans.js';
import { checkKeys, subjectIn, unknownScope, warnUnnoted } from '../scope.js';
import { warn } from '../warn.js';
import { addRedisOptions, type RedisOptions } from '../redis/session.js';
import { withState } from '../open.js';

interface Options extends RedisOptions, KeyOptions, NoteOptions {
  readonly name?: string;
}

export function register(program: Command, io: Io): void {
  const command = program
    .command('unban')
    .summary('end the ban of a key')
    .description("Ends a key's ban, if there is one, and forgets the denials and bans before it.")
    .argument('<key>', 'whose ban ends: an address, a network, or any other key');
  addNoteOptions(addKeyOptions(addNameOption(command))).action(async (given: string, options: Options) => {
    const name = nameOf(options);
    const typed = typedKey(given, options);
    const note = noteOf(options, io);
    await withState(options, io, async ({ published, bans, keyText }) => {
      checkKeys(published, name, typed.dimension);
      warn(io, unknownScope(published, name));
      const subject = subjectIn(published, name, typed, io);
      const heads = subject.keys.map((key) => bans.head(name, key, subject.dimension));
      const before = heads.length === 1 ? await bans.stateOf(heads[0]!) : undefined;
      const banned = before ? Number(before.bannedForMs > 0) : bannedOf(await bans.left(heads));
      const changes = heads.map((head) => ({ head, duration: 0, note }));
      const done = {
        action: 'unban',
        ...loggedOf(name, subject, keyText),
        forMs: 0,
        ...note,
      } as const;
      // If there was nothing to end, nothing is logged.
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
  });
  addRedisOptions(command).addHelpText(
    'after',
    '\nExample:\n  headgate unban 203.0.113.7 --name api --redis redis://127.0.0.1:6379',
  );
}

const bannedOf = (bans: readonly number[]): number => bans.filter((ms) => ms > 0).length;

/** Tells what was ended or forgotten. */
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
