import { compilePolicies } from '../../contract/compile-policies.js';
import { checkServers, type Finding, type LiveLimiter } from '../../stores/redis/operators/check.js';
import type { CliCommand, Options } from '../command.js';
import { EXIT } from '../errors.js';
import { columns, printable } from '../format.js';
import { write, writeJson, type Io } from '../io.js';
import { Published } from '../redis/published.js';
import { withRedis } from '../redis/session.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('check')
    .summary('whether limits can be enforced on a server')
    .description(
      'Looks at version, commands, permissions, eviction and clock, as `store.check()` does. It writes nothing. Exits with 1 if limits ' +
        'do not hold on the server.',
    )
    .serverOptions()
    .example('check --redis redis://127.0.0.1:6379')
    .action((options: Options) =>
      withRedis(options, io, async (session) => {
        const published = await Published.read(session, io).catch(() => undefined);
        const found = await checkServers(session.commands, session.prefix, liveOf(published));
        // The client belongs to this command, so its options differ from the service's.
        const findings = found.filter(({ code }) => code !== 'client');
        await tell(findings, io);
      }),
    );
}

/** The published limiters that support overrides. */
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
