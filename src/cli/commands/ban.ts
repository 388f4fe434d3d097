import type { Command } from 'commander';
import { toMilliseconds } from '../../duration.js';
import { duration as show, printable } from '../format.js';
import { write, writeJson, type Io } from '../io.js';
import { addNameOption, nameOf } from '../limits.js';
import { addRedisOptions, withRedis, type RedisOptions } from '../redis/session.js';

export function register(program: Command, io: Io): void {
  const command = program
    .command('ban')
    .summary('ban a key for some time')
    .description(
      'Bans a key in the scope of one limiter, which must have the option `ban` ({} is enough): else it does not ask for bans.',
    )
    .argument('<key>', 'who is banned')
    .argument('<duration>', "for how long: '10m', '2h', '30d', up to 366 days");
  addNameOption(command).action(
    async (key: string, duration: string, options: RedisOptions & { name?: string }) => {
      const name = nameOf(options);
      const ms = toMilliseconds('duration', /^\d+$/.test(duration) ? Number(duration) : duration);
      await withRedis(options, io, async (session) => {
        await session.banning(name).ban(key, ms);
        const until = new Date(Date.now() + ms).toISOString();
        await (io.json
          ? writeJson(io, { name, key, bannedForMs: ms })
          : write(
              io,
              `${printable(key)} is banned in ${printable(name)} for ${show(ms)}, until ${until}.\n`,
            ));
      });
    },
  );
  addRedisOptions(command).addHelpText(
    'after',
    '\nExample:\n  headgate ban 203.0.113.7 2h --name api --redis redis://127.0.0.1:6379',
  );
}
