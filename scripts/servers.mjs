// Finds the Redis and Valkey servers for the tests, and installs them if possible.
import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { aptInstall, canInstall } from './lib/apt.mjs';
import { findProgram } from './lib/program.mjs';
import { read } from './lib/run.mjs';

/** @typedef {'redis' | 'valkey'} ServerKind */

const kinds = {
  redis: {
    variable: 'REDIS_SERVER',
    url: 'REDIS_URL',
    command: 'redis-server',
    apt: { service: 'redis-server.service' },
  },
  valkey: {
    variable: 'VALKEY_SERVER',
    url: 'VALKEY_URL',
    command: 'valkey-server',
    apt: { service: 'valkey-server.service', backports: 'bookworm' },
  },
};

/**
 * The path of a server's program. Throws with the fix.
 * @param {ServerKind} kind
 * @returns {string}
 */
export function findServer(kind) {
  const { variable, command } = kinds[kind];
  return findProgram({ variable, commands: [command], hint: installHint(kind) });
}

/** Makes sure that both servers are there, with apt if necessary, and prints their versions. Exits non-zero otherwise. */
export function ensureServers() {
  const problems = getServers();
  if (problems.length === 0) return;
  console.error(problems.join('\n'));
  process.exit(1);
}

/**
 * The same for the tests, which may be given servers that run already.
 * @returns {string[]} what is missing, and what to do about it
 */
export function getServers() {
  return /** @type {ServerKind[]} */ (['redis', 'valkey']).flatMap((kind) => {
    try {
      console.log(getServer(kind));
      return [];
    } catch (error) {
      return [/** @type {Error} */ (error).message];
    }
  });
}

/**
 * @param {ServerKind} kind
 * @returns {string} what is there
 */
function getServer(kind) {
  const { command, apt, variable, url } = kinds[kind];
  try {
    findServer(kind);
  } catch (error) {
    if (process.env[url])
      return `${command} is not there: tests that start one of their own will fail. The others use ${url}.`;
    if (process.env[variable] || !canInstall()) throw error;
    aptInstall(command, apt);
  }
  const path = findServer(kind);
  const version = read(path, ['--version'])?.trim();
  if (!version) throw new Error(`${path} --version failed: this is not a working ${command}.`);
  return `${path}: ${version}`;
}

/** @param {ServerKind} kind */
function installHint(kind) {
  if (process.platform === 'darwin') return `brew install ${kind}`;
  const { command } = kinds[kind];
  return kind === 'redis'
    ? `Debian and Ubuntu: sudo apt-get install ${command}`
    : `Debian 13: sudo apt-get install ${command}; Debian 12: add bookworm-backports to the apt sources, ` +
        `then sudo apt-get install -t bookworm-backports ${command}`;
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) ensureServers();
