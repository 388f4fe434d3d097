import { algorithms, DEFAULT_ALGORITHM, type AnyKernel, type Kernel } from '../../../algorithms/index.js';
import { luaFiles } from '../lua-files.js';
import { assemble, type Script, type ScriptName } from '../scripts.js';
import type { Announcement } from '../../../contract/announcement.js';

/** A purpose for which scripts are run. */
export interface Use {
  /** The name for people: decisions, a limiter, an algorithm, or a command of the command line. */
  readonly name: string;
  /** Whether limits depend on it. */
  readonly isEssential: boolean;
  readonly scripts: readonly Script[];
}

/** The parts of a store that run scripts beside the decisions. */
export interface Features {
  readonly publishes: boolean;
  readonly recordsBans: boolean;
  readonly countsTraffic: boolean;
}

const ALL_FEATURES: Features = { publishes: true, recordsBans: true, countsTraffic: true };

/**
 * For each command that a script may call, the arguments after its key that make it neither read nor write data if the key does not exist.
 * Some of them are invalid on purpose.
 */
export const PROBES: ReadonlyMap<string, readonly string[]> = new Map([
  ['GET', []],
  ['SET', ['0', 'XX', 'PX', '1000']],
  ['DEL', []],
  ['MGET', []],
  ['INCRBY', ['x']],
  ['GETRANGE', ['0', '0']],
  ['SETRANGE', ['0', '']],
  ['PEXPIREAT', ['1']],
  ['PTTL', []],
  ['ZADD', ['XX', '1', 'x']],
  ['ZINCRBY', ['x', 'x']],
  ['ZCOUNT', ['0', '1']],
  ['ZRANGEBYSCORE', ['0', '1']],
  ['ZREM', ['x']],
  ['ZREMRANGEBYSCORE', ['0', '1']],
  ['ZREVRANGE', ['0', '0']],
  ['ZSCORE', ['x']],
  ['HSET', ['x', 'x', 'x']],
  ['HDEL', ['x']],
  ['HINCRBY', ['x', 'x']],
  ['XADD', ['x', 'x', 'x']],
]);

/** The names of the commands that a script calls, except for TIME, with which each script begins. */
export function commandsIn({ source }: Pick<Script, 'source'>): Set<string> {
  const names = new Set([...source.matchAll(/redis\.p?call\('(\w+)'/g)].map(([, name]) => name!));
  names.delete('TIME');
  return names;
}

/** For each command, the uses that need it. */
export function needs(uses: readonly Use[]): Map<string, Use[]> {
  const needed = new Map<string, Use[]>();
  for (const use of uses) {
    for (const name of new Set(use.scripts.flatMap((script) => [...commandsIn(script)])))
      needed.set(name, [...(needed.get(name) ?? []), use]);
  }
  return needed;
}

/** The uses of a store by its limiters. Without limiters, or with policies that come with each request, every use is possible. */
export function usesOf(limiters: readonly Announcement[], features: Features): Use[] {
  const known = limiters.map(useOf);
  if (limiters.length === 0 || limiters.some(({ dynamic }) => dynamic)) return [...known, ...possibleUses()];
  const recordsBans = features.recordsBans && limiters.some(({ ban }) => ban);
  const overrides = limiters.some((limiter) => limiter.overrides);
  return [...known, ...usesAside({ ...features, recordsBans }, overrides)];
}

function useOf({ name, policies, tiers, ban, overrides = false }: Announcement): Use {
  const kernels = [policies(), ...tiers.values()].flat().map(({ kernel }) => kernel);
  const isBanning = ban !== undefined;
  const scripts = [
    ...decisions(kernels, isBanning, overrides),
    ...(isBanning ? [scriptOf('set-ban', true)] : []),
    ...(overrides ? changesOfOverrides() : []),
  ];
  return { name: `the limiter '${name}'`, isEssential: true, scripts };
}

/** Each use that limiters may have. */
export function possibleUses(): Use[] {
  const kernels = Object.keys(algorithms) as Kernel[];
  return [
    { name: 'decisions', isEssential: true, scripts: decisions([DEFAULT_ALGORITHM as Kernel], false, false) },
    ...kernels.map((name) => ({ name, isEssential: false, scripts: decisions([name], false, false) })),
    { name: 'bans', isEssential: false, scripts: [...decisions([], true, false), scriptOf('set-ban', true)] },
    {
      name: 'overrides',
      isEssential: false,
      scripts: [...decisions([], false, true), ...changesOfOverrides()],
    },
    ...usesAside(ALL_FEATURES, true),
  ];
}

/** The scripts that decide by policies, and that return units. */
function decisions(kernels: readonly AnyKernel[], ban: boolean, overrides: boolean): Script[] {
  const holding = kernels.filter(holdsSlots);
  const alone = kernels.filter((kernel) => !holdsSlots(kernel));
  return [
    assemble('evaluate', kernels, ban, overrides),
    ...alone.map((kernel) => assemble('evaluate-single', [kernel], false, overrides)),
    assemble('adjust', kernels, false, overrides),
    scriptOf('reset'),
    ...(holding.length > 0 ? [assemble('lease', holding, false)] : []),
  ];
}

/** Whether the units of a kernel are slots, which its Lua file can release and renew. */
const holdsSlots = (kernel: AnyKernel): boolean => 'lease' in luaFiles[kernel]!;

function changesOfOverrides(): Script[] {
  return [scriptOf('read-override'), scriptOf('set-override')];
}

/** Uses for operators, on which limits do not depend. */
function usesAside({ publishes, recordsBans, countsTraffic }: Features, overrides: boolean): Use[] {
  const use = (isUsed: boolean, name: string, ...scripts: ScriptName[]): Use[] =>
    isUsed ? [{ name, isEssential: false, scripts: scripts.map((script) => scriptOf(script)) }] : [];
  return [
    ...use(publishes, '`headgate limits`', 'publish', 'configure'),
    ...use(recordsBans, '`headgate list --banned`', 'note-bans', 'seal-bans'),
    ...use(overrides, '`headgate overrides`', 'note-override'),
    ...use(countsTraffic, '`headgate top`', 'count'),
  ];
}

function scriptOf(name: ScriptName, ban = false): Script {
  return assemble(name, [], ban);
}
