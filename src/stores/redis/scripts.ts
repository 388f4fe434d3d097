import { createHash } from 'node:crypto';
import { SHARES_KERNEL, SLOT_SHARES_KERNEL, type AnyKernel } from '../../algorithms/index.js';
import { luaFiles } from './lua-files.js';

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
    'read-crossings',
    'read-override',
    'reset',
    'seal-bans',
    'configure',
    'set-ban',
    'set-override',
  ] as const),
];

export type ScriptName = (typeof scriptNames)[number];

const scripts = new Map<string, Script>();

/** A part of scripts for some questions only. */
export type Extra = 'usage' | 'ids' | 'thresholds';

const EXTRAS: ReadonlySet<string> = new Set<Extra>(['usage', 'ids', 'thresholds']);

/**
 * A script with only the algorithms that it needs, because Redis compiles the whole text. Each combination is assembled once. There are few
 * combinations: the kernels of a policy set, with or without a ban, with or without overrides, and the extra parts.
 */
export function assemble(
  name: ScriptName,
  kernels: readonly AnyKernel[],
  ban: boolean,
  overrides = false,
  extras: readonly Extra[] = [],
): Script {
  const needed = [...new Set(kernels)].sort();
  const visible = kernels.filter((kernel) => kernel !== SHARES_KERNEL);
  const outright = isOutright(name, visible, kernels.length - visible.length, extras) ? visible : [];
  const id = [name, ...needed, ban, overrides, ...extras, ...outright].join();
  let script = scripts.get(id);
  if (!script) {
    const source = compose(name, { kernels: needed, policies: outright, ban, overrides, extras });
    script = { source, sha: createHash('sha1').update(source).digest('hex') };
    scripts.set(id, script);
  }
  return script;
}

/** The most policies for which a script has code of their own. More would make it long. */
const MAX_OUTRIGHT = 6;

/** Whether a script charges policies before it looks. @param hidden the count of hidden policies: a pool and a tenant for a shared policy */
function isOutright(
  name: ScriptName,
  kernels: readonly AnyKernel[],
  hidden: number,
  extras: readonly Extra[],
): boolean {
  const all = kernels.length <= MAX_OUTRIGHT && kernels.every((kernel) => luaFiles[kernel]!['charge']);
  return name === 'evaluate' && !extras.includes('usage') && kernels.length > 0 && all && hidden <= 2;
}

/** The features of a script. */
interface Features {
  readonly kernels: readonly AnyKernel[];
  /** The algorithm of each policy, in their order, if the script charges them outright. */
  readonly policies: readonly AnyKernel[];
  readonly ban: boolean;
  readonly overrides: boolean;
  readonly extras: readonly Extra[];
}

/** A line of a Lua file that begins with three dashes, which `compose` replaces. */
const DIRECTIVE = /^--- (include|if|for|end)\b ?(.*)$/;

/**
 * A script with its parts. Each file in lua/ lists them in the order in which they run:
 *
 * - `--- include common.write` is the section of a file; without a section, the lines before the first one. `algorithm` is the file of the
 *   script's algorithm
 * - `--- if ban`, up to `--- end`: only if the script has this feature (`ban`, `overrides`, `keyed` for one of the two, `sharing`,
 *   `slot_sharing`, `weights`, `usage`, `ids`, `thresholds`), or the
 *   algorithm has this section
 *   (`algorithm.charge`)
 * - `--- for each algorithm`, up to `--- end`: once for each of the script's algorithms; `--- for each policy`: once for each policy
 *
 * Redis runs a script from the first line on at each call, and creates each function anew. The code that nearly every decision needs
 * therefore comes first, and usually answers before the rest is defined.
 */
export function compose(name: ScriptName, features: Features): string {
  return expand(luaFiles[name]!['first']!, features, features.kernels[0]);
}

function expand(text: string, features: Features, algorithm: AnyKernel | undefined): string {
  const lines = text.match(/.+/g) ?? [];
  let expanded = '';
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!;
    const [, directive, subject = ''] = DIRECTIVE.exec(line) ?? [];
    if (directive === undefined) {
      expanded += `${line}\n`;
    } else if (directive === 'include') {
      expanded += expand(sectionOf(subject, algorithm)!, features, algorithm);
    } else {
      const end = endOf(lines, at);
      const block = lines.slice(at + 1, end).join('\n');
      at = end;
      if (directive === 'for')
        expanded += features[subject === 'each policy' ? 'policies' : 'kernels']
          .map((each) => expand(block, features, each))
          .join('');
      else if (has(subject, features, algorithm)) expanded += expand(block, features, algorithm);
    }
  }
  return expanded;
}

function has(
  subject: string,
  { kernels, policies, ban, overrides, extras }: Features,
  algorithm: AnyKernel | undefined,
): boolean {
  if (subject.endsWith('outright')) return policies.length > 0 === (subject === 'outright');
  if (subject.endsWith('keyed')) return (ban || overrides) === (subject === 'keyed');
  if (subject === 'ban') return ban;
  if (subject === 'overrides') return overrides;
  if (subject === 'sharing') return kernels.includes(SHARES_KERNEL);
  if (subject === 'slot_sharing') return kernels.includes(SLOT_SHARES_KERNEL);
  if (subject === 'weights') return hasWeights(kernels);
  if (EXTRAS.has(subject)) return extras.includes(subject as Extra);
  return sectionOf(subject, algorithm) !== undefined;
}

/** Whether a limit is shared, so that each request has a weight. */
export function hasWeights(kernels: readonly AnyKernel[]): boolean {
  return kernels.includes(SHARES_KERNEL) || kernels.includes(SLOT_SHARES_KERNEL);
}

function sectionOf(subject: string, algorithm: AnyKernel | undefined): string | undefined {
  const [file, section = 'first'] = subject.split('.') as [string, string?];
  return luaFiles[file === 'algorithm' ? algorithm! : file]![section];
}

/** The position of the `--- end` of the block that begins at a position. */
function endOf(lines: readonly string[], at: number): number {
  let depth = 0;
  for (let end = at; ; end++) {
    const directive = DIRECTIVE.exec(lines[end]!)?.[1];
    if (directive === 'if' || directive === 'for') depth++;
    if (directive === 'end' && --depth === 0) return end;
  }
}
