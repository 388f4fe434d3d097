import { type LimiterUsage, textOrHash } from 'headgate/admin';
import type { CliCommand, Options } from '../command.js';
import { count, table, type Table } from '../format.js';
import { writeAnswer, type Io } from '../io.js';
import { showText } from '../keys.js';
import { withNamed } from '../open.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('usage')
    .summary('the keys and the bytes of each limiter')
    .description(
      'Counts the states of each limiter by a search of all keys, in small steps, and estimates their bytes by a sample. The largest limiter ' +
        'comes first.',
    )
    .nameOption()
    .serverOptions()
    .answers('an array: name, states, bytes')
    .example('usage --redis redis://127.0.0.1:6379')
    .action((options: Options) => usage(options, io));
}

async function usage(options: Options, io: Io): Promise<void> {
  await withNamed(options, io, async (admin) => {
    const all = await admin.usage({ name: options.name });
    const sorted = all.sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0) || b.states - a.states);
    const document = sorted.map(({ name, ...rest }) => ({ ...textOrHash('name', name), ...rest }));
    await writeAnswer(io, document, () =>
      sorted.length === 0 ? 'There is no state.\n' : table(io, COLUMNS, sorted),
    );
  });
}

const COLUMNS: Table<LimiterUsage> = {
  limiter: ({ name }) => showText(name),
  states: ({ states }) => count(states),
  'bytes (estimate)': ({ bytes }) => (bytes === null ? 'unknown' : count(bytes)),
};
