import type { Command } from 'commander';
import { toMilliseconds } from '../../duration.js';
import { duration as showTime, printable } from '../format.js';
import { write, writeJson, type Io } from '../io.js';
import { addNoteOptions, noteOf, type NoteOptions } from '../ban-note.js';
import { addKeyOptions, loggedOf, show, subjectJson, subjectOf, type KeyOptions } from '../keys.js';
import { addNameOption, nameOf } from '../limits.js';
import { Bans } from '../redis/bans.js';
import { addForceOption, checkBans, warnUnnoted, type ForceOption } from '../scope.js';
import { addRedisOptions, withRedis, type RedisOptions } from '../redis/session.js';

interface Options extends RedisOptions, KeyOptions, NoteOptions, ForceOption {
  readonly name?: string;
}

export function register(program: Command, io: Io): void {
  const command = program
    .command('ban')
    .summary('ban a key for some time')
    .description(
      'Bans a key in the scope of one limiter, which must have the option `ban` ({} is enough): else it does not ask for bans.',
    )
    .argument('<key>', 'who is banned: an address, a network, or any other key')
    .argument('<duration>', "for how long: '10m', '2h', '30d', up to 366 days");
  addForceOption(addNoteOptions(addKeyOptions(addNameOption(command)))).action(
    async (given: string, text: string, options: Options) => {
      const name = nameOf(options);
      const subject = subjectOf(given, options);
      const duration = durationOf(text);
      const note = noteOf(options, io);
      await withRedis(options, io, async (session) => {
        await checkBans(session, [name], options, io, subject.dimension);
        const bans = new Bans(session);
        const changes = subject.keys.map((key) => ({
          head: bans.head(name, key, subject.dimension),
          duration,
          note,
        }));
        const done = { action: 'ban', ...loggedOf(name, subject), forMs: duration, ...note } as const;
        const unnoted = await bans.set(changes, done);
        const until = new Date(Date.now() + duration).toISOString();
        const verb = subject.keys.length > 1 ? 'are' : 'is';
        const said = `${show(subject)} ${verb} banned in ${printable(name)} for ${showTime(duration)}, until ${until}.\n`;
        await (io.json
          ? writeJson(io, { name, ...subjectJson(subject), bannedForMs: duration, ...note })
          : write(io, said));
        warnUnnoted(io, unnoted);
      });
    },
  );
  addRedisOptions(command).addHelpText(
    'after',
    '\nExample:\n  headgate ban 203.0.113.7 2h --name api --redis redis://127.0.0.1:6379',
  );
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function durationOf(text: string): number {
  return toMilliseconds('duration', /^\d+$/.test(text) ? Number(text) : text);
}
