// The programs that the tests run: their paths, and their installation on Debian and Ubuntu. `npm run servers` gets both servers.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { read, root, run } from './lib/run.mjs';

/** @typedef {'redis' | 'valkey' | 'postgres' | 'pgbouncer' | 'chromium' | 'prometheus' | 'luacheck' | 'compiler' | 'python'} ProgramName */

/**
 * The programs: the variable for the path, the possible names (first the package's), the variable for a server's URL, the package, and a
 * folder to search in addition to the PATH.
 */
const programs =
  /** @type {Record<ProgramName, { variable: string, commands: string[], url?: string, apt?: string, folder?: string }>} */ ({
    redis: { variable: 'REDIS_SERVER', commands: ['redis-server'], url: 'REDIS_URL' },
    valkey: { variable: 'VALKEY_SERVER', commands: ['valkey-server'], url: 'VALKEY_URL' },
    postgres: {
      variable: 'POSTGRES',
      commands: ['postgres'],
      apt: 'postgresql',
      folder: '/usr/lib/postgresql/*/bin',
    },
    pgbouncer: { variable: 'PGBOUNCER', commands: ['pgbouncer'] },
    chromium: { variable: 'CHROMIUM', commands: ['chromium', 'chromium-browser', 'google-chrome'] },
    prometheus: { variable: 'PROMETHEUS', commands: ['prometheus'] },
    luacheck: { variable: 'LUACHECK', commands: ['luacheck'], apt: 'lua-check' },
    // Both compile better-sqlite3, where its package does not bring a file for this Node.
    compiler: { variable: 'CXX', commands: ['g++'], apt: 'build-essential' },
    python: { variable: 'PYTHON', commands: ['python3'] },
  });

/**
 * The path of a program: from its variable, or else the first on the PATH. Throws with the fix.
 *
 * @param {ProgramName} name
 * @returns {string}
 */
export function findProgram(name) {
  const { variable, commands, folder = '' } = programs[name];
  const named = process.env[variable];
  const path = `${process.env['PATH']}:${foldersOf(folder)}`;
  const env = { ...process.env, PATH: path };
  const [found] = spawnSync('which', named ? [named] : commands, { encoding: 'utf8', env }).stdout.split(
    '\n',
  );
  if (found) return found;
  if (named)
    throw new Error(
      `${variable}=${named} is not an executable file. Set it to the path of a ${name}, or unset it.`,
    );
  const backports = name === 'valkey' ? ', on Debian 12 from bookworm-backports' : '';
  throw new Error(
    `${commands[0]} was not found on the PATH. Install it (Debian and Ubuntu: sudo apt-get install ${packageOf(name)}${backports}; ` +
      `macOS: brew install ${name}), or set ${variable} to its path.`,
  );
}

/**
 * Ensures that programs are installed, with apt-get if needed.
 *
 * @param {ProgramName[]} names
 * @returns {string[]} the missing programs, with the fix for each
 */
export function getPrograms(...names) {
  return names.flatMap((name) => {
    const { variable, url } = programs[name];
    try {
      return (findProgram(name), []);
    } catch (error) {
      const { message } = /** @type {Error} */ (error);
      // A server from a URL serves all tests except the tests with servers of their own.
      if (url && process.env[url]) return [];
      if (process.env[variable] || process.env['HEADGATE_APT'] === 'no') return [message];
      return install(packageOf(name)) ? [] : [message];
    }
  });
}

/** The folders of a pattern, the newest version first. @param {string} pattern */
function foldersOf(pattern) {
  const [parent = '', rest = ''] = pattern.split('*');
  if (rest === '' || !existsSync(parent)) return '';
  const versions = readdirSync(parent).sort((a, b) => Number(b) - Number(a));
  return versions.map((version) => join(parent, version, rest)).join(':');
}

/** @param {ProgramName} name */
function packageOf(name) {
  const { apt, commands } = programs[name];
  return apt ?? /** @type {string} */ (commands[0]);
}

/** @param {string} name a Debian package */
function install(name) {
  const sudo = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  const [command = '', ...rest] = [...sudo, 'sh'];
  if (read('apt-get', ['--version']) === undefined || read(command, [...rest, '-c', 'true']) === undefined)
    return false;
  console.log(`Installing ${name} with apt-get, as root. Set HEADGATE_APT=no to install it yourself.`);
  return run(command, [...rest, join(root, 'scripts/lib/install.sh'), name]) === 0;
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const problems = getPrograms('redis', 'valkey');
  console.error(problems.join('\n'));
  process.exit(Math.min(problems.length, 1));
}
