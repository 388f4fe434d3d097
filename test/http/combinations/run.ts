// Compares drawn sites over HTTP with the oracle, and prints a counterexample as a program.
import fc from 'fast-check';
import { checkFor } from '../../support/random.js';
import { httpSites } from './draw.js';
import { watched } from './own.js';
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
  try {
    const property = fc.asyncProperty(httpSites(most), (site) =>
      watched(async (own) => {
        await play(subject, site, own);
        // A listener too many is such a warning.
        if (own.warnings.length > 0) throw new Error(own.warnings.join('\n'));
      }),
    );
    await checkFor(property, { seed, ms, shrinkMs: SHRINK_MS });
  } finally {
    console.log(
      `      ${subject.name}, seed ${seed}: ${played.sites} sites, ${played.requests} requests, ${played.answers} answers`,
    );
  }
}
