import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { aptInstall, canInstall } from './apt.mjs';

/**
 * A program that the tests run.
 * @typedef {object} Program
 * @property {string} variable the environment variable that may name it
 * @property {readonly [string, ...string[]]} commands what it may be called
 * @property {string} hint how to install it
 */

/**
 * The path of a program: what its variable names, or else the first on the PATH. Throws with the fix.
 * @param {Program} program
 * @returns {string}
 */
export function findProgram({ variable, commands, hint }) {
  const [command] = commands;
  const named = process.env[variable];
  if (named) {
    if (executable(named)) return named;
    throw new Error(
      `${variable}=${named} is not an executable file. Set it to the path of a ${command}, or unset it.`,
    );
  }
  const found = (process.env['PATH'] ?? '')
    .split(delimiter)
    .flatMap((directory) => commands.map((name) => join(directory, name)))
    .find(executable);
  if (found) return found;
  throw new Error(
    `${command} was not found on the PATH. Install it (${hint}), or set ${variable} to the path of a ${command}.`,
  );
}

/**
 * Makes sure that a program is there, with apt if need be.
 * @param {Program} program
 * @param {Parameters<typeof aptInstall>} apt its Debian package
 * @returns {string[]} what is missing, and what to do about it
 */
export function getProgram(program, ...apt) {
  try {
    try {
      findProgram(program);
    } catch (error) {
      if (process.env[program.variable] || !canInstall()) throw error;
      aptInstall(...apt);
      findProgram(program);
    }
    return [];
  } catch (error) {
    return [/** @type {Error} */ (error).message];
  }
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
