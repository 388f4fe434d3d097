// The origins of bans, and the keys of an import, in the lists and in the log of the page.
import { join } from 'node:path';
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter, type Store } from 'headgate';
import { createAdmin, type Admin, type BannedKey, type LoggedChange } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix } from '../../../test/support/stores.js';
import { describeSqlite, makeDirectory, storeOn } from '../../../test/support/sqlite.js';
import { parsesDuring, turnsDuring } from '../../../test/support/parses.js';
import { BanOrigins, isOfKey } from '../src/ban-origins.js';
import { FIRST_KEYS } from '../src/change-row.js';
import { KeyQuestions } from '../src/key-questions.js';
import { Now } from '../src/now.js';
import { Reads } from '../src/reads.js';
import { exportedLines } from '../src/transfers.js';
import { originText } from '../src/page/text.js';
import { startPage, tokenFields, type Site } from './servers.js';

interface Ban {
  readonly key: string;
  readonly by: string | null;
  readonly from?: string;
  readonly reason: string | null;
}

interface Row {
  readonly id: string;
  readonly action: string;
  readonly keys: number;
  readonly forMs: number;
  readonly key?: string;
  readonly network?: string;
  readonly imported?: readonly { readonly key: string; readonly forMs: number }[];
}

const STORES: Readonly<Record<string, () => Store>> = {
  memory: () => memoryStore(),
  redis: () => redisStore(clients.redis, { prefix: freshPrefix(), publish: '50ms' }),
  sqlite: () => storeOn(join(makeDirectory(), 'limits.db')),
};

for (const [kind, make] of Object.entries(STORES))
  (kind === 'sqlite' ? describeSqlite : describe)(`bans of the page, in ${kind}`, () => {
    let site: Site;
    let limiter: Limiter;
    let store: Store;
    beforeEach(async () => {
      store = make();
      const ban = { after: 2, within: '5m', for: '10m' } as const;
      limiter = createLimiter({ store, name: 'api', policies: ['minute=1/1m'], ban });
      site = await startPage({ store });
    });
    afterEach(async () => {
      await site.close();
      await limiter.close();
    });
    const get = async <T>(path: string): Promise<T> => (await fetch(site.url + path)).json() as Promise<T>;
    /** Processes publish their limiters a moment after they make them. */
    const known = async (): Promise<void> => {
      while ((await fetch(`${site.url}api/use?name=api`)).status === 404)
        await new Promise((resolve) => setTimeout(resolve, 50));
    };

    it('have their origin: denials, the program, an operator, or the import of one', async () => {
      await known();
      for (let i = 0; i < 4; i++) await limiter.consume('trudy');
      await limiter.ban('mallory', '1h');
      const admin = createAdmin(store);
      await admin.ban('eve', '1h', { name: 'api', by: 'ada', reason: 'INC-7' });
      await admin.importBans(
        ['oscar', 'peggy'].map((key) => ({ name: 'api', key, for: '2h' })),
        { by: 'linus' },
      );
      const { bans } = await get<{ bans: Ban[] }>('api/limiter?name=api');
      const origins = bans.map(({ key, by, from, reason }) => [key, by, by === null ? from : '', reason]);
      expect(origins).to.have.deep.members([
        ['trudy', null, 'denials', 'denied by policy minute'],
        ['mallory', null, 'program', null],
        ['eve', 'ada', '', 'INC-7'],
        ['oscar', 'linus', '', null],
        ['peggy', 'linus', '', null],
      ]);
      const lines = await exportedLines(admin, new URLSearchParams({ kind: 'bans', name: 'api' }));
      const exported = lines
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Ban & { readonly cause?: string });
      expect(exported.map(({ key, by, from, cause }) => [key, by, from, cause])).to.deep.include.members([
        ['trudy', null, 'denials', 'denied by policy minute'],
        ['mallory', null, 'program', undefined],
        ['eve', 'ada', undefined, undefined],
      ]);
      const headers = await tokenFields(site.url);
      const asked = await fetch(`${site.url}api/key`, {
        ...{ method: 'POST', headers, body: JSON.stringify({ key: 'trudy' }) },
      });
      const { views } = (await asked.json()) as { views: { banOrigin: object }[] };
      expect(views[0]!.banOrigin).to.include({ from: 'denials', by: null });
    });

    it('of an import are in the log with their first keys, on request with all, and each is found by its key', async () => {
      await known();
      const admin = createAdmin(store);
      const keys = Array.from({ length: 24 }, (_, i) => `192.0.2.${i + 1}`);
      await admin.importBans(
        keys.map((key, i) => ({ name: 'api', key, for: i === 9 ? '3h' : '2h' })),
        { by: 'ops', reason: 'feed' },
      );
      await admin.ban('198.51.100.0/30', '1h', { name: 'api', by: 'ada' });
      const { rows } = await get<{ rows: Row[] }>('api/log');
      const row = rows.find(({ action }) => action === 'import')!;
      expect(row.keys).to.equal(24);
      expect(row.imported!.map(({ key }) => key)).to.deep.equal(keys.slice(0, 3));
      const { keys: all } = await get<{ keys: Row['imported'] }>(`api/imported?id=${row.id}`);
      expect(all!.map(({ key }) => key)).to.deep.equal(keys);
      expect(await get('api/imported?id=invented')).to.deep.equal({ keys: [] });
      const headers = await tokenFields(site.url);
      const changesOf = async (key: string) => {
        const body = JSON.stringify({ key });
        const response = await fetch(`${site.url}api/key`, { method: 'POST', headers, body });
        return ((await response.json()) as { changes: Row[] }).changes;
      };
      const [found] = await changesOf('192.0.2.10');
      expect(found).to.include({ action: 'import', keys: 24, forMs: 3 * 3_600_000 });
      expect(found!.imported).to.equal(undefined);
      expect((await changesOf('198.51.100.2')).map(({ network }) => network)).to.deep.equal([
        '198.51.100.0/30',
      ]);
      expect(await changesOf('192.0.2.99')).to.deep.equal([]);
    });
  });

