import { type Admin, type TenantView, textOrHash } from 'headgate/admin';
import type { CliCommand, Options } from '../command.js';
import { duration, printable, table, type Table, untilSlot } from '../format.js';
import { writeAnswer, type Io } from '../io.js';
import { showKey } from '../keys.js';
import { withNamed } from '../open.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('tenants')
    .summary('the tenants of a shared limit')
    .description(
      'Lists the tenants of shared limits, of one limiter or of all: the share of each, the units that it used, its weight, whether it is light or ' +
        'heavy, its requests per second if the stores count, and the policies that denied them: all policies of the limiter count. Most denials come first, and at most 200 tenants of a limiter are listed. Tenants of slots ' +
        'are known by their requests in the last seconds only.',
    )
    .nameOption()
    .serverOptions()
    .answers(
      'an array: key, name, policy, isHeavy, weight, share, limit, used, admitted, denied, deniedBy, allowed, reason, ...',
    )
    .example('tenants --name llm --redis redis://127.0.0.1:6379')
    .action((options: Options) => list(options, io));
}

async function list(options: Options, io: Io): Promise<void> {
  const show = async (admin: Admin): Promise<void> => {
    const { limiters } = await admin.limiters({ name: options.name });
    const views: Row[] = [];
    const { instances } = await admin.traffic();
    for (const { name, isCounted } of limiters) {
      const isKnown = isCounted ?? instances > 0;
      const own = await admin.tenants({ name });
      views.push(...own.map((view) => (isKnown ? view : { ...view, admitted: null, denied: null })));
    }
    await writeAnswer(
      io,
      views.map(({ key, ...view }) => ({ ...textOrHash('key', key), ...view })),
      () => (views.length === 0 ? NONE : table(io, columnsFor(io), views)),
    );
  };
  await withNamed(options, io, show);
}

/** A tenant, with null for rates that no store counts. */
type Row = Omit<TenantView, 'admitted' | 'denied'> & {
  readonly admitted: number | null;
  readonly denied: number | null;
};

const NONE = 'No tenant of a shared limit is known. Policies have tenants by `share`.\n';

const columnsFor = ({ colors }: Io): Table<Row> => ({
  limiter: ({ name }) => printable(name),
  tenant: showKey,
  policy: ({ policy, tier }) =>
    `${printable(policy)}${tier === undefined ? '' : ` (tier ${printable(tier)})`}`,
  kind: ({ isHeavy }) => (isHeavy === null ? '-' : isHeavy ? colors.yellow('heavy') : 'light'),
  weight: ({ weight }) => String(weight),
  share: ({ share, limit }) => `${share} of ${limit}`,
  used: ({ used }) => (used === null ? '-' : String(used)),
  'admitted/s': ({ admitted }) => (admitted === null ? '-' : String(admitted)),
  'denied/s': ({ denied }) =>
    denied === null ? '-' : denied > 0 ? colors.red(String(denied)) : String(denied),
  'denied by': ({ denied, deniedBy }) =>
    denied === null || deniedBy.length === 0
      ? '-'
      : deniedBy.map((each) => `${printable(each.policy)} ${each.denied}/s`).join(', '),
  answer: ({ allowed, denying, reason, retryAfterMs: ms, lacksSlots }) => {
    if (allowed) return colors.green('allowed');
    const why = denying === null ? reason : `${printable(denying)}: ${reason}`;
    const end = lacksSlots ? ` ${untilSlot(ms)}` : ms === null ? '' : ` for ${duration(ms)}`;
    return colors.red(`denied (${why})${end}`);
  },
});
