import { entryInForce } from '../../contract/overrides.js';
import { overrideOf, type Override } from '../../limiter/overrides/override.js';
import { overrideBookKeys, type LoggedOverride } from '../../stores/redis/operators/override-book.js';
import { limitOf, type CliCommand, type Options } from '../command.js';
import { duration, printable, utc, writeListing } from '../format.js';
import { warn, type Io } from '../io.js';
import { withState } from '../open.js';
import { showLog, type Logged } from '../redis/log.js';
import { unknownScope } from '../scope.js';
import type { State } from '../state.js';
import { keyJson, showKeyOf, showText, textOrHash, whoseOf, type Whose } from '../keys.js';
import { changeText, overrideJson } from './override.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('overrides')
    .summary('which keys have limits of their own, and the log of who changed them')
    .description('Lists the overrides that are in force: whose, which limits, until when, by whom and why.')
    .limitOption()
    .nameOption()
    .serverOptions()
    .example('overrides --name api --redis redis://127.0.0.1:6379')
    .action((options: Options) => list(options, io))
    .command('log')
    .description(
      'Shows who overrode which limits, and who ended it, when and why. The newest entry comes first.',
    )
    .limitOption()
    .nameOption()
    .serverOptions()
    .action((_: Options, command: CliCommand) => tellLog(command.optsWithGlobals<Options>(), io));
}

const whoseJson = (whose: Whose): object => ({ ...textOrHash('name', whose.name), ...keyJson(whose) });

const orDash = (text: string | undefined): string => (text === undefined ? '-' : printable(text));

async function list(options: Options, io: Io): Promise<void> {
  const { name } = options;
  await withState(options, io, async (state) => {
    warn(io, unknownScope(state.published, name));
    await writeListing(io, limitOf(options, io), allInForce(state, name), {
      json: ({ whose, override }) => ({ ...whoseJson(whose), ...overrideJson(override) }),
      head: ['scope', 'key', 'limits', 'until (UTC)', 'by', 'reason'],
      row: ({ whose, override: { change, until, by, reason } }) => [
        showText(whose.name),
        showKeyOf(whose),
        changeText(change),
        until === undefined ? '-' : utc(until.toISOString()),
        orDash(by),
        orDash(reason),
      ],
      none: 'No key has limits of its own.',
    });
  });
}

/** The overrides in force, in the order of their ends. Overrides in an unknown format have no effect and are omitted. */
async function* allInForce(
  state: State,
  name: string | undefined,
): AsyncGenerator<{ whose: Whose; override: Override }> {
  const now = Date.now();
  for await (const [who, record] of state.overrides((who) => whoseOf(who, name) !== undefined)) {
    const entry = entryInForce(record, now);
    const override = entry && overrideOf(entry);
    if (override) yield { whose: whoseOf(who, name)!, override };
  }
}

const tellLog = (options: Options, io: Io): Promise<void> =>
  showLog<LoggedOverride>(options, io, (prefix) => overrideBookKeys(prefix)[1], {
    json: ({ at, whose, ...entry }) => ({ at, ...whoseJson(whose), ...entry }),
    head: ['when (UTC)', 'what', 'scope', 'key', 'limits', 'for', 'by', 'reason'],
    row: logRow,
    none: 'No limits were changed lately.',
  });

function logRow({ at, whose, action, change, forMs, by, reason }: Logged<LoggedOverride>): string[] {
  return [
    utc(at),
    action,
    showText(whose.name),
    showKeyOf(whose),
    action === 'remove' ? '-' : changeText(change),
    action === 'remove' || forMs === 0 ? '-' : duration(forMs),
    orDash(by),
    orDash(reason),
  ];
}
