// The Lua files are the source; src/generated/lua.ts holds them, stripped, so that the package reads no files.
//   build   writes the generated module
//   check   lints the Lua as Redis will see it, and fails when the generated module is stale
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import luaparse from 'luaparse';
import prettier from 'prettier';
import { aptInstall, canInstall } from './lib/apt.mjs';
import { read, root } from './lib/run.mjs';

/**
 * @typedef {{ name: string, file: string, stripped: string, lines: number[] }} Chunk `lines`: of the source, per line
 * @typedef {{ range: [number, number], line: number }} Token
 */

const generated = 'src/generated/lua.ts';
const headers = {
  'src/algorithms': ['State', 'Params', 'Returns'],
  'src/stores': ['KEYS', 'ARGV', 'Reply'],
};
/** What no script runs alone: the pages of the algorithms, and what scripts begin with. */
const shared = ['common', 'policies'];
/** What is for one algorithm at a time. */
const single = ['evaluate-single'];

const pages = readChunks('src/algorithms');
const commands = readChunks('src/stores');
const module = await render([...pages, ...commands]);

if (process.argv[2] === 'build') {
  mkdirSync(dirname(join(root, generated)), { recursive: true });
  writeFileSync(join(root, generated), module);
} else if (process.argv[2] === 'check') {
  if (!existsSync(join(root, generated)) || readFileSync(join(root, generated), 'utf8') !== module) {
    fail(`${generated} is stale: run npm run lua:build and commit it.`);
  }
  const findings = lint(await assembled());
  if (findings.length > 0) fail(findings.join('\n'));
} else {
  console.error('usage: tsx scripts/lua.mjs build|check');
  process.exit(2);
}

/**
 * @param {keyof typeof headers} directory
 * @returns {Chunk[]}
 */
function readChunks(directory) {
  const names = readdirSync(join(root, directory)).filter((name) => name.endsWith('.lua'));
  return names.sort().map((name) => {
    const file = `${directory}/${name}`;
    const source = readFileSync(join(root, file), 'utf8');
    const tokens = tokenize(file, source);
    const header = source.slice(0, tokens[0]?.range[0]);
    const missing = headers[directory].filter((word) => !new RegExp(`\\b${word}\\b`).test(header));
    if (missing.length > 0) fail(`${file}: its opening comment must describe ${missing.join(', ')}.`);
    return { name: name.slice(0, -'.lua'.length), file, ...strip(source, tokens) };
  });
}

/**
 * The tokens of a file that is valid Lua 5.1.
 * @param {string} file
 * @param {string} source
 */
function tokenize(file, source) {
  try {
    const parser = luaparse.parse(source, { wait: true, luaVersion: '5.1' });
    parser.end('');
    const lexer = luaparse.parse(source, { wait: true, luaVersion: '5.1', ranges: true });
    const tokens = [];
    for (let token = lexer.lex(); token.value !== '<eof>'; token = lexer.lex()) tokens.push(token);
    return tokens;
  } catch (error) {
    return fail(`${file}: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * The same tokens, without comments, blank lines and indentation. What is inside a token is never touched.
 * @param {string} source
 * @param {Token[]} tokens
 */
function strip(source, tokens) {
  let stripped = '';
  let end = 0;
  /** @type {number[]} */
  const lines = [];
  for (const { range, line } of tokens) {
    const gap = source.slice(end, range[0]);
    if (stripped !== '' && gap !== '') stripped += gap.includes('\n') ? '\n' : ' ';
    const at = stripped.split('\n').length;
    stripped += source.slice(range[0], range[1]);
    end = range[1];
    lines[at] ??= line;
  }
  return { stripped: `${stripped}\n`, lines };
}

/** @param {Chunk[]} chunks */
async function render(chunks) {
  const names = chunks.map(({ name }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice) fail(`Two Lua files are named ${twice}.lua: the generated module needs different names.`);
  const entries = chunks
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, stripped }) => `'${name}': \`${stripped.replace(/[\\`]|\$\{/g, '\\$&')}\`,`);
  const source = [
    '// Generated from the .lua files by npm run lua:build: edit those.',
    'export const lua = {',
    ...entries,
    '} as const;',
  ].join('\n');
  const options = await prettier.resolveConfig(join(root, generated));
  return prettier.format(source, { ...options, parser: 'typescript' });
}

