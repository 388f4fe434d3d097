// Finds the Prometheus for the tests of the alert rules in examples/, and installs it if possible.
import { dirname, join } from 'node:path';
import { findProgram, getProgram } from './lib/program.mjs';

/** @type {import('./lib/program.mjs').Program} */
const prometheus = {
  variable: 'PROMETHEUS',
  commands: ['prometheus'],
  hint: 'Debian and Ubuntu: sudo apt-get install prometheus; macOS: brew install prometheus',
};

/** The paths of a Prometheus and of the promtool beside it. Throws with the fix. */
export function findPrometheus() {
  const server = findProgram(prometheus);
  return { server, promtool: join(dirname(server), 'promtool') };
}

/** Makes sure that it is there, with apt if necessary. Returns what is missing, and what to do about it. */
export const getPrometheus = () => getProgram(prometheus, 'prometheus', { service: 'prometheus.service' });
