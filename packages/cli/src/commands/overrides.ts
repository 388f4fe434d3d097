import { type OverriddenKey, overrideJson, whoseJson } from 'headgate/admin';
import { limitOf, type CliCommand, type Options } from '../command.js';
import { printable, writeListing, type Table } from '../format.js';
import type { Io } from '../io.js';
import { showKey, showText } from '../keys.js';
import { withNamed } from '../open.js';
import { clock, left, titled } from '../times.js';
import { showLog } from './log.js';
import { changeText } from './override-text.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('overrides')
    .summary('the keys with limits of their own, and the log of their changes')
    .description('Lists the overrides in force: key, limits, end, operator and reason.')
    .limitOption()
    .nameOption()
    .serverOptions()
    .answers('a line for each override: name, key or all, change, since, until, by, reason')
    .example('overrides --name api --redis redis://127.0.0.1:6379')
    .action((options: Options) => list(options, io))
    .command('log')
    .description(
      'Shows the changes of overrides, with the operator and the reason. The newest change comes first.',
    )
    .answers('lines as those of `headgate log`')
    .limitOption()
    .nameOption()
    .serverOptions()
    .action((_: Options, command: CliCommand) =>
      showLog(command.optsWithGlobals<Options>(), io, {
        actions: ['override', 'remove'],
        columns: ['when', 'ago', 'what', 'scope', 'key', 'limits', 'for', 'by', 'reason'],
        none: 'No limits were changed lately.',
      }),
    );
}

const orDash = (text: string | undefined): string => (text === undefined ? '-' : printable(text));

const columnsFor = (io: Io): Table<OverriddenKey> => ({
  scope: ({ name }) => showText(name),
  key: showKey,
  limits: ({ change }) => changeText(change),
  [titled(io, 'until')]: ({ until }) => (until === undefined ? '-' : clock(io, until)),
  'time left': ({ until }) => (until === undefined ? 'no end' : left(until)),
  by: ({ by }) => orDash(by),
  reason: ({ reason }) => orDash(reason),
});

async function list(options: Options, io: Io): Promise<void> {
  await withNamed(options, io, async (admin) => {
    await writeListing(io, limitOf(options, io), admin.overrides({ name: options.name }), {
      json: (found) => ({ ...whoseJson(found), ...overrideJson(found) }),
      table: columnsFor(io),
      none: 'No key has limits of its own.',
    });
  });
}
