// Finds the Chromium in which the demo's page is tested, and gets it where that is possible.
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { aptInstall, canInstall } from './lib/apt.mjs';

const commands = ['chromium', 'chromium-browser', 'google-chrome'];

/**
 * The path of a Chromium: what the variable CHROMIUM names, or else the first on the PATH. Throws with the fix.
 * @returns {string}
 */
export function findBrowser() {
  const named = process.env['CHROMIUM'];
  if (named) {
    if (executable(named)) return named;
    throw new Error(
      `CHROMIUM=${named} is not an executable file. Set it to the path of a Chromium, or unset it.`,
    );
  }
  const found = (process.env['PATH'] ?? '')
    .split(delimiter)
    .flatMap((directory) => commands.map((command) => join(directory, command)))
    .find(executable);
  if (found) return found;
  throw new Error(
    'Chromium was not found on the PATH. Install it (Debian: sudo apt-get install chromium), or set CHROMIUM to the path of ' +
      'a Chromium or Chrome.',
  );
}

/**
 * Makes sure that it is there, with apt if need be.
 * @returns {string[]} what is missing, and what to do about it
 */
export function getBrowser() {
  try {
    try {
      findBrowser();
    } catch (error) {
      if (process.env['CHROMIUM'] || !canInstall()) throw error;
      aptInstall('chromium');
      findBrowser();
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
