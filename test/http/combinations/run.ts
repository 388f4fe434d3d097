// Compares drawn sites over HTTP with the oracle, and prints a counterexample as a program.
import fc from 'fast-check';
import { checkFor } from '../../support/random.js';
import { httpSites } from './draw.js';
import { play, played, type Subject } from './play.js';

const SHRINK_MS = 20_000;

export interface RunOptions {
  readonly subject: Subject;
  readonly ms: number;
  /** The most requests in flight. */
  readonly most: number;
  /** Default: HEADGATE_COMBINATIONS_SEED, or a new one. */
  readonly seed?: number;
}

const newSeed = () =>
  Number(process.env['HEADGATE_COMBINATIONS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

/** @throws an error with the program, and the seed and path of fast-check */
export async function run({ subject, ms, most, seed = newSeed() }: RunOptions): Promise<void> {
  const warnings: string[] = [];
  const note = (warning: Error) => void warnings.push(String(warning));
  process.on('warning', note);
  try {
    const property = fc.asyncProperty(httpSites(most), async (site) => {
      await play(subject, site);
      // A listener too many is such a warning.
      if (warnings.length > 0) throw new Error(warnings.splice(0).join('\n'));
    });
    await checkFor(property, { seed, ms, shrinkMs: SHRINK_MS });
  } finally {
    process.off('warning', note);
    console.log(
      `      ${subject.name}, seed ${seed}: ${played.sites} sites, ${played.requests} requests, ${played.answers} answers`,
    );
  }
}
