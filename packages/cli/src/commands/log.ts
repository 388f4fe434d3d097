import { CHANGE_ACTIONS, type LoggedChange, textOrHash, whoseJson } from 'headgate/admin';
import { limitOf, noteOf, type CliCommand, type Options as Shared } from '../command.js';
import { usageError } from '../errors.js';
import { duration, many, printable, table, writeListing, type Table } from '../format.js';
import { warn, writeAnswer, type Io } from '../io.js';
import { showKey, showText } from '../keys.js';
import { orWarning } from '../nothing.js';
import { withAdmin, withNamed } from '../open.js';
import { age, clock, titled } from '../times.js';
import { durationOf } from './ban.js';
import { changeText } from './override-text.js';

type Action = LoggedChange['action'];

/** The columns of all changes. */
const COLUMNS: readonly Column[] = [
  ...(['when', 'ago', 'what', 'scope', 'key', 'before', 'after', 'for', 'by', 'reason', 'id'] as const),
];

interface Options extends Shared {
  readonly since?: string;
  readonly action?: string;
  readonly undo?: string;
  readonly dryRun?: boolean;
  readonly key?: string;
  readonly author?: string;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('log')
    .summary('the changes of bans, overrides, charges and configurations')
    .description(
      'Shows the changes of bans, overrides, charges and configurations, with the operator and the reason. The newest change comes first.',
    )
    .option('--since <time>', "the age of the oldest change: '30m', '1h', '7d'")
    .option('--action <names>', `only these kinds of changes: ${CHANGE_ACTIONS.join(', ')}`)
    .option(
      '--key <key>',
      'only the changes of this key or network, with those of networks and imports that include it',
    )
    .option('--author <name>', 'only the changes of this operator')
    .option('--undo <id>', 'undo the change with this id')
    .option('--dry-run', 'with --undo: only check')
    .limitOption()
    .nameOption()
    .noteOptions()
    .serverOptions()
    .answers(
      'a line for each change: at, name, key or network, action, before, after, forMs, by, reason, from, keys, id; with --undo a document: undone, action, dryRun',
    )
    .example('log --since 1h --redis redis://127.0.0.1:6379')
    .action((options: Options) =>
      options.undo === undefined
        ? showLog(options, io, {
            actions: actionsOf(options),
            columns: COLUMNS,
            none: 'There are no changes.',
          })
        : undo(options.undo, options, io),
    );
}

async function undo(id: string, options: Options, io: Io): Promise<void> {
  const { dryRun = false } = options;
  const note = noteOf(options, io);
  await withAdmin(options, io, async (admin) => {
    const { change, action, warnings } = await admin.undo(id, { ...note, dryRun });
    const { action: undone, name, ...rest } = change;
    const shown = `the ${NOUNS[undone]} of ${keyText(change)} in ${showText(name)}`;
    const verb = dryRun ? 'could be undone' : 'was undone';
    const document = { undone: changeDocument({ action: undone, name, ...rest }), action, dryRun };
    const text = (): string => `${shown[0]!.toUpperCase()}${shown.slice(1)} ${verb} by: ${action}.\n`;
    await writeAnswer(io, document, text);
    warn(io, warnings);
  });
}

const NOUNS: Readonly<Record<Action, string>> = {
  ...{ ban: 'ban', unban: 'end of the ban', import: 'import', override: 'override' },
  ...{ remove: 'removal of the override', reset: 'reset', configure: 'configuration' },
};

function actionsOf({ action }: Options): readonly Action[] {
  if (action === undefined) return CHANGE_ACTIONS;
  return action.split(',').map((text) => {
    const known = CHANGE_ACTIONS.find((each) => each === text.trim());
    if (known) return known;
    throw usageError(`--action: ${JSON.stringify(text)} is not one of ${CHANGE_ACTIONS.join(', ')}.`);
  });
}

