import { createHash } from 'node:crypto';
import type { Kernel } from '../algorithms/index.js';
import { lua } from '../generated/lua.js';

/** A script as Redis runs it. */
export interface Script {
  readonly source: string;
  /** What EVALSHA calls it by. */
  readonly sha: string;
}

export type ScriptName = 'evaluate' | 'adjust' | 'lease' | 'reset' | 'set-ban';

const scripts = new Map<string, Script>();

/** The Lua local that an algorithm's page defines. */
const localOf = (page: string): string => page.replaceAll('-', '_');

/**
 * Puts a script together from the pages that it needs and no others: Redis runs the whole text at each call. Made once per
 * combination, of which there are few: the kernels of a policy set, with or without a ban.
 */
export function assemble(name: ScriptName, kernels: readonly Kernel[], ban: boolean): Script {
  const pages: string[] = [...new Set(kernels)].sort();
  const id = [name, ...pages, ban].join();
  let script = scripts.get(id);
  if (!script) {
    const table = `local kernels = { ${pages.map((page) => `['${page}'] = ${localOf(page)}`).join(', ')} }`;
    // Redis refuses to read a global that does not exist: what is absent is a local without a value.
    const absent = [...(pages.includes('concurrency') ? [] : ['concurrency']), ...(ban ? [] : ['ban'])];
    const source = [
      ...pages.map((page) => lua[page as Kernel]),
      ...(ban ? [lua.ban] : []),
      ...(absent.length > 0 ? [`local ${absent.join(', ')}`] : []),
      table,
      lua.common,
      lua[name],
    ].join('\n');
    script = { source, sha: createHash('sha1').update(source).digest('hex') };
    scripts.set(id, script);
  }
  return script;
}
