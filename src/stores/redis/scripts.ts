import { createHash } from 'node:crypto';
import { SHARES_KERNEL, type AnyKernel } from '../../algorithms/index.js';
import type { Feature } from '../../features/feature.js';
import { FEATURES } from '../../features/features.js';
import { readersOf, requestReadersOf } from '../../features/layout.js';
import { luaFiles } from './lua-files.js';
import { paramsLua, type ParamSource, type ParamScope } from './packed-params.js';

export interface Script {
  readonly source: string;
  readonly sha: string;
}

/** The names of the scripts, which are also the names of their files. */
export const scriptNames: readonly string[] = [
  ...['adjust', 'check', 'count', 'evaluate', 'evaluate-single'],
  ...['note-changes', 'publish', 'reset', 'configure'],
  ...FEATURES.flatMap(({ scripts = [], byHand }) => [...scripts, ...(byHand?.scripts ?? [])]),
];

export type ScriptName = string;

const scripts = new Map<string, Script>();

/** The part of scripts about the usage of a key, and the hook of features in these scripts. */
const USAGE = 'usage';

/** The parts of scripts that not all questions need: those of features, and those of `usage`. */
const PARTS: readonly string[] = [...FEATURES.map(({ name }) => name), USAGE];

/** The features without keys and arguments. */
const PLAIN: ReadonlySet<string> = new Set(FEATURES.flatMap(({ name, isPlain }) => (isPlain ? [name] : [])));

/** The name of a feature, or `'usage'`. */
export type ScriptPart = string;

/**
 * A script with only the algorithms that it needs, because Redis compiles the whole text. Each combination is assembled once. There are few
 * combinations: the kernels of a policy set, and the parts.
 */
export function assemble(
  name: ScriptName,
  kernels: readonly AnyKernel[] = [],
  parts: readonly ScriptPart[] = [],
): Script {
  const needed = [...new Set(kernels)].sort();
  const visible = kernels.filter((kernel) => kernel !== SHARES_KERNEL);
  const outright = isOutright(name, visible, kernels.length - visible.length, parts) ? visible : [];
  const id = [name, ...needed, '', ...outright, '', ...PARTS.filter((part) => parts.includes(part))].join();
  let script = scripts.get(id);
  if (!script) {
    const source = compose(name, { kernels: needed, policies: outright, parts });
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
  parts: readonly ScriptPart[],
): boolean {
  const all = kernels.length <= MAX_OUTRIGHT && kernels.every((kernel) => luaFiles[kernel]!['charge']);
  return name === 'evaluate' && !parts.includes(USAGE) && kernels.length > 0 && all && hidden <= 2;
}

interface Features {
  readonly kernels: readonly AnyKernel[];
  /** The algorithm of each policy, in their order, if the script charges them outright. */
  readonly policies: readonly AnyKernel[];
  readonly parts: readonly ScriptPart[];
}

/** The features of a script, and the place in it. */
interface Scope extends Features, ParamScope {}

/** A line of a Lua file that begins with three dashes, which `compose` replaces. */
const DIRECTIVE = /^--- (include|if|else|for each feature|for|end|\w+)\b ?(.*)$/;

/**
 * A script with its parts. Each file in lua/ lists them in the order in which they run:
 *
 * - `--- include common.write` is the section of a file; without a section, the lines before the first one. `algorithm` is the file of the
 *   script's algorithm, and nothing if it has no such section. `of table` or the like sets the place of the params: see `packed-params.ts`, which also has the directives about them
 * - `--- for each feature charged` is the section of this name of each of the script's features, in a block of its own. The sections
 *   `decision`, `arguments`, `requests` and `single`, and those of `OPEN_SECTIONS`, have no block, because they declare the variables of the other
 *   sections. Before `decision`, `single`, `arguments`, `requests` and `change`, each argument of a layout of the feature becomes a variable
 * - `--- if keyed`, up to `--- else` or `--- end`: only if the script has a feature with keys or arguments; `outright`: code for each policy; `algorithm.charge`: only
 *   if the algorithm has this section; with `not`, only if it does not
 * - `--- for each algorithm`, up to `--- end`: once for each of the script's algorithms; `--- for each policy`: once for each policy
 *
 * Redis runs a script from the first line on at each call, and creates each function anew. The code that nearly every decision needs
 * therefore comes first, and usually answers before the rest is defined.
 *
 * Lua allows 200 locals in a function, so each algorithm and each feature with functions of its own is a block, `do ... end`, that leaves only the
 * locals which other parts use. test/redis/script-sizes.test.ts keeps every combination far from the bound.
 */
export function compose(name: ScriptName, features: Features): string {
  const [algorithm] = features.kernels;
  const text = expand(luaFiles[name]!['first']!, { ...features, algorithm, source: 'single', policy: 0 });
  const signals = features.kernels.map((kernel) => luaFiles[kernel]!['signals'] ?? '').join('');
  const { first, end } = luaFiles['signal']!;
  return signals === '' ? text : `${signals}${first!}${text}${end!}`;
}

function expand(text: string, scope: Scope): string {
  const lines = text.match(/.+/g) ?? [];
  let expanded = '';
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!;
    const [, directive, subject = ''] = DIRECTIVE.exec(line) ?? [];
    if (directive === undefined) {
      expanded += `${line}\n`;
    } else if (directive === 'include') {
      const [section, source = scope.source] = subject.split(' of ') as [string, ParamSource?];
      expanded += expand(sectionOf(section, scope.algorithm) ?? '', { ...scope, source });
    } else if (directive === 'for each feature') {
      if (subject === USAGE && !scope.parts.includes(USAGE)) continue;
      for (const feature of FEATURES)
        if (hasFeature(feature, scope)) expanded += hookOf(feature, subject, scope);
    } else if (directive === 'if' || directive === 'for') {
      const [middle, end] = endsOf(lines, at);
      const block = lines.slice(at + 1, middle).join('\n');
      const otherwise = lines.slice(middle + 1, end).join('\n');
      at = end;
      if (directive === 'for')
        expanded += scope[subject === 'each policy' ? 'policies' : 'kernels']
          .map((algorithm, policy) => expand(block, { ...scope, algorithm, policy }))
          .join('');
      else expanded += expand(has(subject, scope) ? block : otherwise, scope);
    } else {
      expanded += paramsLua(directive, subject, scope);
    }
  }
  return expanded;
}

