import { createHash } from 'node:crypto';
import type { Kernel } from '../algorithms/index.js';
import { lua } from '../generated/lua.js';

/** A script as Redis runs it. */
export interface Script {
  readonly source: string;
  /** What EVALSHA calls it by. */
  readonly sha: string;
}

export type ScriptName = 'evaluate' | 'evaluate-single' | 'adjust' | 'lease' | 'reset' | 'set-ban';

const scripts = new Map<string, Script>();

/** The Lua local that an algorithm's page defines. */
const localOf = (page: string): string => page.replaceAll('-', '_');

/** The first function of a page that a script has no use for: all after it is left out. */
const CUTS: Partial<Record<ScriptName, RegExp>> = {
  evaluate: /^function \w+\.(charge|adjust)\(/m,
  'evaluate-single': /^function \w+\.adjust\(/m,
};

function pageOf(name: ScriptName, kernel: Kernel): string {
  const page = lua[kernel];
  const cut = CUTS[name] ? page.search(CUTS[name]) : -1;
  return cut < 0 ? page : page.slice(0, cut);
}

/** What stands between the pages and the script itself. */
function link(name: ScriptName, kernels: readonly Kernel[], ban: boolean): string[] {
  if (name === 'evaluate-single') return [`local kernel = ${localOf(kernels[0]!)}`, lua.common];
  // Redis refuses to read a global that does not exist: what is absent is a local without a value.
  const absent = [...(kernels.includes('concurrency') ? [] : ['concurrency']), ...(ban ? [] : ['ban'])];
  const locals = absent.length > 0 ? [`local ${absent.join(', ')}`] : [];
  if (name === 'reset' || name === 'set-ban') return [...locals, lua.common];
  const table = kernels.map((kernel) => `['${kernel}'] = ${localOf(kernel)}`);
  return [...locals, `local kernels = { ${table.join(', ')} }`, lua.common, lua.policies];
}

/**
 * Puts a script together from the pages that it needs and no others: Redis runs the whole text at each call. Made once per
 * combination, of which there are few: the kernels of a policy set, with or without a ban.
 */
export function assemble(name: ScriptName, kernels: readonly Kernel[], ban: boolean): Script {
  const pages = [...new Set(kernels)].sort();
  const id = [name, ...pages, ban].join();
  let script = scripts.get(id);
  if (!script) {
    const source = [
      ...pages.map((page) => pageOf(name, page)),
      ...(ban ? [lua.ban] : []),
      ...link(name, pages, ban),
      lua[name],
    ].join('\n');
    script = { source, sha: createHash('sha1').update(source).digest('hex') };
    scripts.set(id, script);
  }
  return script;
}
