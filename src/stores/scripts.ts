import { createHash } from 'node:crypto';
import type { Kernel } from '../algorithms/index.js';
import { lua } from '../generated/lua.js';

/** A script as Redis runs it. */
export interface Script {
  readonly source: string;
  /** What EVALSHA calls it by. */
  readonly sha: string;
}

export type ScriptName =
  | 'evaluate'
  | 'evaluate-single'
  | 'adjust'
  | 'lease'
  | 'reset'
  | 'set-ban'
  | 'publish'
  | 'note-bans'
  | 'count';

const scripts = new Map<string, Script>();

/** The Lua local that an algorithm's page defines. */
const localOf = (page: string): string => page.replaceAll('-', '_');

/** The functions of a page that a script has no use for. */
const UNUSED: Partial<Record<ScriptName, RegExp>> = {
  evaluate: /^function \w+\.charge\(/,
  'evaluate-single': /^(local )?function (\w+\.(adjust|release|renew)|\w+_(give_back\w*|holds))\(/,
};

function pageOf(name: ScriptName, kernel: Kernel): string {
  const unused = UNUSED[name];
  // Before each function that stands by itself.
  const parts = lua[kernel].split(/^(?=(?:local )?function )/m);
  return parts.filter((part) => !unused?.test(part)).join('');
}

/**
 * The only page of a script, with its functions as locals: for one call, making a table costs more than it helps. All of it
 * is text of `src/algorithms`: `local gcra = { params = 5 }`, `function gcra.look(...)`.
 */
function solePage(kernel: Kernel): string {
  return pageOf('evaluate-single', kernel)
    .replace(
      /^local \w+ = \{ params = (\d+)[^}]*\}$/m,
      'local page_look, page_commit, page_charge\nlocal page_params = $1',
    )
    .replace(/^function \w+\.(\w+)\(/gm, 'function page_$1(');
}

/** What stands before the script itself. */
function preamble(name: ScriptName, kernels: readonly Kernel[], ban: boolean): string[] {
  if (name === 'evaluate-single') return [lua.common, solePage(kernels[0]!)];
  // Redis refuses to read a global that does not exist: what is absent is a local without a value.
  const absent = [...(kernels.includes('concurrency') ? [] : ['concurrency']), ...(ban ? [] : ['ban'])];
  const table = kernels.map((kernel) => `['${kernel}'] = ${localOf(kernel)}`);
  return [
    lua.common,
    ...kernels.map((kernel) => pageOf(name, kernel)),
    ...(ban ? [lua.ban] : []),
    ...(absent.length > 0 ? [`local ${absent.join(', ')}`] : []),
    `local kernels = { ${table.join(', ')} }`,
    lua.policies,
  ];
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
    const source = [...preamble(name, pages, ban), lua[name]].join('\n');
    script = { source, sha: createHash('sha1').update(source).digest('hex') };
    scripts.set(id, script);
  }
  return script;
}
