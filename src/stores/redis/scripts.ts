import { createHash } from 'node:crypto';
import type { Kernel } from '../../algorithms/index.js';
import { lua } from './generated/lua.js';

/** A script as Redis runs it. */
export interface Script {
  readonly source: string;
  /** The hash for EVALSHA. */
  readonly sha: string;
}

export type ScriptName = keyof typeof lua;

/** The parts of a script. */
export interface Parts {
  readonly first: string;
  readonly algorithms: Readonly<Partial<Record<Kernel | 'ban', string>>>;
  readonly last: string;
}

const parts: Readonly<Record<ScriptName, Parts>> = lua;
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
    const { first, algorithms, last } = parts[name];
    const source = [
      first,
      ...needed.map((kernel) => algorithms[kernel]),
      ban ? algorithms.ban : '',
      last,
    ].join('');
    script = { source, sha: createHash('sha1').update(source).digest('hex') };
    scripts.set(id, script);
  }
  return script;
}