describe('the keys of many imports', () => {
  const IMPORTS = 8;
  const KEYS = 1000;
  let limiter: Limiter;
  let admin: Admin;
  beforeEach(async () => {
    const store = memoryStore();
    limiter = createLimiter({ store, name: 'api', policies: ['minute=1/1m'], ban: { after: 2, for: '10m' } });
    admin = createAdmin(store);
    for (let n = 0; n < IMPORTS; n++)
      await admin.importBans(
        Array.from({ length: KEYS }, (_, i) => ({ name: 'api', key: `k${n}-${i}`, for: '1h' })),
      );
  });
  afterEach(() => limiter.close());
  const show = (key: unknown) => key as never;
  const here = () => false;
  const readsOf = () => new Reads(admin, new Now(admin, show), show);
  const query = (text: string) => new URLSearchParams(text);

  it('are parsed only as far as the lists of changes have them', async () => {
    const reads = readsOf();
    const few = 10 * IMPORTS;
    expect(await parsesDuring(() => reads.log(query(''), here))).to.be.below(few);
    expect(await parsesDuring(() => reads.imported(query('id=invented'), here))).to.equal(0);
    const [{ id } = { id: '' }] = ((await reads.log(query(''), here)) as { rows: Row[] }).rows;
    const imported = async () =>
      expect(await reads.imported(query(`id=${id}`), here))
        .to.have.property('keys')
        .with.lengthOf(KEYS);
    expect(await parsesDuring(imported)).to.be.below(KEYS + few);
    const now = new Now(admin, show);
    // The first reading asks for the limiters and their keys, too.
    expect(await parsesDuring(() => now.read())).to.be.below(few);
  });

  it('are not parsed for the origins of other bans, and for the changes of a key', async () => {
    const origins = new BanOrigins(admin);
    const ban = { name: 'api', key: 'k3-7', by: null, reason: null } as BannedKey;
    const found = async () => expect((await origins.of([ban]))[0]).to.include({ from: 'admin' });
    expect(await parsesDuring(found)).to.be.below(10 * IMPORTS);
    const questions = new KeyQuestions(admin, show);
    expect(await parsesDuring(() => questions.key({ key: 'k3-7' }, here))).to.be.below(20 * IMPORTS);
  });

  it('leave turns to other requests', async () => {
    for (let i = 0; i < 500; i++) await limiter.ban(`b${i}`, '1h');
    const reads = readsOf();
    expect(await turnsDuring(() => reads.imported(query('id=invented'), here))).to.be.at.least(5);
    const ban = { name: 'api', key: 'k3-7', by: null, reason: null } as BannedKey;
    expect(await turnsDuring(() => new BanOrigins(admin).of([ban]))).to.be.at.least(1);
  });

  it('are kept as rows, with the first keys', async () => {
    const asked: unknown[] = [];
    const log: Admin['log'] = (options) => {
      asked.push(options?.withKeys);
      return admin.log(options);
    };
    const reads = new Reads({ ...admin, log }, new Now(admin, show), show);
    const { rows } = (await reads.log(query(''), here)) as { rows: Row[] };
    expect(rows[0]!.imported).to.have.lengthOf(FIRST_KEYS);
    expect(await reads.log(query(''), here)).to.have.property('rows', rows);
    expect(asked).to.deep.equal([FIRST_KEYS]);
  });

  it('leave the origin of a ban unknown if the log does not have them', async () => {
    for (let i = 0; i < 4; i++) await limiter.consume('trudy');
    const ban = { name: 'api', key: 'trudy', by: null, reason: null } as BannedKey;
    expect(await new BanOrigins(admin).of([ban])).to.deep.include.members([
      { from: 'denials', by: null, reason: 'denied by policy minute' },
    ]);
    const many = Array.from({ length: KEYS + 1 }, (_, i) => ({ name: 'api', key: `x${i}`, for: '6h' }));
    await admin.importBans([{ name: 'api', key: 'trudy', for: '6h' }, ...many]);
    const unknown = { from: 'unknown', by: null, reason: null };
    const other = { ...ban, name: 'other' };
    expect(await new BanOrigins(admin).of([ban, other])).to.deep.equal([unknown, null]);
    const answer = (await new KeyQuestions(admin, show).key({ key: 'trudy' }, here)) as {
      views: { banOrigin: object }[];
      changes: Row[];
    };
    expect(answer.views[0]!.banOrigin).to.deep.equal(unknown);
    // The import may not have the key, so it is not a change of it.
    expect(answer.changes.map(({ action }) => action)).to.deep.equal(['ban']);
  });
});