const columnsFor = (io: Io) =>
  ({
    when: ({ at }) => clock(io, at),
    ago: ({ at }) => age(at),
    what: ({ action, undoes, undoneBy }) =>
      `${action}${undoes === undefined ? '' : ` (undo of ${undoes})`}${undoneBy === undefined ? '' : ' (undone)'}`,
    scope: ({ name }) => showText(name),
    key: keyText,
    before: (change) => valueText(change, change.before),
    after: (change) => valueText(change, change.after),
    limits: (change) => valueText(change, change.after),
    for: ({ forMs }) => (forMs === 0 ? '-' : duration(forMs)),
    by: byText,
    reason: ({ reason }) => (reason === null ? '-' : printable(reason)),
    id: ({ id }) => id,
  }) satisfies Table<LoggedChange>;

type Column = keyof ReturnType<typeof columnsFor>;

export const changesTable = (changes: readonly LoggedChange[], io: Io): string =>
  table(io, tableOf(io, COLUMNS), changes);

function tableOf(io: Io, names: readonly Column[]): Table<LoggedChange> {
  const cells = columnsFor(io);
  return Object.fromEntries(names.map((name) => [name === 'when' ? titled(io, name) : name, cells[name]]));
}

interface Part {
  readonly actions: readonly Action[];
  readonly columns: readonly Column[];
  /** Whether to omit bans by denials. */
  readonly isByHand?: boolean;
  readonly none: string;
}

/** Shows changes of some kinds, of one limiter or of all. The newest change comes first. */
export async function showLog(options: Options, io: Io, part: Part): Promise<void> {
  const { name, since, key, author } = options;
  const age = since === undefined ? undefined : durationOf(since, '--since');
  await withNamed(options, io, async (admin) => {
    const changes = orWarning(
      admin.log({ name, since: age, actions: part.actions, key, by: author }),
      admin,
      io,
    );
    await writeListing(io, limitOf(options, io), part.isByHand ? byHand(changes) : changes, {
      json: changeDocument,
      table: tableOf(io, part.columns),
      none: part.none,
    });
  });
}

async function* byHand(changes: AsyncIterable<LoggedChange>): AsyncGenerator<LoggedChange> {
  for await (const change of changes) if (change.from !== 'denials') yield change;
}

export function changeDocument({
  at,
  name,
  key,
  dimension,
  within,
  network,
  ...change
}: LoggedChange): object {
  const isOfAll = key === undefined && change.keys === 1;
  const whose =
    key === undefined && !isOfAll
      ? textOrHash('name', name)
      : whoseJson({ name, key, dimension, within } as never);
  return {
    at: at.toISOString(),
    ...whose,
    ...(network !== undefined && { network }),
    ...change,
    ...changeJson(change),
  };
}

/** The field of the new limits, as earlier versions named it. */
const changeJson = ({ action, after }: Pick<LoggedChange, 'action' | 'after'>): object =>
  action === 'override' ? { change: after } : {};

function byText({ by, from }: LoggedChange): string {
  if (by !== null) return printable(by);
  return from === 'program' ? 'the program' : from === 'denials' ? 'denials' : '-';
}

function keyText({ key, dimension, within, keys, network }: LoggedChange): string {
  if (keys === 0) return '-';
  if (keys === 1) return showKey({ key, dimension, within } as never);
  return network === undefined ? many(keys, 'key') : `${printable(network)} (${many(keys, 'key')})`;
}

interface Configured {
  readonly policies: readonly string[];
  readonly tiers?: Readonly<Record<string, readonly string[]>>;
}

function configurationText({ policies, tiers = {} }: Configured): string {
  const ofTiers = Object.entries(tiers).map(([tier, texts]) => `${tier}: ${texts.join(', ')}`);
  return [...(policies.length > 0 ? [policies.join(', ')] : []), ...ofTiers].join('; ');
}

function valueText({ action }: LoggedChange, value: unknown): string {
  if (value === undefined) return '-';
  if (typeof value === 'number') return duration(value);
  if (action === 'reset') return printable((value as readonly string[]).join(', '));
  if (action === 'configure') return printable(configurationText(value as Configured));
  return changeText(value);
}
