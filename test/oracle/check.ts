// Tests of the oracle on several stores.
import { expect } from 'chai';
import { drivers } from '../support/sqlite.js';
import { allowTime } from '../support/hooks.js';
import { seedOf } from '../support/seeds.js';
import { found as sites } from './found.js';
import { play } from './play.js';
import { run, summary } from './run.js';
import { openSubject } from './subjects.js';

const factor = Number(process.env['HEADGATE_RUNS'] ?? 1);

/**
 * Makes a test for each store.
 *
 * @param sites the number of sites of each store, for HEADGATE_RUNS=1
 * @param sitesOfRow the sites of a covering row before the next row
 */
export function checkStores(stores: readonly string[], sites: number, sitesOfRow?: number): void {
  for (const store of stores)
    it(`every answer on ${store} is that of the model`, async () => {
      allowTime(600_000);
      const seed = seedOf('HEADGATE_ORACLE_SEED', `oracle ${store} ${sites}`);
      const ms = Number(process.env['HEADGATE_ORACLE_MS'] ?? 600_000);
      const found = await run({ ms, most: factor * sites, seed, store, ...(sitesOfRow && { sitesOfRow }) });
      console.log(`      ${store}, seed ${seed}: ${summary()}`);
      // npm test repeats no run with this word: a difference is a failure, even if it does not come back.
      const rows = sitesOfRow ? ` HEADGATE_ORACLE_SITES_OF_ROW=${sitesOfRow}` : '';
      const repeat = `HEADGATE_ORACLE_STORE=${store} HEADGATE_ORACLE_SEED=${seed} HEADGATE_ORACLE_MS=600000${rows}`;
      if (found !== undefined) expect.fail(`Counterexample: ${repeat} npx tsx test/oracle/run.ts\n${found}`);
    });
}

/** Makes a test for each store that plays the sites of `found.ts`. */
export function checkFound(stores: readonly string[]): void {
  for (const store of stores)
    it(`every answer on ${store} is that of the model, on the sites found before`, async () => {
      allowTime(60_000);
      const { subject, close } = await openSubject(store);
      try {
        for (const site of Object.values(sites)) await play(subject, site);
      } finally {
        await close();
      }
    });
}

/** A driver of SQLite, if this run has one. */
export const SQLITE: readonly string[] = Object.keys(drivers).slice(0, 1);
