import { algorithms, DEFAULT_ALGORITHM, type AnyKernel, type Kernel } from '../../../algorithms/index.js';
import type { Feature } from '../../../features/feature.js';
import { FEATURES } from '../../../features/features.js';
import { luaFiles } from '../lua-files.js';
import { assemble, type Script, type ScriptName, type ScriptPart } from '../scripts.js';
import type { Announcement } from '../../../contract/announcement.js';

export interface Use {
  /** The name for people: decisions, a limiter, an algorithm, or a command of the command line. */
  readonly name: string;
  readonly isEssential: boolean;
  readonly scripts: readonly Script[];
}

/** The features that operators change by hand, in the order of their names. */
const CHANGED_BY_HAND = FEATURES.flatMap(({ name, byHand }) => (byHand ? [{ name, byHand }] : [])).sort(
  (a, b) => a.name.localeCompare(b.name),
);

/** The parts of a store that run scripts beside the decisions. */
export interface Features {
  readonly publishes: boolean;
  readonly recordsChanges: boolean;
  readonly countsTraffic: boolean;
  /** Whether features write what happens to streams. */
  readonly streams: boolean;
}

/**
 * For each command of the scripts, the arguments after the key with which the command neither reads nor writes data if the key does not
 * exist. Some arguments are invalid on purpose.
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
  ['HGET', ['x']],
  ['HSET', ['x', 'x', 'x']],
  ['HDEL', ['x']],
  ['HINCRBY', ['x', 'x']],
  ['XADD', ['x', 'x', 'x']],
  ['XRANGE', ['-', '+']],
]);

/** The names of the commands that a script calls, except for TIME, with which each script begins. */
export function commandsIn({ source }: Pick<Script, 'source'>): Set<string> {
  const names = new Set([...source.matchAll(/redis\.p?call\('(\w+)'/g)].map(([, name]) => name!));
  names.delete('TIME');
  return names;
}

/** For each command, the uses that need the command. */
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
  return [...known, ...usesAside(features, limiters)];
}

function useOf(limiter: Announcement): Use {
  const { name, policies, tiers } = limiter;
  const kernels = [policies(), ...tiers.values()].flat().map(({ kernel }) => kernel);
  const own = CHANGED_BY_HAND.filter(({ byHand }) => byHand.isOf(limiter));
  const scripts = [
    ...decisions(
      kernels,
      own.map((feature) => feature.name),
    ),
    ...own.flatMap(changesByHand),
  ];
  return { name: `the limiter '${name}'`, isEssential: true, scripts };
}

export function possibleUses(): Use[] {
  const kernels = Object.keys(algorithms) as Kernel[];
  return [
    { name: 'decisions', isEssential: true, scripts: decisions([DEFAULT_ALGORITHM as Kernel]) },
    ...kernels.map((name) => ({ name, isEssential: false, scripts: decisions([name]) })),
    ...CHANGED_BY_HAND.map((feature) => ({
      name: feature.name,
      isEssential: false,
      scripts: [...decisions([], [feature.name]), ...changesByHand(feature)],
    })),
    ...usesAside(),
  ];
}

/** The scripts that decide by policies, and that return units. */
function decisions(kernels: readonly AnyKernel[], parts: readonly ScriptPart[] = []): Script[] {
  const holding = kernels.filter(holdsSlots);
  const alone = kernels.filter((kernel) => !holdsSlots(kernel));
  return [
    assemble('evaluate', kernels, parts),
    ...alone.map((kernel) => assemble('evaluate-single', [kernel], parts)),
    assemble('adjust', kernels, parts),
    assemble('reset'),
    ...(holding.length > 0 ? [assemble('lease', holding)] : []),
  ];
}

/** Whether the units of a kernel are slots, which its Lua file can release and renew. */
const holdsSlots = (kernel: AnyKernel): boolean => 'lease' in luaFiles[kernel]!;

function changesByHand({ byHand }: (typeof CHANGED_BY_HAND)[number]): Script[] {
  return byHand.scripts.map((name) => assemble(name));
}

/** The stream of a feature, if it has one: its writers, and its readers. */
function streamOf({ name, streamOption, scripts = [] }: Feature): Use[] {
  if (streamOption === undefined) return [];
  const writer = assemble('evaluate', [DEFAULT_ALGORITHM as Kernel], [name]);
  const readers = scripts.map((script) => assemble(script));
  return [{ name: `\`${streamOption}\``, isEssential: false, scripts: [writer, ...readers] }];
}

/** Uses for operators, on which limits do not depend. @param limiters the limiters that have the uses, or all that are possible */
function usesAside(features: Partial<Features> = {}, limiters?: readonly Announcement[]): Use[] {
  const { publishes = true, recordsChanges = true, countsTraffic = true, streams = true } = features;
  const use = (isUsed: boolean, name: string, ...scripts: ScriptName[]): Use[] =>
    isUsed ? [{ name, isEssential: false, scripts: scripts.map((script) => assemble(script)) }] : [];
  return [
    ...use(publishes, '`headgate limits`', 'publish', 'configure'),
    ...CHANGED_BY_HAND.flatMap(({ byHand: { isOf, command, isBestEffort } }) =>
      use(
        (recordsChanges || !isBestEffort) && (limiters?.some(isOf) ?? true),
        `\`headgate ${command}\``,
        'note-changes',
      ),
    ),
    ...use(countsTraffic, '`headgate top`', 'count'),
    ...(streams ? FEATURES.flatMap(streamOf) : []),
  ];
}
