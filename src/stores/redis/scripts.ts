import { createHash } from 'node:crypto';
import type { Kernel } from '../../algorithms/index.js';
import { luaFiles } from './lua-files.js';

/** A script as Redis runs it. */
export interface Script {
  readonly source: string;
  /** The hash for EVALSHA. */
  readonly sha: string;
}

/** The scripts by the name of their file, and what each is composed of beside it and `common.lua`. */
const contents = {
  adjust: { policies: true, changes: true },
  check: {},
  count: {},
  evaluate: { policies: true, changes: true },
  'evaluate-single': {},
  lease: { policies: true, changes: true },
  'note-bans': {},
  publish: {},
  reset: {},
  'seal-bans': {},
  'set-ban': { policies: true },
} as const satisfies Record<string, { readonly policies?: true; readonly changes?: true }>;

export type ScriptName = keyof typeof contents;

export const scriptNames = Object.keys(contents) as ScriptName[];

const scripts = new Map<string, Script>();

/**
 * A script with only the algorithms that it needs, because Redis compiles the whole text. Each combination is assembled once. There are
 * few: the kernels of a policy set, with or without a ban.
 */
export function assemble(name: ScriptName, kernels: readonly Kernel[], ban: boolean): Script {
  const needed = [...new Set(kernels)].sort();
  const id = [name, ...needed, ban].join();
  let script = scripts.get(id);
  if (!script) {
    const source = compose(name, needed, ban).join('');
    script = { source, sha: createHash('sha1').update(source).digest('hex') };
    scripts.set(id, script);
  }
  return script;
}

/**
 * The parts of a script in their order. Redis runs them from the first line on at each call, and makes each function anew: so what nearly
 * every decision needs comes first, and answers most of them before the rest is even defined.
 */
export function compose(name: ScriptName, kernels: readonly Kernel[], ban: boolean): string[] {
  const { policies = false, changes = false }: { policies?: boolean; changes?: boolean } = contents[name];
  const [common, own] = [luaFiles['common']!, luaFiles[name]!];
  const algorithms = kernels.map((kernel) => luaFiles[kernel]!);
  return [
    common.first,
    ...algorithms.map(({ first }) => first),
    own.rest === '' ? '' : own.first,
    common.rest,
    changes ? common.changes : '',
    policies ? luaFiles['policies']!.first : '',
    ban ? luaFiles['ban']!.first : '',
    ...algorithms.flatMap((algorithm) => [algorithm.rest, changes ? algorithm.changes : '']),
    own.rest === '' ? own.first : own.rest,
  ];
}
