// Compares drawn sites over HTTP with the oracle, and prints a counterexample as a program.
import fc from 'fast-check';
import { checkFor } from '../../support/random.js';
import { seedOf } from '../../support/seeds.js';
import { httpSites } from './draw.js';
import { watched } from './own.js';
import { play, played, type Subject } from './play.js';

const SHRINK_MS = 20_000;

export interface RunOptions {
  readonly subject: Subject;
  /** The number of sites. A slow machine plays fewer. */
  readonly sites: number;
  /** The most requests in flight. */
  readonly most: number;
}

/** The longest time of a run. */
const MS = 20_000;

/** @throws an error with the program, and the seed and path of fast-check */
export async function run({ subject, sites, most }: RunOptions): Promise<void> {
  const seed = seedOf('HEADGATE_COMBINATIONS_SEED', `combinations ${subject.name} ${sites} ${most}`);
  try {
    const property = fc.asyncProperty(httpSites(most), (site) =>
      watched(async (own) => {
        await play(subject, site, own);
        // A listener too many is such a warning.
        if (own.warnings.length > 0) throw new Error(own.warnings.join('\n'));
      }),
    );
    await checkFor(property, {
      seed,
      ms: Number(process.env['HEADGATE_COMBINATIONS_MS'] ?? MS),
      most: sites,
      shrinkMs: SHRINK_MS,
    });
  } finally {
    console.log(
      `      ${subject.name}, seed ${seed}: ${played.sites} sites, ${played.requests} requests, ${played.answers} answers`,
    );
  }
}
