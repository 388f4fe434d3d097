import { spawnSync } from 'node:child_process';

export const root = new URL('../../', import.meta.url).pathname;

/** The options of a Node that runs TypeScript of this repository. */
export const TYPESCRIPT = [`--import=${root}scripts/lib/typescript.mjs`];

/**
 * The files of the repository, including new files unless git ignores them.
 * @param {...string} folders the folders to list; all files if empty
 * @returns {string[]} the paths from the root
 */
export function listFiles(...folders) {
  const listed = read('git', ['ls-files', '--cached', '--others', '--exclude-standard', ...folders]);
  if (listed === undefined) throw new Error('git ls-files failed: this needs a clone of the repository.');
  return [...new Set(listed.split('\n').filter(Boolean))].sort();
}

/**
 * Runs a command in the repository and shows the command's output.
 * @param {string} command
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} [env] added to the environment of this process
 * @returns {number} the exit status (1 if a signal ended the command)
 */
export function run(command, args, env = {}) {
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, ...env },
  });
  if (error) console.error(`${command}: ${error.message}`);
  return status ?? 1;
}

/**
 * Runs a command silently.
 * @param {string} command
 * @param {string[]} args
 * @returns {string | undefined} its standard output, or undefined if it failed or does not exist
 */
export function read(command, args) {
  const { status, stdout } = spawnSync(command, args, { cwd: root, encoding: 'utf8' });
  return status === 0 ? stdout : undefined;
}
