// Law 20: after a random trace, the administration and the page agree with the model, on all stores, and the command line on SQLite.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Store } from 'headgate';
import { createAdmin, type BannedKey, type JudgedKey, type KeyView } from 'headgate/admin';
import { dashboard } from 'headgate-dashboard';
import { json, jsonLines } from '../../packages/cli/test/cli.js';
import { all, until } from '../admin/stores.js';
import type { Both } from '../oracle/actions.js';
import { SQLITE } from '../oracle/check.js';
import type { Scene, Subject } from '../oracle/play.js';
import { optionsOf } from '../oracle/program.js';
import { openSubject, type OpenSubject } from '../oracle/subjects.js';
import { agree, anySite, published, slow } from '../oracle/view-runs.js';
import { adminView, differenceIn, KEYS, placeOf, type View } from '../oracle/views.js';
import { unhashed } from '../oracle/unhashed.js';
import { makeDirectory, storeOn } from '../support/sqlite.js';

/** The sites of a store. */
const SITES = 60;

/** The administration and the page on one store. */
async function ofProcess(
  { limiters, store, now, secret }: Scene,
  changes: View['changes'],
): Promise<string | undefined> {
  const admin = createAdmin(store);
  await published(admin, limiters);
  const names = limiters.map(({ name }) => name);
  for (const view of [adminView(admin), pageView(store, names, changes)]) {
    const difference = await differenceIn(unhashed(view, secret), limiters, now);
    if (difference) return difference;
  }
  return undefined;
}

/** A view of a key, as text. */
const verdictOf = ({ name, dimension, tier, within, allowed, reason }: KeyView): string =>
  [name, dimension, tier, within, allowed, reason].map((part) => JSON.stringify(part) ?? '-').join(' ');

const TOKEN = 'a'.repeat(24);

function pageView(store: Store, names: readonly string[], changes: View['changes']): View {
  const page = dashboard({ store, actions: () => ({ by: 'ada' }) });
  const ask = async <T>(path: string, body?: object): Promise<T> => {
    const headers = {
      ...{ host: '127.0.0.1', 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
      ...{ 'x-headgate-token': TOKEN, cookie: `headgate-dashboard-token=${TOKEN}` },
    };
    const init = body ? { method: 'POST', body: JSON.stringify(body), headers } : { headers };
    const response = await page(new Request(`http://127.0.0.1/api/${path}`, init), { ip: '127.0.0.1' });
    const answer = (await response.json()) as T & { error?: string };
    if (response.status !== 200) throw new Error(answer.error);
    return answer;
  };
  const opened = (name: string) =>
    ask<{ limited: { rows: JudgedKey[]; isCut: boolean }; bans: BannedKey[] }>(`denied?name=${name}`);
  return {
    name: 'page',
    slack: 0,
    isOfLikely: true,
    changes,
    key: async (key, dimension) =>
      (await ask<{ views: KeyView[] }>('key', { key, ...(dimension && { dimension }) })).views,
    limited: async () => {
      const all = await Promise.all(names.map(async (name) => ({ name, ...(await opened(name)).limited })));
      return all.flatMap(({ name, rows }) => rows.map((row) => ({ ...row, name })));
    },
    bans: async () => (await Promise.all(names.map(opened))).flatMap(({ bans }) => bans),
  };
}

describe('law 20: views of a process', function () {
  this.timeout(180_000);
  for (const kind of ['memory', ...SQLITE, 'redis', 'valkey', 'postgres'])
    describe(kind, () => {
      let open: OpenSubject;
      before(async () => (open = await openSubject(kind, '10ms')));
      after(() => open.close());
      // The log of Redis has the server's time, before that of the site, so no change is recent there.
      const changes = kind === 'redis' || kind === 'valkey' ? undefined : 'of keys';
      it('agree with the model', () => agree(open.subject, SITES, (scene) => ofProcess(scene, changes)));
    });
});

describe('law 20: views of the command line', function () {
  this.timeout(180_000);
  const draw = anySite.map(slow);

  it('agree with the model on SQLite, with the limits in a file', () => {
    const directory = makeDirectory();
    let where: string[] = [];
    const create: Subject['create'] = (clock, _options, place) => {
      const path = join(directory, `${place}.db`);
      where = ['--sqlite', path];
      return storeOn(path, { clock: clock.read });
    };
    const look = async ({ limiters, store, now }: Scene) => {
      // A limiter is in the file shortly after its first decision by a policy.
      const hasDecided = ({ decisions }: Both) => decisions.some(({ real }) => real.policies.length > 0);
      const deciding = limiters.filter(hasDecided).map(({ name }) => name);
      const other = storeOn(where[1]!);
      const inFile = createAdmin(other);
      await until(async () => {
        const names = (await inFile.limiters()).limiters.map(({ name }) => name);
        return deciding.every((name) => names.includes(name));
      });
      await other.close!();
      const limits = limiters.map(({ name, drawn }) => {
        const { policies, tiers, shadow } = optionsOf(name, drawn);
        return [name, { policies, ...(tiers ? { tiers } : {}), ...(shadow ? { shadow } : {}) }] as const;
      });
      const file = join(directory, 'limits.json');
      writeFileSync(file, JSON.stringify(Object.fromEntries(limits)));
      const judged = await all(createAdmin(store).limited());
      const listed = (...flags: string[]) =>
        jsonLines('list', '--limited', ...flags, '--policies', file, ...where) as Promise<unknown> as Promise<
          JudgedKey[]
        >;
      for (const [flags, expected] of [
        [['--hypothetical'], judged],
        [[], judged.filter(({ likely }) => likely)],
      ] as const) {
        const [got, sought] = [await listed(...flags), expected].map((rows) =>
          rows.map(placeOf).sort().join('; '),
        );
        if (got !== sought) return `list ${flags.join()}: got ${got}, expected ${sought}`;
      }
      for (const key of KEYS) {
        const views = (await json('key', key, ...where)) as KeyView[];
        // The file has the limits of these limiters, so the command line answers as the process does.
        // A limiter without a decision has written nothing.
        const names = new Set(views.map(({ name }) => name));
        const known = (await createAdmin(store).key(key)).filter(({ name }) => names.has(name));
        const [printed, judged] = [views, known].map((all) => all.map(verdictOf).sort().join('; '));
        if (printed !== judged) return `key ${key}: got ${printed}, expected ${judged}`;
        // A view of each tier. A tenant is banned with the key whose limit it shares.
        const bannedBy = views.flatMap(({ name, within, bannedForMs }) =>
          bannedForMs > 0 && within === undefined ? [name] : [],
        );
        const banned = [...new Set(bannedBy)].sort();
        const bans = limiters.flatMap(({ name, model }) =>
          model.def.ban && model.bans!.rest(key, now) > 0 ? [name] : [],
        );
        if (banned.join() !== bans.join())
          return `key ${key}: banned by ${banned.join()}, expected ${bans.join()}`;
      }
      return undefined;
    };
    return agree({ name: 'sqlite', lines: [], beginsNow: true, create }, SITES, look, draw);
  });
});
