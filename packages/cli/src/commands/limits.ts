import { silentMs, toText, type Configuration, type LimitersView, type LimiterView } from 'headgate/admin';
import type { CliCommand, Options } from '../command.js';
import { failure } from '../errors.js';
import { duration, many, printable, table, type Table } from '../format.js';
import { warn, writeAnswer, type Io } from '../io.js';
import { withAdmin } from '../open.js';
import { changeText } from './override-text.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('limits')
    .summary('the limiters of each process, and processes that differ')
    .description(
      'Shows the limiters of each process with their policies, and processes that differ. Limiters on Redis publish this, unless ' +
        'redisStore has publish: false. A file of SQLite has each limiter as a process made it last.',
    )
    .nameOption()
    .serverOptions()
    .answers('a document: instances; limiters, each with name, differ and configurations')
    .example('limits --redis redis://127.0.0.1:6379')
    .action((options: Options) => limits(options, io));
}

async function limits(options: Options, io: Io): Promise<void> {
  await withAdmin(options, io, async (admin) => {
    const { name } = options;
    const view = await admin.limiters({ name });
    const warnings = view.warnings.filter(({ code }) => code !== 'DIFFERENT');
    warn(io, warnings);
    if (warnings.some(({ code }) => code === 'UNREADABLE')) throw failure('The limiters are not known.');
    await writeAnswer(io, json(view), () => text(view, options.sqlite !== undefined, io));
  });
}

function json({ instances, limiters }: LimitersView): object {
  return {
    instances: instances.map(({ limiters, ...instance }) => ({ ...instance, limiters: limiters.length })),
    limiters: limiters.map(({ name, configurations, overridden }) => ({
      name,
      differ: configurations.length > 1,
      ...(overridden && { overridden }),
      configurations: configurations.map(({ instances: some, ...configuration }) => ({
        ...configuration,
        instances: some.map(({ id }) => id),
      })),
    })),
  };
}

/** @param isFile whether the limiters are in a file, which does not know the processes that have them now */
function text({ instances, limiters: scopes }: LimitersView, isFile: boolean, io: Io): string {
  if (isFile && scopes.length === 0)
    return 'The file has no such limiter. Each process writes its limiters there with its first decision.\n';
  if (!isFile && instances.length === 0) {
    return 'No limiter is published on this server under this --prefix. Limiters are published within seconds, after a loss of data within 30 seconds, unless publish is false.\n';
  }
  const parts = scopes.map(({ name, configurations, overridden }) => {
    const differs = configurations.length > 1 ? io.colors.red('  instances differ') : '';
    return `${io.colors.bold(printable(name))}${differs}\n${table(io, columnsFor(overridden), configurations)}`;
  });
  const left = instances.reduce((sum, { more }) => sum + more, 0);
  const differ = scopes.filter(({ configurations }) => configurations.length > 1).length;
  const summary = [
    isFile
      ? `${many(scopes.length, 'limiter')}, as a process made each last`
      : `${many(scopes.length, 'limiter')} in ${many(instances.length, 'instance')}`,
    ...(differ > 0 ? [`${differ} of them with differing instances`] : []),
    ...(left > 0 ? [`${left} more were too many to be published`] : []),
  ];
  return `${[...parts, `${summary.join('; ')}.\n`].join('\n')}`;
}

const columnsFor = (overridden: LimiterView['overridden']): Table<Configuration> => ({
  policies: policiesText,
  ban: banText,
  IPv6: ({ ipv6Subnets, instances }) =>
    ipv6Subnets.map((bits) => `/${bits}`).join(', ') || (instances.length === 0 ? 'unknown' : 'own keys'),
  overrides: (configuration) => overridesText(configuration, overridden),
  where: whereText,
});

function policiesText({ policies, tiers = {}, shadow, dynamic }: Configuration): string {
  const listOf = (texts: readonly string[]) => texts.map((policy) => printable(policy, 80)).join(', ');
  const named = Object.entries(tiers).map(([tier, own]) => `${printable(tier)}: ${listOf(own)}`);
  const all = [...(policies.length > 0 ? [listOf(policies)] : []), ...named].join('; ');
  const listed = dynamic ? `by request${all === '' ? '' : `, lately ${all}`}` : all;
  return shadow ? `${listed} (shadow: denies no requests)` : listed;
}

/** The option `ban` in a few words. */
function banText({ ban, banBy }: Configuration): string {
  if (ban === null) return 'none';
  const by = banBy === undefined ? '' : `, by ${printable(banBy)}`;
  if (ban.after === 0) return `by hand${by}`;
  return `after ${ban.after} denials in ${toText(ban.within)}, for ${toText(ban.first)}${by}`;
}

function overridesText({ overrides }: Configuration, overridden: LimiterView['overridden']): string {
  if (!overrides || !overridden) return 'none';
  const { keys, all } = overridden;
  return `of ${many(keys, 'key')}${all === null ? '' : `, of all: ${changeText(all)}`}`;
}

const MAX_NAMED = 3;

function whereText({ instances }: Configuration): string {
  if (instances.length === 0) return 'unknown';
  const named = instances.slice(0, MAX_NAMED).map((each) => {
    const silent = silentMs(each);
    const { host, pid, version } = each;
    const doubt = silent > 0 ? `, silent for ${duration(silent)}: it may have ended` : '';
    return `${printable(host)}:${pid} (${printable(version)}${doubt})`;
  });
  const more = instances.length - named.length;
  return `${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
