// The Lua files are the source; src/stores/redis/generated/lua.ts holds them, stripped, so that the package reads no files.
//   build   writes the generated module
//   check   lints the Lua as Redis will see it, and fails when the generated module is stale
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { aptInstall, canInstall } from './lib/apt.mjs';
import { composeScripts, GENERATED, parse, SINGLE } from './lib/lua.mjs';
import { read, root } from './lib/run.mjs';

const generated = join(root, GENERATED);
const { module, statements, unused } = await composeScripts().catch((/** @type {Error} */ error) =>
  fail(error.message),
);

if (process.argv[2] === 'build') {
  mkdirSync(dirname(generated), { recursive: true });
  writeFileSync(generated, module);
} else if (process.argv[2] === 'check') {
  if (!existsSync(generated) || readFileSync(generated, 'utf8') !== module) {
    fail(`${GENERATED} is stale: run npm run lua:build and commit it.`);
  }
  const findings = [
    ...unused.map(({ file, lines, defines }) => `${file}:${lines[1]}: no script uses ${defines.join()}`),
    ...lint(await assembled()),
  ];
  if (findings.length > 0) fail(findings.join('\n'));
} else {
  console.error('usage: tsx scripts/lua.mjs build|check');
  process.exit(2);
}

/**
 * Each script as the Redis store assembles it: with every algorithm that it may have, and with each alone.
 * @returns {Promise<string[]>}
 */
async function assembled() {
  const { assemble } = await import('../src/stores/redis/scripts.js');
  const { lua } = await import('../src/stores/redis/generated/lua.js');
  const { algorithms } = await import('../src/algorithms/index.js');
  const names = /** @type {(keyof typeof lua)[]} */ (Object.keys(lua));
  const kernels = /** @type {(keyof typeof algorithms)[]} */ (Object.keys(algorithms));
  const scripts = names.flatMap((name) => {
    const own = kernels.filter((kernel) => kernel in lua[name].algorithms);
    const ban = 'ban' in lua[name].algorithms;
    const together = name === SINGLE ? [] : [assemble(name, own, ban)];
    return [...together, ...own.map((kernel) => assemble(name, [kernel], false))];
  });
  return [...new Set(scripts.map(({ source }) => source))];
}

/**
 * What luacheck finds in the scripts, by the files that they come from. Something counts as unused only if every script that has it leaves
 * it unused.
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
    const place = origin ? `${origin.statement.file}:${origin.line}` : `assembled script ${script}:${line}`;
    const among =
      unused && origin ? scripts.filter((source) => source.includes(origin.statement.text)).length : 1;
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
      parse(`assembled script ${at}`, source);
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
 * Where a line of an assembled script comes from; undefined for what makes the algorithms known to it.
 * @param {string} script
 * @param {number} line
 */
function locate(script, line) {
  for (const statement of statements) {
    const at = script.indexOf(statement.text);
    if (at < 0) continue;
    const own = line - script.slice(0, at).split('\n').length + 1;
    if (own >= 1 && own < statement.text.split('\n').length) return { statement, line: statement.lines[own] };
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
