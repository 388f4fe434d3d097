import { toText } from '../../common/duration.js';
import { entryInForce } from '../../contract/overrides.js';
import { overrideOf, type OverrideChange } from '../../limiter/overrides/override.js';
import { ALL_KEYS, escapeName, recordKey } from '../../stores/keys.js';
import { overrideBookKeys } from '../../stores/redis/operators/override-book.js';
import type { CliCommand, Options } from '../command.js';
import { failure } from '../errors.js';
import { columns, many, printable } from '../format.js';
import { warn, write, writeJson, type Io } from '../io.js';
import { Published, type Configuration, type Instance } from '../redis/published.js';
import { withRedis, type Session } from '../redis/session.js';
import { unknownScope } from '../scope.js';
import { changeText } from './override.js';

export function register(program: CliCommand, io: Io): void {
  program
    .command('limits')
    .summary('which limiters run where, and which differ')
    .description(
      'Shows which limiters run where, with which policies, and which instances differ. Limiters on Redis publish this, unless ' +
        'redisStore has publish: false.',
    )
    .nameOption()
    .serverOptions()
    .example('limits --redis redis://127.0.0.1:6379')
    .action((options: Options) => limits(options, io));
}

async function limits(options: Options, io: Io): Promise<void> {
  const { name } = options;
  await withRedis(options, io, async (session) => {
    const published = await Published.read(session, io);
    if (published.problem !== undefined) throw failure('Nothing is known about the limiters.');
    warn(io, unknownScope(published, name));
    const wanted = [...published.scopes].filter(([scope]) => name === undefined || scope === name);
    const scopes = await withOverrides(session, wanted);
    await (io.json ? writeJson(io, json(published, scopes)) : write(io, text(published, scopes, io)));
  });
}

/** The limiters of a name. */
interface Scope {
  readonly name: string;
  readonly configurations: readonly Configuration[];
  /** For limiters with overrides: the number of keys with their own limits, and the override of all keys. */
  readonly overridden?: { readonly keys: number; readonly all: OverrideChange | null };
}

/** Adds the overrides of each limiter. The index contains every overridden key. */
async function withOverrides(
  session: Session,
  scopes: readonly (readonly [name: string, configurations: readonly Configuration[]])[],
): Promise<Scope[]> {
  const [key] = overrideBookKeys(session.prefix);
  const read = () => session.call('ZRANGEBYSCORE', key, String(Date.now()), '+inf') as Promise<string[]>;
  let index: Promise<string[]> | undefined;
  const all = scopes.map(async ([name, configurations]): Promise<Scope> => {
    if (!configurations.some(({ overrides }) => overrides)) return { name, configurations };
    const whos = await (index ??= read());
    const head = `${escapeName(name)}:`;
    const ofAll = head + ALL_KEYS;
    const entry = entryInForce(await session.call('GET', recordKey(session.prefix, ofAll)), Date.now());
    const keys = whos.filter((who) => who.startsWith(head) && who !== ofAll).length;
    const overridden = { keys, all: (entry && overrideOf(entry)?.change) ?? null };
    return { name, configurations, overridden };
  });
  return Promise.all(all);
}

function json({ instances }: Published, scopes: readonly Scope[]): object {
  return {
    instances: instances.map(({ limiters, ...instance }) => ({ ...instance, limiters: limiters.length })),
    limiters: scopes.map(({ name, configurations, overridden }) => ({
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

function text({ instances }: Published, scopes: readonly Scope[], io: Io): string {
  if (instances.length === 0) {
    return 'No limiter is published on this server under this --prefix. Limiters are published within seconds, unless publish is false.\n';
  }
  const parts = scopes.map(({ name, configurations, overridden }) => {
    const rows = configurations.map((configuration) => [
      policiesText(configuration),
      banText(configuration),
      configuration.ipv6Subnets.map((bits) => `/${bits}`).join(', ') || 'own keys',
      overridesText(configuration, overridden),
      whereText(configuration.instances),
    ]);
    const differs = configurations.length > 1 ? io.colors.red('  instances differ') : '';
    return `${io.colors.bold(printable(name))}${differs}\n${columns(io, ['policies', 'ban', 'IPv6', 'overrides', 'where'], rows)}`;
  });
  const left = instances.reduce((sum, { more }) => sum + more, 0);
  const differ = scopes.filter(({ configurations }) => configurations.length > 1).length;
  const summary = [
    `${many(scopes.length, 'limiter')} in ${many(instances.length, 'instance')}`,
    ...(differ > 0 ? [`${differ} of them with differing instances`] : []),
    ...(left > 0 ? [`${left} more were too many to be published`] : []),
  ];
  return `${[...parts, `${summary.join('; ')}.\n`].join('\n')}`;
}

function policiesText({ policies, tiers = {}, shadow, dynamic }: Configuration): string {
  const listOf = (texts: readonly string[]) => texts.map((policy) => printable(policy, 80)).join(', ');
  const named = Object.entries(tiers).map(([tier, own]) => `${printable(tier)}: ${listOf(own)}`);
  const all = [...(policies.length > 0 ? [listOf(policies)] : []), ...named].join('; ');
  const listed = dynamic ? `by request${all === '' ? '' : `, lately ${all}`}` : all;
  return shadow ? `${listed} (shadow: denies nobody)` : listed;
}

/** The option `ban` in a few words. */
function banText({ ban, banBy }: Configuration): string {
  if (ban === null) return 'none';
  const whose = banBy === undefined ? '' : `, by ${printable(banBy)}`;
  if (ban.after === 0) return `by hand${whose}`;
  return `after ${ban.after} denials in ${toText(ban.within)}, for ${toText(ban.first)}${whose}`;
}

function overridesText({ overrides }: Configuration, overridden: Scope['overridden']): string {
  if (!overrides || !overridden) return 'none';
  const { keys, all } = overridden;
  return `of ${many(keys, 'key')}${all === null ? '' : `, of all: ${changeText(all)}`}`;
}

/** The maximum number of instances in a message. */
const MAX_NAMED = 3;

function whereText(instances: readonly Instance[]): string {
  const named = instances
    .slice(0, MAX_NAMED)
    .map(({ host, pid, version }) => `${printable(host)}:${pid} (${printable(version)})`);
  const more = instances.length - named.length;
  return `${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
