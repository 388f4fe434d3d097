import type { OverriddenKey } from 'headgate/admin';
import { limitOf, type CliCommand, type Options } from '../command.js';
import { printable, utc, writeListing } from '../format.js';
import { warn, type Io } from '../io.js';
import { showKey, showText, whoseJson } from '../keys.js';
import { withAdmin } from '../open.js';
import { showLog } from './log.js';
import { changeText, overrideJson } from './override.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('overrides')
    .summary('the keys with limits of their own, and the log of their changes')
    .description('Lists the overrides in force: key, limits, end, operator and reason.')
    .limitOption()
    .nameOption()
    .serverOptions()
    .example('overrides --name api --redis redis://127.0.0.1:6379')
    .action((options: Options) => list(options, io))
    .command('log')
    .description(
      'Shows the changes of overrides, with the operator and the reason. The newest change comes first.',
    )
    .limitOption()
    .nameOption()
    .serverOptions()
    .action((_: Options, command: CliCommand) =>
      showLog(command.optsWithGlobals<Options>(), io, {
        actions: ['override', 'remove'],
        columns: ['when (UTC)', 'what', 'scope', 'key', 'limits', 'for', 'by', 'reason'],
        none: 'No limits were changed lately.',
      }),
    );
}

const orDash = (text: string | undefined): string => (text === undefined ? '-' : printable(text));

async function list(options: Options, io: Io): Promise<void> {
  const { name } = options;
  await withAdmin(options, io, async (admin) => {
    if (name !== undefined) warn(io, (await admin.limiters({ name })).warnings);
    await writeListing<OverriddenKey>(io, limitOf(options, io), admin.overrides({ name }), {
      json: (found) => ({ ...whoseJson(found), ...overrideJson(found) }),
      head: ['scope', 'key', 'limits', 'until (UTC)', 'by', 'reason'],
      row: (found) => [
        showText(found.name),
        showKey(found),
        changeText(found.change),
        found.until === undefined ? '-' : utc(found.until.toISOString()),
        orDash(found.by),
        orDash(found.reason),
      ],
      none: 'No key has limits of its own.',
    });
  });
}
