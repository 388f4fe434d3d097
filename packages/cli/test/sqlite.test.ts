// The command line on an SQLite file instead of a server.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import { createLimiter, type Limiter, type Store } from 'headgate';
import { until } from '../../../test/admin/stores.js';
import { headgate, json, jsonLines } from './cli.js';
import { makeDirectory, openDatabase, storeOn } from '../../../test/support/sqlite.js';

describe('headgate --sqlite', () => {
  let path: string;
  let where: string[];
  let store: Store;
  let api: Limiter;

  const limiterOn = (on: Store) =>
    createLimiter({
      name: 'api',
      store: on,
      policies: 'fixed-window 5/1h',
      ban: {},
      overrides: true,
      warnings: false,
      onStoreError: 'throw',
    });
  const policy = ['--policy', 'fixed-window 5/1h'];
  const fails = async (...args: string[]) => {
    const { code, stderr } = await headgate([...args, ...where]);
    return `${code} ${stderr}`;
  };

  /** Deletes the limits in the file. */
  const forget = () => {
    const database = openDatabase(path);
    database.exec("DELETE FROM headgate WHERE key LIKE '{options}%'");
    database.close();
  };

  beforeEach(async () => {
    path = join(makeDirectory(), 'limits.db');
    where = ['--sqlite', path];
    store = storeOn(path);
    api = limiterOn(store);
    await api.consume('ada', { cost: 5 });
    await api.consume('bob', { cost: 2 });
  });
  afterEach(async () => {
    await api.close();
    await store.close!();
  });

  it('list: the banned and limited keys, and the limiters', async () => {
    await api.ban('eve', '2h');
    const finds = await jsonLines('list', ...where, '--name', 'api', ...policy);
    expect(finds.map(({ kind, key }) => `${kind as string} ${key as string}`)).to.deep.equal([
      'banned eve',
      'limited ada',
    ]);
    expect(finds[0]!.bannedForMs).to.be.within(7_190_000, 7_200_000);
    const all = await jsonLines('list', ...where, '--all', '--name', 'api', ...policy);
    expect(all.map(({ kind, key }) => `${kind as string} ${key as string}`)).to.deep.equal([
      'banned eve',
      'limited ada',
      'admitted bob',
    ]);
    // The file has the limits of the limiter.
    const known = await jsonLines('list', ...where);
    expect(known.map(({ kind, key, policy = '' }) => [kind, key, policy].join(' '))).to.deep.equal([
      'banned eve ',
      'limited ada default',
    ]);
    // An earlier version wrote no limits.
    forget();
    const states = await jsonLines('list', ...where);
    expect(states.map(({ kind, key, algorithm = '' }) => [kind, key, algorithm].join(' '))).to.deep.equal([
      'banned eve ',
      'state ada fixed-window',
      'state bob fixed-window',
    ]);
    const { stdout, code } = await headgate(['list', ...where, '--name', 'api', ...policy]);
    expect(code).to.equal(0);
    expect(stdout)
      .to.match(/eve +banned/)
      .and.match(/ada +limited +default/);
    expect(await jsonLines('list', ...where, '--name', 'other')).to.deep.equal([]);
  });

  it('peek: the verdict of a request, with exit code 3 if it would be denied', async () => {
    expect(await json('peek', 'ada', ...where, '--name', 'api', ...policy)).to.deep.include({
      allowed: false,
      stored: true,
      bannedForMs: 0,
    });
    expect((await headgate(['peek', 'ada', ...where, '--name', 'api', ...policy])).code).to.equal(3);
    expect((await api.peek('bob')).remaining).to.equal(3);
    expect(await json('peek', 'bob', ...where, '--name', 'api', ...policy)).to.have.nested.property(
      'policies[0].remaining',
      3,
    );
    expect((await headgate(['peek', 'zoe', ...where, '--name', 'api', ...policy])).stdout).to.contain(
      'Nothing is stored',
    );
  });

  it('reset: needs the policies, if the file does not hold them', async () => {
    expect(await json('reset', 'bob', ...where, '--name', 'api')).to.deep.include({ policies: ['default'] });
    expect((await api.peek('bob')).remaining).to.equal(5);
    await api.consume('bob', { cost: 2 });
    forget();
    expect(await fails('reset', 'ada', '--name', 'api')).to.match(/^2 .*--policy/);
    expect(await json('reset', 'ada', ...where, '--name', 'api', ...policy)).to.deep.include({
      policies: ['default'],
    });
    expect((await api.peek('ada')).remaining).to.equal(5);
    expect((await api.peek('bob')).remaining).to.equal(3);
    const { stdout } = await headgate(['reset', 'zoe', ...where, '--name', 'api', ...policy]);
    expect(stdout).to.match(/^zoe had no charges/m);
  });

  it('ban and unban: take effect at once in the limiters', async () => {
    await json('ban', '203.0.113.7', '2h', ...where, '--name', 'api');
    expect((await api.consume('203.0.113.7')).reason).to.equal('banned');
    const { stderr } = await headgate(['ban', '203.0.113.7', '1h', ...where, '--name', 'api']);
    expect(stderr).to.match(/ban.*shorter/);
    expect(await json('unban', '203.0.113.7', ...where, '--name', 'api')).to.deep.include({
      wasBanned: true,
    });
    expect((await api.consume('203.0.113.7')).allowed).to.equal(true);
    await json('ban', '203.0.113.0/30', '2h', ...where, '--name', 'api');
    expect((await api.consume('203.0.113.3')).reason).to.equal('banned');
  });

  it('unban --fresh takes the policies, without which it changes nothing', async () => {
    forget();
    await json('ban', 'ada', '2h', ...where, '--name', 'api');
    expect(await fails('unban', 'ada', '--fresh', '--name', 'api')).to.match(/^2 .*--policy: missing/);
    expect((await api.peek('ada')).reason).to.equal('banned');
    expect(await json('unban', 'ada', '--fresh', ...where, '--name', 'api', ...policy)).to.deep.include({
      wasBanned: true,
      policies: ['default'],
    });
    expect((await api.peek('ada')).remaining).to.equal(5);
    expect(await fails('unban', 'bob', '--name', 'api', ...policy)).to.match(/^2 .*--fresh/);
    // A file of several limiters has the policies of this one.
    const file = join(makeDirectory(), 'limits.json');
    writeFileSync(file, JSON.stringify({ api: ['fixed-window 5/1h'], login: ['5/1m'] }));
    await json('unban', 'bob', '--fresh', ...where, '--name', 'api', '--policies', file);
    expect((await api.peek('bob')).remaining).to.equal(5);
  });

  it('a ban by denials: its remaining time, and the denials that unban forgets', async () => {
    const banning = createLimiter({
      name: 'login',
      store,
      policies: 'fixed-window 1/1h',
      ban: { after: 2, for: '1h', factor: 2, max: '24h' },
      warnings: false,
    });
    for (let i = 0; i < 3; i++) await banning.consume('eve');
    await banning.consume('mallory');
    await banning.consume('mallory');
    const [banned] = await jsonLines('list', ...where, '--banned');
    expect(banned).to.include({ kind: 'banned', name: 'login', key: 'eve' });
    expect(banned!.bannedForMs).to.be.within(3_590_000, 3_600_000);
    expect(await json('unban', 'eve', ...where, '--name', 'login')).to.include({
      wasBanned: true,
      lastBanMs: 3_600_000,
    });
    expect(await json('unban', 'mallory', ...where, '--name', 'login')).to.include({
      wasBanned: false,
      denials: 1,
    });
    expect(await jsonLines('list', ...where, '--banned')).to.deep.equal([]);
    await banning.close();
  });

  it('an override that is not a policy is refused', async () => {
    expect(await fails('override', 'ada', 'garbage', '--name', 'api')).to.match(/^2 .*garbage/);
    expect(await fails('override', 'ada', 'default=5/never', '--name', 'api')).to.match(/^2 .*never/);
    expect(await jsonLines('overrides', ...where)).to.deep.equal([]);
  });

  it('bans: export and import', async () => {
    await api.ban('eve', '2h');
    await api.ban('a:{b}%', '2h');
    const lines = await jsonLines('bans', 'export', ...where);
    expect(lines.map(({ key }) => key)).to.have.members(['eve', 'a:{b}%']);
    const file = join(makeDirectory(), 'other.db');
    const other = storeOn(file);
    const limiter = limiterOn(other);
    await limiter.consume('ada');
    const stdin = Readable.from([lines.map((line) => JSON.stringify(line)).join('\n')]);
    const { code } = await headgate(['bans', 'import', '--sqlite', file], { stdin });
    expect(code).to.equal(0);
    expect((await limiter.peek('a:{b}%')).reason).to.equal('banned');
    await limiter.close();
    await other.close!();
  });

  it('override and overrides: of a key, and of all', async () => {
    await json(
      'override',
      'ada',
      'fixed-window',
      '50/1h',
      ...where,
      '--name',
      'api',
      '--for',
      '1d',
      '--reason',
      'launch',
    );
    expect((await api.consume('ada')).remaining).to.equal(44);
    await json('override', '--all', 'fixed-window', '7/1h', ...where, '--name', 'api');
    const listed = await jsonLines('overrides', ...where);
    expect(listed).to.have.length(2);
    expect(listed.find(({ key }) => key === 'ada')).to.deep.include({
      name: 'api',
      change: 'fixed-window 50/1h',
      reason: 'launch',
    });
    expect(listed.find(({ all }) => all)).to.deep.include({ name: 'api', change: 'fixed-window 7/1h' });
    expect(await jsonLines('overrides', ...where, '--name', 'other')).to.deep.equal([]);
    expect(await json('override', 'ada', '--remove', ...where, '--name', 'api')).to.deep.include({
      removed: true,
    });
    expect(await jsonLines('overrides', ...where)).to.have.length(1);
    expect((await jsonLines('list', ...where, '--all')).some(({ name }) => name === '')).to.equal(false);
  });

  it('hashed keys: with the secret', async () => {
    const secret = 'a secret of some length';
    const file = join(makeDirectory(), 'hashed.db');
    const hashed = storeOn(file, { hashKeys: secret });
    const limiter = limiterOn(hashed);
    await limiter.consume('ada', { cost: 4 });
    const secretFile = join(makeDirectory(), 'secret');
    writeFileSync(secretFile, `${secret}\n`);
    const options = ['--sqlite', file, '--hash-keys-file', secretFile];
    expect(await json('peek', 'ada', ...options, '--name', 'api', ...policy)).to.have.nested.property(
      'policies[0].remaining',
      1,
    );
    expect(await json('peek', 'ada', ...options, '--name', 'api', ...policy)).to.include({
      stored: true,
    });
    await json('ban', 'ada', '1h', ...options, '--name', 'api');
    expect((await limiter.peek('ada')).reason).to.equal('banned');
    const [first] = await jsonLines('list', ...options);
    expect(first).to.include({ kind: 'banned', name: 'api' });
    expect(first!.keyHash).to.match(/^[\w-]{22}$/);
    await limiter.close();
    await hashed.close!();
  });

  it('keys of dimensions, and keys that are not ASCII', async () => {
    const of = createLimiter({
      name: 'orgs',
      store,
      policies: [{ name: 'org', algorithm: 'fixed-window', limit: 3, window: '1h', by: 'org' }],
      warnings: false,
    });
    await of.consume({ org: 'acme' }, { cost: 3 });
    await api.consume('日本');
    await of.consume({ org: '東京' });
    const limits = ['--name', 'orgs', '--policy', 'org=fixed-window 3/1h by org'];
    const peeked = await json('peek', 'acme', ...where, ...limits, '--dimension', 'org');
    expect(peeked).to.deep.include({ allowed: false, stored: true });
    forget();
    const inTokyo = { name: 'orgs', dimension: 'org', kind: 'state' };
    expect((await jsonLines('list', ...where, '--name', 'orgs')).find(({ keyHash }) => keyHash)).to.include(
      inTokyo,
    );
    const [limited] = await jsonLines('list', ...where, ...limits);
    expect(limited).to.include({ kind: 'limited', key: 'acme', dimension: 'org' });
    const listed = await jsonLines('list', ...where, '--name', 'api');
    expect(listed.filter(({ name, keyHash }) => name === 'api' && keyHash !== undefined)).to.have.length(1);
    expect(await json('peek', '日本', ...where, '--name', 'api', ...policy)).to.deep.include({
      stored: true,
    });
    await of.close();
  });

  it('a file that is missing, or not of a store, is reported, and neither created nor changed', async () => {
    const missing = join(makeDirectory(), 'none.db');
    expect((await headgate(['list', '--sqlite', missing])).stderr).to.contain('none.db');
    const other = join(makeDirectory(), 'other.db');
    const database = openDatabase(other);
    database.exec('CREATE TABLE orders (id INTEGER)');
    database.close();
    expect((await headgate(['list', '--sqlite', other])).stderr).to.match(/other\.db.*sqliteStore/);
    const text = join(makeDirectory(), 'text.db');
    writeFileSync(text, 'this is no database, but a text of some length'.repeat(50));
    expect((await headgate(['list', '--sqlite', text])).stderr).to.match(/file is not a database/);
  });

  it('refuses a file that does not exist, and a prefix, as wrong command lines', async () => {
    const missing = await headgate(['list', '--sqlite', `${path}.missing`]);
    expect(missing.code).to.equal(2);
    expect(await fails('list', '--prefix', 'other')).to.match(/^2 .*--prefix: /);
  });

  it('shows an empty key by its hash, because the file holds no empty names', async () => {
    await api.ban('', '2h');
    expect((await headgate(['list', ...where, '--banned'])).stdout).to.match(/^sha256:47DEQpj8\S+ +banned/m);
  });

  it('limits: the limiters as a process made them last', async () => {
    const { instances, limiters } = (await json('limits', ...where)) as Record<string, object[]>;
    expect(instances).to.deep.equal([]);
    expect(limiters).to.have.lengthOf(1);
    expect(limiters![0]).to.deep.include({ name: 'api', differ: false, overridden: { keys: 0, all: null } });
    expect(limiters![0]).to.have.deep.nested.property('configurations[0].policies', ['fixed-window 5/1h']);
    const { stdout } = await headgate(['limits', ...where]);
    expect(stdout)
      .to.match(/fixed-window 5\/1h +by hand +unknown +of 0 keys +unknown/)
      .and.match(/1 limiter, as a process made each last/);
    // Another process, with other options.
    const other = storeOn(path);
    const changed = createLimiter({ name: 'api', store: other, limit: 9, window: '1m', warnings: false });
    await changed.consume('ada');
    // The options are written in a transaction of their own.
    await until(async () =>
      /^9\/1m +none +unknown +none/m.test((await headgate(['limits', ...where])).stdout),
    );
    await changed.close();
    await other.close!();
    forget();
    expect((await headgate(['limits', ...where])).stdout).to.match(/^The file has no such limiter\./);
  });

  it('peek and key: by the limits in the file', async () => {
    expect(await json('peek', 'bob', ...where, '--name', 'api')).to.have.nested.property(
      'policies[0].remaining',
      3,
    );
    const [view] = (await json('key', 'ada', ...where)) as object[];
    expect(view).to.include({ name: 'api', allowed: false, reason: 'quota-exceeded' });
    const { stderr } = await headgate(['ban', '2001:db8::1', '1h', '--name', 'api', ...where]);
    expect(stderr).to.equal('');
  });

  it('tenants: share, use and reason of each', async () => {
    const policies = ['p=10/1h by provider share tenant'];
    const llm = createLimiter({ name: 'llm', store, policies, warnings: false });
    await llm.consume({ provider: 'openai', tenant: 'globex' });
    let used = 0;
    for (let i = 0; i < 8; i++)
      if ((await llm.consume({ provider: 'openai', tenant: 'acme' })).allowed) used++;
    const denied = await llm.consume({ provider: 'openai', tenant: 'acme' }, { cost: 2 });
    const views = (await json('tenants', ...where)) as Record<string, unknown>[];
    expect(views.map((view) => [view['key'], view['used'], view['within']])).to.have.deep.members([
      ['globex', 1, 'provider openai'],
      ['acme', used, 'provider openai'],
    ]);
    expect(views.find(({ key }) => key === 'acme')).to.include({
      share: denied.policies[0]!.share,
      limit: 10,
    });
    expect((await headgate(['tenants', ...where, '--name', 'api'])).stdout).to.match(
      /^No tenant of a shared/,
    );
    await llm.close();
  });

  it('a file and a server are refused together', async () => {
    expect(await fails('list', '--redis', 'redis://127.0.0.1:1')).to.match(
      /^2 .*--redis.*--sqlite|^2 .*--sqlite.*--redis/,
    );
  });
});