/**
 * Each command as the Redis store assembles it: with every algorithm, and with each alone.
 * @returns {Promise<string[]>}
 */
async function assembled() {
  const { assemble } = await import('../src/stores/scripts.js');
  const { algorithms } = await import('../src/algorithms/index.js');
  const kernels = /** @type {(keyof typeof algorithms)[]} */ (Object.keys(algorithms));
  const names = commands.map(({ name }) => name).filter((name) => !shared.includes(name));
  return /** @type {Parameters<typeof assemble>[0][]} */ (names).flatMap((name) => [
    ...(single.includes(name) ? [] : [assemble(name, kernels, true).source]),
    ...kernels.map((kernel) => assemble(name, [kernel], false).source),
  ]);
}

/**
 * What luacheck finds in the scripts, by the files that they come from. What is unused must be so in every script
 * that has it.
 * @param {string[]} scripts
 * @returns {string[]}
 */
function lint(scripts) {
  /** @type {Map<string, number>} */
  const findings = new Map();
  for (const { script, line, code, text } of luacheck(scripts)) {
    const origin = locate(scripts[script] ?? '', line);
    const unused = /^W[23]/.test(code);
    if (!origin && unused) continue;
    const place = origin ? `${origin.chunk.file}:${origin.line}` : `assembled script ${script}:${line}`;
    const among =
      unused && origin ? scripts.filter((source) => source.includes(origin.chunk.stripped)).length : 1;
    const finding = `${place}: ${text} (${code})`;
    findings.set(finding, (findings.get(finding) ?? among) - 1);
  }
  return [...findings].filter(([, missing]) => missing <= 0).map(([finding]) => finding);
}

/** @param {string[]} scripts */
function luacheck(scripts) {
  const command = findLuacheck();
  const directory = mkdtempSync(join(tmpdir(), 'headgate-lua-'));
  try {
    const files = scripts.map((source, at) => {
      tokenize(`assembled script ${at}`, source);
      writeFileSync(join(directory, `${at}.lua`), source);
      return `${at}.lua`;
    });
    const args = ['--config', join(root, '.luacheckrc'), '--formatter', 'plain', '--codes', ...files];
    const { stdout, stderr, status } = spawnSync(command, args, { cwd: directory, encoding: 'utf8' });
    if (stderr || status === null || status > 2) fail(`luacheck failed: ${stderr}`);
    return [...stdout.matchAll(/^(\d+)\.lua:(\d+):\d+: \((\w+)\) (.*)$/gm)].map(
      ([, script, line, code, text]) => ({
        script: Number(script),
        line: Number(line),
        code: String(code),
        text: String(text),
      }),
    );
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/**
 * Where a line of an assembled script comes from; undefined for what the store puts in between.
 * @param {string} script
 * @param {number} line
 */
function locate(script, line) {
  for (const chunk of [...pages, ...commands]) {
    const at = script.indexOf(chunk.stripped);
    if (at < 0) continue;
    const first = script.slice(0, at).split('\n').length;
    const own = line - first + 1;
    if (own >= 1 && own < chunk.stripped.split('\n').length) return { chunk, line: chunk.lines[own] };
  }
  return undefined;
}

function findLuacheck() {
  if (read('luacheck', ['--version']) === undefined && canInstall()) aptInstall('lua-check');
  if (read('luacheck', ['--version']) !== undefined) return 'luacheck';
  return fail(
    'luacheck was not found on the PATH. Install it (Debian and Ubuntu: sudo apt-get install lua-check; ' +
      'elsewhere: luarocks install luacheck).',
  );
}

/**
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(message);
  process.exit(1);
}
