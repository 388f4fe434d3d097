// Which mutants a run takes: all that the sources have, in an order that the seed decides.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { listFiles, root } from '../lib/run.mjs';
import { mutateLua } from './lua.mjs';
import { mutateTypeScript } from './typescript.mjs';

/** @typedef {import('./changes.mjs').Mutant} Mutant */

/** The files that have mutants. What only declares is none of them. */
export function sourceFiles() {
  return listFiles('src').filter((file) => /\.(ts|lua)$/.test(file));
}

/**
 * @param {string} [only] a file or folder; `file:12` is what begins in line 12, `file:12:5` what begins in its fifth column
 * @returns {Mutant[]} in the order of files and lines
 */
export function allMutants(only = 'src') {
  const [path = only, line, column] = only.split(':');
  return sourceFiles()
    .filter((file) => file === path || file.startsWith(`${path.replace(/\/$/, '')}/`))
    .flatMap((file) => {
      const text = readFileSync(join(root, file), 'utf8');
      return file.endsWith('.lua') ? mutateLua(file, text) : mutateTypeScript(file, text);
    })
    .filter((mutant) => line === undefined || mutant.line === Number(line))
    .filter((mutant) => column === undefined || mutant.column === Number(column));
}

/**
 * The same values in another order, which is the same for the same seed.
 * @template T
 * @param {readonly T[]} values
 * @param {number} seed
 * @returns {T[]}
 */
export function shuffled(values, seed) {
  const random = mulberry32(seed);
  const result = [...values];
  for (let i = result.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [result[i], result[j]] = [/** @type {T} */ (result[j]), /** @type {T} */ (result[i])];
  }
  return result;
}

/**
 * Tommy Ettinger's generator of numbers from 0 to 1: 32 bits of state, and the same on every machine.
 * @param {number} seed
 */
function mulberry32(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