describe('the origin of a ban', () => {
  const change = (fields: Partial<LoggedChange>): LoggedChange =>
    ({
      name: 'api',
      key: 'k',
      action: 'ban',
      from: 'program',
      by: null,
      reason: null,
      ...fields,
    }) as LoggedChange;

  it('may be known by the hash of the key only', () => {
    expect(isOfKey(change({ key: { hash: 'a' } }), { name: 'api', key: { hash: 'a' } })).to.equal(true);
  });

  it('is a change of a network only in its dimension', () => {
    const network = { key: undefined, network: '10.0.0.0/24', keys: 256 } as never;
    const address = { name: 'api', key: '10.0.0.7' };
    expect(isOfKey(change(network), address)).to.equal(true);
    expect(isOfKey(change(network), { ...address, dimension: 'account' })).to.equal(false);
    const ofAccount = change({ ...(network as object), dimension: 'account' });
    expect(isOfKey(ofAccount, address)).to.equal(false);
    expect(isOfKey(ofAccount, { ...address, dimension: 'account' })).to.equal(true);
  });

  it('is a text that an operator understands at night', () => {
    const rule = '5 denials in 10m, for 15m';
    const text = (ban: object, of: string | null = rule) => originText(ban, of);
    expect(text({ by: 'ada', reason: 'INC-7' })).to.equal('by ada: INC-7');
    expect(text({ by: null, from: 'denials', reason: 'denied by policy day' })).to.equal(
      'automatic, after 5 denials in 10m (policy day)',
    );
    expect(text({ by: null, from: 'program', reason: null })).to.equal('by the program, without a name');
    expect(text({ by: null, from: 'unknown', reason: null })).to.equal(
      'origin unknown: automatic, by the program, or by an import of too many keys for the log',
    );
    expect(text({ by: null, from: 'cli', reason: 'x' })).to.equal('by somebody without a name: x');
    expect(text({ by: null, reason: null })).to.equal(
      'automatic, after 5 denials in 10m, or by the program: the log no longer has it',
    );
    expect(text({ by: null, reason: null }, null)).to.equal(
      'by the program: this limiter does not ban by denials',
    );
  });
});
