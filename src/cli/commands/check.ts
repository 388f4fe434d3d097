import type { Command } from 'commander';
import { compilePolicies } from '../../contract/compile-policies.js';
import { checkServers, type Finding, type LiveLimiter } from '../../stores/redis/check.js';
import { EXIT } from '../errors.js';
import { columns, printable } from '../format.js';
import { write, writeJson, type Io } from '../io.js';
import { Published } from '../redis/published.js';
import { addRedisOptions, withRedis, type RedisOptions } from '../redis/session.js';

export function register(program: Command, io: Io): void {
  const command = program
    .command('check')
    .summary('whether limits can be enforced on a server')
    .description(
      'Looks at version, commands, permissions, eviction and clock, as `store.check()` does. It writes nothing. Exits with 1 if limits ' +
        'do not hold on the server.',
    );
  addRedisOptions(command)
    .addHelpText('after', '\nExample:\n  headgate check --redis redis://127.0.0.1:6379')
    .action(async (options: RedisOptions) => {
      await withRedis(options, io, async (session) => {
        const { commands, prefix } = session;
        const published = await Published.read(session, io).catch(() => undefined);
        const found = await checkServers(commands, prefix, liveOf(published));
        await tell(
          // The client belongs to this command. Its options are not the service's.
          found.filter(({ code }) => code !== 'client'),
          io,
        );
      });
    });
}

/** The published limiters whose limits can be overridden. */
function liveOf(published: Published | undefined): LiveLimiter[] {
  return [...(published?.limits() ?? [])].flatMap(([name, { policies, tiers, overrides }]) => {
    if (!overrides) return [];
    const sets = [['', policies] as const, ...tiers].filter(([, some]) => some.length > 0);
    return [{ name, sets: new Map(sets.map(([tier, some]) => [tier, compilePolicies(tier, some)])) }];
  });
}

async function tell(findings: readonly Finding[], io: Io): Promise<void> {
  const holds = findings.every(({ level }) => level !== 'error');
  if (!holds) io.exitCode = EXIT.failed;
  if (io.json) return writeJson(io, { holds, findings });
  const rows = findings.map(({ level, code, message }) => [level, code, printable(message, 500)]);
  await write(io, columns(io, ['level', 'what', 'finding'], rows));
}
