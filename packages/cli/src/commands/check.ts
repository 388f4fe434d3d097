import type { Finding } from 'headgate/redis';
import type { CliCommand, Options } from '../command.js';
import { EXIT } from '../errors.js';
import { printable, table, type Table } from '../format.js';
import { writeAnswer, type Io } from '../io.js';
import { withAdmin } from '../open.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('check')
    .summary('whether limits can be enforced on a server')
    .description(
      'Checks version, commands, permissions, eviction and clock, as `store.check()` does. It writes nothing. Exits with 1 if limits do ' +
        'not hold on the server.',
    )
    .serverOptions()
    .example('check --redis redis://127.0.0.1:6379')
    .action((options: Options) =>
      withAdmin(options, io, async (admin) => {
        // The client belongs to this command, so its options differ from the service's.
        const findings = (await admin.check()).filter(({ code }) => code !== 'client');
        const holds = findings.every(({ level }) => level !== 'error');
        if (!holds) io.exitCode = EXIT.failed;
        await writeAnswer(io, { holds, findings }, () => table(io, COLUMNS, findings));
      }),
    );
}

const COLUMNS: Table<Finding> = {
  level: ({ level }) => level,
  what: ({ code }) => code,
  finding: ({ message }) => printable(message, 500),
};
