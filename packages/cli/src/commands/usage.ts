import type { LimiterUsage } from 'headgate/admin';
import type { CliCommand, Options } from '../command.js';
import { columns, count } from '../format.js';
import { warn, write, writeJson, type Io } from '../io.js';
import { showText, textOrHash } from '../keys.js';
import { withAdmin } from '../open.js';

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
    .example('usage --redis redis://127.0.0.1:6379')
    .action((options: Options) => usage(options, io));
}

async function usage(options: Options, io: Io): Promise<void> {
  const { name } = options;
  await withAdmin(options, io, async (admin) => {
    if (name !== undefined) warn(io, (await admin.limiters({ name })).warnings);
    const all = await admin.usage({ name });
    const sorted = all.sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0) || b.states - a.states);
    if (io.json)
      return writeJson(
        io,
        sorted.map(({ name: scope, ...rest }) => ({ ...textOrHash('name', scope), ...rest })),
      );
    await write(io, sorted.length === 0 ? 'There is no state.\n' : columns(io, HEAD, sorted.map(rowOf)));
  });
}

const HEAD = ['limiter', 'states', 'bytes (estimate)'];

function rowOf({ name, states, bytes }: LimiterUsage): string[] {
  return [showText(name), count(states), bytes === null ? 'unknown' : count(bytes)];
}
