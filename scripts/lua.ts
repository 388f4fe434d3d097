// npm run lua:check: lints the Lua in whole scripts, as Redis runs the scripts, and checks that each file documents its inputs and result.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { algorithms } from '../src/algorithms/index.js';
import type { Feature } from '../src/features/feature.js';
import { FEATURES } from '../src/features/features.js';
import { luaFiles } from '../src/stores/redis/lua-files.js';
import { compose, scriptNames, type ScriptPart } from '../src/stores/redis/scripts.js';
import { root } from './lib/run.mjs';
import { findProgram, getPrograms } from './programs.mjs';

/** The subjects that the comment at the beginning of a file must explain. */
const explained = {
  // A feature's file with params is an algorithm, too.
  'src/algorithms': ['State', 'Params', 'Returns'],
  'src/stores/redis/lua': ['KEYS', 'ARGV', 'Reply'],
  ...Object.fromEntries(
    readdirSync(join(root, 'src/features'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => [`src/features/${name}`, ['KEYS', 'ARGV', 'Reply']]),
  ),
};

type Kernel = keyof typeof algorithms;
const kernels = Object.keys(algorithms) as Kernel[];

const namesOf = (features: readonly Feature[]): ScriptPart[] => features.map(({ name }) => name);

/** The features of algorithms, which no script of the algorithm lacks; those of scripts that decide; and those of changes, too. */
const ofRequests = namesOf(FEATURES.filter(({ requestArgs }) => requestArgs));
const deciding = namesOf(FEATURES.filter(({ decisionArgs }) => decisionArgs));
const changing = namesOf(FEATURES.filter(({ args, decisionArgs }) => args ?? decisionArgs));

const findings = [...unexplained(), ...lint(scripts())];
if (findings.length > 0) fail(findings.join('\n'));

function unexplained(): string[] {
  return Object.entries(explained).flatMap(([directory, words]) =>
    readdirSync(join(root, directory), { encoding: 'utf8', recursive: true })
      .filter((name) => name.endsWith('.lua'))
      .flatMap((name) => {
        const [header = ''] = readFileSync(join(root, directory, name), 'utf8').split('\n\n');
        const own = /^-- Params:/m.test(header) ? explained['src/algorithms'] : words;
        const missing = own.filter((word) => !new RegExp(`^-- ${word}:`, 'm').test(header));
        return missing.map((word) => `${directory}/${name}: its opening comment must describe ${word}.`);
      }),
  );
}

interface Script {
  readonly name: string;
  readonly source: string;
}

/** Every script with each algorithm alone; scripts for several policies also with all algorithms; with and without features and overrides. */
function scripts(): Script[] {
  return scriptNames.flatMap((name) => {
    const own = kernels.filter((kernel) => name !== 'lease' || luaFiles[kernel]!['lease'] !== undefined);
    const alone = own.map((kernel) => [kernel]);
    const sets = name.endsWith('-single') ? alone : [own, ...alone];
    const bans: ScriptPart[][] = name.startsWith('evaluate') ? [[], deciding] : [[]];
    const others: ScriptPart[][] = ['evaluate', 'adjust'].includes(name)
      ? [ofRequests, [...ofRequests, ...changing]]
      : [[]];
    const live: ScriptPart[][] =
      name.startsWith('evaluate') || name === 'adjust' ? [[], ['overrides']] : [[]];
    return sets.flatMap((set) =>
      bans.flatMap((ban) =>
        live.flatMap((overrides) =>
          others.map((other) => {
            const parts = [...ban, ...overrides, ...other];
            return {
              name: `${name} (${[...set, ...parts].join(', ')})`,
              source: compose(name, { kernels: set, policies: policiesOf(set), parts }),
            };
          }),
        ),
      ),
    );
  });
}

/** The policies of `evaluate` that are charged outright: two of an algorithm that can be. */
function policiesOf(set: Kernel[]): Kernel[] {
  return set.length === 1 && luaFiles[set[0]!]!['charge'] ? [...set, ...set] : [];
}

/** The findings of luacheck. A variable counts as unused only if every script with its line leaves it unused. */
function lint(scripts: Script[]): string[] {
  const found = new Map<string, string[]>();
  for (const { script, line, code, text } of luacheck(scripts)) {
    const { name, source } = scripts[script]!;
    const finding = `${text} (${code}): ${source.split('\n')[line - 1]}`;
    found.set(finding, [...(found.get(finding) ?? []), name]);
  }
  return [...found].flatMap(([finding, names]) => {
    const line = `${finding.slice(finding.indexOf('): ') + 3)}\n`;
    const among = scripts.filter(({ source }) => source.includes(line)).length;
    return /\(W[23]/.test(finding) && new Set(names).size < among ? [] : [`${names[0]}: ${finding}`];
  });
}

function luacheck(scripts: Script[]) {
  const command = findLuacheck();
  const directory = mkdtempSync(join(tmpdir(), 'headgate-lua-'));
  try {
    const files = scripts.map(({ source }, at) => {
      writeFileSync(join(directory, `${at}.lua`), source);
      return `${at}.lua`;
    });
    const args = ['--config', join(root, '.luacheckrc'), '--formatter', 'plain', '--codes', ...files];
    const { stdout, stderr, status } = spawnSync(command, args, { cwd: directory, encoding: 'utf8' });
    if (stderr || status === null || status > 2) fail(`luacheck failed: ${stderr}`);
    return [...stdout.matchAll(/^(\d+)\.lua:(\d+):\d+: \((\w+)\) (.*)$/gm)].map(
      ([, script, line, code, text]) => ({ script: Number(script), line: Number(line), code, text }),
    );
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function findLuacheck(): string {
  const [problem] = getPrograms('luacheck');
  return problem === undefined ? findProgram('luacheck') : fail(problem);
}

function fail(message: string): never {
  console.error(message);
  process.exit(1);
}
