// The seeds of random tests: the same in each run, so that two runs of the same files give the same answer. HEADGATE_SEEDS=new draws new seeds,
// which a failure prints, and HEADGATE_SEEDS=7 others.
import { createHash } from 'node:crypto';
import fc from 'fast-check';

const { HEADGATE_SEEDS: seeds = '1' } = process.env;
if (seeds !== 'new') fc.configureGlobal({ seed: Number(seeds) });

export const newSeed = (): number => Math.floor(Math.random() * 2 ** 31);

/**
 * The seed of a test that draws for itself.
 *
 * @param variable the environment variable that repeats a run, such as `'HEADGATE_ORACLE_SEED'`
 * @param name tells tests apart, so that each draws something else
 */
export function seedOf(variable: string, name: string): number {
  const given = process.env[variable];
  if (given !== undefined) return Number(given);
  if (seeds === 'new') return newSeed();
  return createHash('sha1').update(`${seeds} ${name}`).digest().readUInt32BE() >>> 1;
}
