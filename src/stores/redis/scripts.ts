import { createHash } from 'node:crypto';
import type { AnyKernel } from '../../algorithms/index.js';
import { luaFiles, type LuaFile } from './lua-files.js';

/** A script as Redis runs it. */
export interface Script {
  readonly source: string;
  /** The hash for EVALSHA. */
  readonly sha: string;
}

/** The names of the scripts, which are also the names of their files. */
export const scriptNames = [
  ...(['adjust', 'check', 'count', 'evaluate', 'evaluate-single', 'lease'] as const),
  ...([
    'note-bans',
    'note-override',
    'publish',
    'read-override',
    'reset',
    'seal-bans',
    'set-ban',
    'set-override',
  ] as const),
];

export type ScriptName = (typeof scriptNames)[number];

/** The scripts whose arguments contain any policies. */
const OF_POLICIES: readonly ScriptName[] = ['adjust', 'evaluate', 'lease', 'set-ban'];

const scripts = new Map<string, Script>();

/**
 * A script with only the algorithms that it needs, because Redis compiles the whole text. Each combination is assembled once. There are few
 * combinations: the kernels of a policy set, with or without a ban, with or without overrides.
 */
export function assemble(
  name: ScriptName,
  kernels: readonly AnyKernel[],
  ban: boolean,
  overrides = false,
): Script {
  const needed = [...new Set(kernels)].sort();
  const id = [name, ...needed, ban, overrides].join();
  let script = scripts.get(id);
  if (!script) {
    const source = compose(name, needed, ban, overrides).join('');
    script = { source, sha: createHash('sha1').update(source).digest('hex') };
    scripts.set(id, script);
  }
  return script;
}

/**
 * The parts of a script in their order. Redis runs a script from the first line on at each call, and creates each function anew. The code
 * that nearly every decision needs therefore comes first, and usually answers before the rest is defined.
 */
export function compose(
  name: ScriptName,
  kernels: readonly AnyKernel[],
  ban: boolean,
  overrides: boolean,
): string[] {
  const own = luaFiles[name]!;
  const live = overrides ? luaFiles['overrides']!.rest + own.live : '';
  const reads = name.startsWith('evaluate') ? luaFiles['overrides']!.first : '';
  const ownLive = overrides ? reads + own.overrides : '';
  const { common, policies } = luaFiles as Record<'common' | 'policies', LuaFile>;
  const algorithms = kernels.map((kernel) => luaFiles[kernel]!);
  const firsts = algorithms.map(({ first }) => first);
  if (name === 'evaluate-single') {
    const { charge, rest } = algorithms[0]!;
    return [
      common.first,
      ...firsts,
      own.first,
      ownLive,
      own.costs,
      charge,
      own.charge,
      common.rest,
      live,
      chargeFunction(charge),
      rest,
      own.rest,
    ];
  }
  const rests = algorithms.flatMap(({ rest, changes }) => [rest, changes]);
  const bans = ban ? luaFiles['ban']!.first : '';
  const all = [common.rest, common.changes, live, policies.rest, bans, ...rests];
  if (!OF_POLICIES.includes(name)) return [common.first, common.rest, common.changes, own.first];
  if (name !== 'evaluate')
    return [common.first, policies.first, ...firsts, ...all, own.first, ownLive, own.costs];
  const charges = kernels.flatMap((kernel, i) => [
    algorithms[i]!.first,
    chargeFunction(algorithms[i]!.charge),
    `kernels['${kernel}'] = { params = kernel_params, charge = kernel_charge }\n`,
  ]);
  const strikes = `local strikes = ${ban ? 1 : 0}\n`;
  return [common.first, policies.first, ...charges, strikes, own.first, ownLive, own.costs, ...all, own.rest];
}

/** The part `charge` of an algorithm, as a function. */
function chargeFunction(charge: string): string {
  if (charge === '') return 'local kernel_charge\n';
  return [
    'local function kernel_charge(request, last, p, at, cost, text, reply, filled)\n',
    'local before\n',
    charge,
    'return request, filled, before\n',
    'end\n',
  ].join('');
}
