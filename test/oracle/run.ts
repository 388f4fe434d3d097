// Compares the package with the model on random sites.
//   HEADGATE_ORACLE_MS=20000       the time
//   HEADGATE_ORACLE_SITES=400      the most sites
//   HEADGATE_ORACLE_SITES_OF_ROW=1 the sites of a covering row before the next row. Default: 2
//   HEADGATE_ORACLE_SEED=7         the seed, to repeat a run. Default: a new one, which is printed
//   HEADGATE_ORACLE_STORE=redis    the store. Default: memory
//   HEADGATE_ORACLE_WITH=slices   only rows with this feature
//   HEADGATE_ORACLE_LEFT=1         prints the triples that were not met
//   HEADGATE_ORACLE_REFUSED=1      prints the calls that the package refused
import fc from 'fast-check';
import type { FeatureName } from '../../src/contract/together.js';
import { sites, type Site } from './draw.js';
import { leftTriples, metText } from './met.js';
import { newSeed } from '../support/seeds.js';
import { play, played, refused } from './play.js';
import { coveringRows, generator, shuffled, withoutSlices, type Row } from './rows.js';
import { openSubject, SUBJECTS } from './subjects.js';

const SHRINK_MS = 30_000;
const { env } = process;
const feature = env['HEADGATE_ORACLE_WITH'] as FeatureName | undefined;
const rows = coveringRows().filter((row) => feature === undefined || row.has(feature));

export interface RunOptions {
  readonly ms: number;
  /** The most sites. @default no limit */
  readonly most?: number;
  readonly seed: number;
  readonly store: string;
  /** The sites of a covering row before the next row. @default 2 */
  readonly sitesOfRow?: number;
}

/** Plays sites of all rows, in an order by the seed. @returns the counterexample as a program, or undefined */
export async function run(options: RunOptions): Promise<string | undefined> {
  const { ms, seed, store, most = Infinity, sitesOfRow = 2 } = options;
  const { subject, close } = await openSubject(store);
  const end = performance.now() + ms;
  const last = played.sites + most;
  const random = generator(seed);
  try {
    for (;;)
      for (const row of ordered(shuffled(rows, random), subject.hasSlices)) {
        if (performance.now() >= end || played.sites >= last) return undefined;
        const own = subject.hasSlices ? row : withoutSlices(row);
        const property = fc.asyncProperty(sites(own), (site) => play(subject, site));
        const search = { seed: Math.floor(random() * 2 ** 31), numRuns: sitesOfRow };
        const first = await fc.check(property, { ...search, endOnFailure: true });
        const { counterexamplePath: path } = first;
        if (path === null) continue;
        // A limit of time that interrupts a trace would let it go on after the store is closed.
        const shrunk = await fc.check(property, { ...search, path, skipAllAfterTimeLimit: SHRINK_MS });
        // In real time, a difference may not come back.
        const { counterexample } = shrunk.failed ? shrunk : first;
        const fails = (site: Site) => play(subject, site).then(() => undefined, String);
        const site = await without(counterexample![0], fails);
        const difference = (await fails(site)) ?? String(first.errorInstance);
        return `${difference}\n// row: ${[...row].join(', ')}`;
      }
  } finally {
    await close();
  }
}

/** On a store with slices, every second row has them at first, because no other store plays them. */
function ordered(rows: readonly Row[], hasSlices = false): readonly Row[] {
  if (!hasSlices) return rows;
  const sliced = rows.filter((row) => row.has('slices'));
  const others = rows.filter((row) => !row.has('slices'));
  return Array.from({ length: Math.max(sliced.length, others.length) }, (_, i) => i).flatMap((i) =>
    [sliced[i], others[i]].filter((row) => row !== undefined),
  );
}

/** The site without every step that it does not need. fast-check removes no step from the middle. */
async function without(site: Site, fails: (site: Site) => Promise<string | undefined>): Promise<Site> {
  const end = performance.now() + SHRINK_MS;
  for (let size = Math.ceil(site.steps.length / 2); size >= 1; size = Math.floor(size / 2))
    for (let at = site.steps.length - size; at >= 0 && performance.now() < end; at -= size) {
      const fewer = { ...site, steps: site.steps.toSpliced(at, size) };
      if (await fails(fewer)) site = fewer;
    }
  return site;
}

/** The work of all runs of this process. */
export const summary = (): string => `${played.sites} sites, ${played.steps} steps; ${metText(rows.length)}`;

const ROUND_MS = 60_000;

/** Plays on every store in turn. @returns the first counterexample */
export async function soak(minutes: number, print: (line: string) => void): Promise<string | undefined> {
  const end = performance.now() + minutes * 60_000;
  for (;;)
    for (const store of SUBJECTS) {
      const left = end - performance.now();
      if (left <= 0) return undefined;
      const seed = newSeed();
      const found = await run({ ms: Math.min(ROUND_MS, left), seed, store });
      print(`${store}, seed ${seed}: ${summary()}`);
      if (found) return found;
    }
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(env['HEADGATE_ORACLE_SEED'] ?? newSeed());
  const store = env['HEADGATE_ORACLE_STORE'] ?? 'memory';
  const found = await run({
    ms: Number(env['HEADGATE_ORACLE_MS'] ?? 20_000),
    most: Number(env['HEADGATE_ORACLE_SITES'] ?? Infinity),
    sitesOfRow: Number(env['HEADGATE_ORACLE_SITES_OF_ROW'] ?? 2),
    seed,
    store,
  });
  console.log(`Oracle on ${store}, seed ${seed}: ${summary()}`);
  if (env['HEADGATE_ORACLE_LEFT']) console.log(leftTriples().join('\n'));
  if (env['HEADGATE_ORACLE_REFUSED']) for (const [why, count] of refused) console.log(count, why);
  if (found) {
    console.log(found);
    process.exitCode = 1;
  }
}
