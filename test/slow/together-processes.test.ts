// Law 20 between processes: drawn sites with two to four processes, some of which are killed, on every store that processes share.
//   HEADGATE_PROCESSES_MS=600000   the time for all stores together. Default: 40 s
//   HEADGATE_PROCESSES_SEED=1      the seed of the first site
//   HEADGATE_PROCESSES_STORE=redis one store. Default: all
//   HEADGATE_PROCESSES_RECORDS=f   the file for the records of a site that fails
import { join } from 'node:path';
import { expect } from 'chai';
import { play, Spares, type Played } from '../oracle/processes/play.js';
import type { Place, StoreKind } from '../oracle/processes/task.js';
import { startPostgres } from '../support/postgres.js';
import { seedOf } from '../support/seeds.js';
import { startServer } from '../support/servers.js';
import { makeDirectory } from '../support/sqlite.js';

const { env } = process;
type SharedKind = Exclude<StoreKind, 'unshared'>;

const KINDS = (env['HEADGATE_PROCESSES_STORE']?.split(',') ?? [
  'redis',
  'valkey',
  'sqlite',
  'postgres',
]) as SharedKind[];
const MS = Number(env['HEADGATE_PROCESSES_MS'] ?? 40_000) / KINDS.length;
const SITE_MS = 1600;
/** A reader, four workers, and the next of them. */
const PROCESSES = 6;

/** A server for processes, and a new place on it for each site. */
async function serve(kind: SharedKind): Promise<{ place(site: number): Place; stop(): Promise<void> }> {
  if (kind === 'sqlite') {
    const directory = makeDirectory();
    return { place: (site) => [kind, join(directory, `${site}.db`), ''], stop: async () => {} };
  }
  if (kind === 'postgres') {
    const server = await startPostgres();
    return { place: (site) => [kind, server.url, `site_${site}`], stop: () => server.stop() };
  }
  const server = await startServer(kind);
  return { place: (site) => [kind, String(server.port), `s${site}`], stop: () => server.stop() };
}

describe('law 20, drawn sites with processes that are killed', () => {
  for (const kind of KINDS) {
    it(`on ${kind}: bounds, ids, thresholds, bans, overrides and waits hold`, async function () {
      this.timeout(2 * MS + 120_000);
      const spares = new Spares(kind, PROCESSES);
      const server = await serve(kind);
      const first = seedOf('HEADGATE_PROCESSES_SEED', `processes ${kind}`);
      const sites: Played[] = [];
      try {
        const end = Date.now() + MS;
        let seed = first;
        do {
          const played = await play(server.place(sites.length), spares, seed, SITE_MS);
          sites.push(played);
          seed = played.seed + 1;
          const shown = played.faults.slice(0, 5).join('\n');
          expect(
            played.faults,
            `HEADGATE_PROCESSES_STORE=${kind} HEADGATE_PROCESSES_SEED=${played.seed} npx mocha test/slow/together-processes.test.ts:\n${shown}`,
          ).to.have.length(0);
        } while (Date.now() < end);
      } finally {
        await spares.stop();
        await server.stop();
      }
      const sum = (name: 'calls' | 'kills' | 'killedCharges' | 'crossings') =>
        sites.reduce((all, site) => all + site[name], 0);
      console.log(
        `      seed ${first}: ${sites.length} sites, ${sum('calls')} calls, ${sum('kills')} processes killed, ` +
          `${sum('killedCharges')} ids charged before a kill, ${sum('crossings')} crossings`,
      );
    });
  }
});
