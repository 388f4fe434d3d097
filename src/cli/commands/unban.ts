import type { Command } from 'commander';
import { printable } from '../format.js';
import { write, writeJson, type Io } from '../io.js';
import { addNameOption, nameOf } from '../limits.js';
import { addRedisOptions, withRedis, type RedisOptions } from '../redis/session.js';

export function register(program: Command, io: Io): void {
  const command = program
    .command('unban')
    .summary('end the ban of a key')
    .description("Ends a key's ban, if there is one, and forgets the denials and bans before it.")
    .argument('<key>', 'whose ban ends');
  addNameOption(command).action(async (key: string, options: RedisOptions & { name?: string }) => {
    const name = nameOf(options);
    await withRedis(options, io, async (session) => {
      const limiter = session.banning(name);
      const wasBanned = (await limiter.peek(key)).reason === 'banned';
      await limiter.unban(key);
      const [who, where] = [printable(key), printable(name)];
      const text = wasBanned
        ? `${who} is no longer banned in ${where}.\n`
        : `${who} was not banned in ${where}; the denials counted so far are forgotten.\n`;
      await (io.json ? writeJson(io, { name, key, wasBanned }) : write(io, text));
    });
  });
  addRedisOptions(command).addHelpText(
    'after',
    '\nExample:\n  headgate unban 203.0.113.7 --name api --redis redis://127.0.0.1:6379',
  );
}
