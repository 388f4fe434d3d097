// Selects one in HEADGATE_MUTANTS mutants for a run, by HEADGATE_SEED. For Stryker the selection is a checker: the remaining mutants are
// reported as compile errors.
import { createHash } from 'node:crypto';

/**
 * Whether a mutant is drawn: the same for the same seed, whatever other mutants there are.
 *
 * @param {string} mutant
 * @param {NodeJS.ProcessEnv} [env]
 */
export function isDrawn(mutant, { HEADGATE_MUTANTS = '1', HEADGATE_SEED = '1' } = process.env) {
  if (![HEADGATE_MUTANTS, HEADGATE_SEED].every((text) => /^[1-9]\d{0,8}$/.test(text)))
    throw new Error('HEADGATE_MUTANTS and HEADGATE_SEED are whole numbers.');
  const hash = createHash('sha1').update(`${HEADGATE_SEED} ${mutant}`).digest();
  return hash.readUInt32BE() % Number(HEADGATE_MUTANTS) === 0;
}

/** @typedef {{ id: string, fileName: string, location: { start: { line: number, column: number } }, replacement: string }} Mutant */

class Sample {
  init = () => Promise.resolve();

  /** @param {Mutant[]} mutants */
  check = (mutants) =>
    Promise.resolve(Object.fromEntries(mutants.map((mutant) => [mutant.id, resultOf(mutant)])));

  /** @param {Mutant[]} mutants */
  group = (mutants) => Promise.resolve([mutants.map(({ id }) => id)]);
}

/** @param {Mutant} mutant */
function resultOf({ fileName, location: { start }, replacement }) {
  const drawn = isDrawn(`${fileName.split('/src/').at(-1)} ${start.line} ${start.column} ${replacement}`);
  return drawn ? { status: 'passed' } : { status: 'compileError', reason: 'not drawn' };
}

export const strykerPlugins = [{ kind: 'Checker', name: 'sample', injectableClass: Sample }];