/** The sections that have no block, because they declare the variables of others. */
const OPEN_SECTIONS: ReadonlySet<string> = new Set([
  ...['define', 'prepare', 'prepare_change', 'variables', 'recorder', 'steps', 'fast_prepare', 'fast_open'],
  ...['single_requests', 'single_prepare', 'single_keyed'],
]);

function hookOf(
  { name, args, changeArgs, decisionArgs, requestArgs }: Feature,
  hook: string,
  scope: Scope,
): string {
  const section = luaFiles[name]?.[hook];
  const code = section === undefined ? '' : expand(section, scope);
  if (hook === 'arguments') return readersOf(args) + code;
  if (hook === 'decision') return readersOf(decisionArgs) + code;
  if (hook === 'requests') return requestReadersOf(requestArgs) + code;
  if (hook === 'single') return readersOf(decisionArgs) + code;
  const block = hook === 'change' ? readersOf(changeArgs) + code : code;
  return OPEN_SECTIONS.has(hook) || block === '' ? block : `do\n${block}end\n`;
}

/** Whether a script has a feature: by its name among the parts, or by its policies. */
function hasFeature({ name, kernels: own = [] }: Feature, { kernels, parts }: Features): boolean {
  return parts.includes(name) || own.some((kernel) => kernels.includes(kernel));
}

function has(subject: string, scope: Scope): boolean {
  const { policies, parts, algorithm } = scope;
  if (subject.startsWith('not ')) return !has(subject.slice('not '.length), scope);
  if (subject === 'outright') return policies.length > 0;
  if (subject === 'keyed') return parts.some((part) => part !== USAGE && !PLAIN.has(part));
  return sectionOf(subject, algorithm) !== undefined;
}

function sectionOf(subject: string, algorithm: AnyKernel | undefined): string | undefined {
  const [file, section = 'first'] = subject.split('.') as [string, string?];
  return luaFiles[file === 'algorithm' ? algorithm! : file]![section];
}

/** The positions of the `--- else`, if there is one, and of the `--- end` of the block that begins at a position. */
function endsOf(lines: readonly string[], at: number): [middle: number, end: number] {
  let depth = 0;
  let middle: number | undefined;
  for (let end = at; ; end++) {
    const directive = DIRECTIVE.exec(lines[end]!)?.[1];
    if (directive === 'if' || directive === 'for') depth++;
    if (directive === 'else' && depth === 1) middle = end;
    if (directive === 'end' && --depth === 0) return [middle ?? end, end];
  }
}
