// Finds the Chromium for the tests of the report of a replay, and installs it if possible.
import { findProgram, getProgram } from './lib/program.mjs';

/** @type {import('./lib/program.mjs').Program} */
const chromium = {
  variable: 'CHROMIUM',
  commands: ['chromium', 'chromium-browser', 'google-chrome'],
  hint: 'Debian: sudo apt-get install chromium',
};

/** The path of a Chromium. Throws with the fix. */
export const findBrowser = () => findProgram(chromium);

/** Makes sure that it is there, with apt if necessary. Returns what is missing, and what to do about it. */
export const getBrowser = () => getProgram(chromium, 'chromium');
