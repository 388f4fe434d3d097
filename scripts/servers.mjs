// Finds the Redis and Valkey servers that the tests run against, and gets them where that is possible.
import { accessSync, constants, realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { aptInstall, canInstall } from './lib/apt.mjs';
import { read } from './lib/run.mjs';

/** @typedef {'redis' | 'valkey'} ServerKind */

const kinds = {
  redis: { variable: 'REDIS_SERVER', command: 'redis-server', apt: { service: 'redis-server.service' } },
  valkey: {
    variable: 'VALKEY_SERVER',
    command: 'valkey-server',
    apt: { service: 'valkey-server.service', backports: 'bookworm' },
  },
};

/**
 * The path of a server's program: what its variable names, or else the first on the PATH. Throws with the fix.
 * @param {ServerKind} kind
 * @returns {string}
 */
export function findServer(kind) {
  const { variable, command } = kinds[kind];
  const named = process.env[variable];
  if (named) {
    if (executable(named)) return named;
    throw new Error(
      `${variable}=${named} is not an executable file. Set it to the path of a ${command}, or unset it.`,
    );
  }
  const found = (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((directory) => join(directory, command))
    .find(executable);
  if (found) return found;
  throw new Error(
    `${command} was not found on the PATH. Install it (${installHint(kind)}), ` +
      `or set ${variable} to the path of a ${command}.`,
  );
}

/** Makes sure that both servers are there, with apt if need be, and prints their versions. Exits non-zero otherwise. */
export function ensureServers() {
  for (const kind of /** @type {ServerKind[]} */ (['redis', 'valkey'])) {
    try {
      const path = ensureServer(kind);
      const version = read(path, ['--version'])?.trim();
      if (!version)
        throw new Error(`${path} --version failed: this is not a working ${kinds[kind].command}.`);
      console.log(`${path}: ${version}`);
    } catch (error) {
      console.error(/** @type {Error} */ (error).message);
      process.exit(1);
    }
  }
}

/** @param {ServerKind} kind */
function ensureServer(kind) {
  try {
    return findServer(kind);
  } catch (error) {
    const { variable, command, apt } = kinds[kind];
    if (process.env[variable] || !canInstall()) throw error;
    console.log(`Installing ${command} (apt) ...`);
    aptInstall(command, apt);
    return findServer(kind);
  }
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

/** @param {string} path */
function executable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) ensureServers();
