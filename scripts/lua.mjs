// The Lua files are the source; src/generated/lua.ts holds them, stripped, so that the package reads no files.
//   build   writes the generated module
//   check   lints the Lua as Redis will see it, and fails when the generated module is stale
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import luaparse from 'luaparse';
import prettier from 'prettier';
import { aptInstall, canInstall } from './lib/apt.mjs';
import { read, root } from './lib/run.mjs';

/**
 * @typedef {{ name: string, file: string, source: string, stripped: string }} Chunk
 * @typedef {{ file: string, line: number, code: string, text: string }} Finding
 */

const generated = 'src/generated/lua.ts';
const headers = {
  'src/algorithms': ['State', 'Params', 'Returns'],
  'src/stores': ['KEYS', 'ARGV', 'Reply'],
};

const algorithms = readChunks('src/algorithms');
const mains = readChunks('src/stores');
const module = await render([...algorithms, ...mains]);

if (process.argv[2] === 'build') {
  mkdirSync(dirname(join(root, generated)), { recursive: true });
  writeFileSync(join(root, generated), module);
} else if (process.argv[2] === 'check') {
  const findings = lint();
  for (const { file, line, code, text } of findings) console.error(`${file}:${line}: ${text} (${code})`);
  if (findings.length > 0) process.exit(1);
  if (!existsSync(join(root, generated)) || readFileSync(join(root, generated), 'utf8') !== module) {
    console.error(`${generated} is stale: run npm run lua:build and commit it.`);
    process.exit(1);
  }
} else {
  console.error('usage: node scripts/lua.mjs build|check');
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
    return { name: name.slice(0, -'.lua'.length), file, source, stripped: strip(source, tokens) };
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
 * @param {{ range: [number, number] }[]} tokens
 */
function strip(source, tokens) {
  let out = '';
  let end = 0;
  for (const { range } of tokens) {
    const gap = source.slice(end, range[0]);
    if (out !== '' && gap !== '') out += gap.includes('\n') ? '\n' : ' ';
    out += source.slice(range[0], range[1]);
    end = range[1];
  }
  return `${out}\n`;
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
 * A script is algorithms followed by a main chunk, so each main is linted behind all algorithms. An algorithm's
 * function may be unused in one script, not in all of them.
 * @returns {Finding[]}
 */
function lint() {
  const luacheck = findLuacheck();
  const scripts = mains.map((main) => [...algorithms, main]);
  for (const chunks of scripts) {
    tokenize(chunks.map(({ file }) => file).join(' + '), chunks.map(({ stripped }) => stripped).join(''));
  }
  const perScript = scripts.map((chunks) => lintScript(luacheck, chunks));
  /** @type {Map<string, { finding: Finding, count: number }>} */
  const seen = new Map();
  for (const finding of perScript.flat()) {
    const id = JSON.stringify(finding);
    seen.set(id, { finding, count: (seen.get(id)?.count ?? 0) + 1 });
  }
  const unused = 'W211';
  return [...seen.values()]
    .filter(({ finding, count }) => finding.code !== unused || !isShared(finding) || count === scripts.length)
    .map(({ finding }) => finding);
}

/** @param {Finding} finding */
function isShared({ file }) {
  return algorithms.some((chunk) => chunk.file === file);
}

/**
 * @param {string} luacheck
 * @param {Chunk[]} chunks
 * @returns {Finding[]}
 */
function lintScript(luacheck, chunks) {
  const input = chunks.map(({ source }) => source).join('');
  const args = ['--formatter', 'plain', '--codes', '--ranges', '-'];
  const { stdout, stderr, status } = spawnSync(luacheck, args, { cwd: root, input, encoding: 'utf8' });
  if (stderr || status === null || status > 2) fail(`luacheck failed: ${stderr}`);
  return [...stdout.matchAll(/^stdin:(\d+):\d+-\d+: \((\w+)\) (.*)$/gm)].map(([, line, code, text]) => ({
    ...locate(chunks, Number(line)),
    code: String(code),
    text: String(text),
  }));
}

/**
 * @param {Chunk[]} chunks
 * @param {number} line in the chunks put together
 */
function locate(chunks, line) {
  for (const { file, source } of chunks) {
    const length = source.split('\n').length - 1;
    if (line <= length) return { file, line };
    line -= length;
  }
  throw new RangeError('a line beyond the script');
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
