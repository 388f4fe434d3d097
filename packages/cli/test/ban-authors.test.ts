// The authors of bans without a note, which only the log knows.
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { memoryStore, type Limiter } from 'headgate';
import { createAdmin, readBanLine, type Admin, type OverrideResult } from 'headgate/admin';
import { all } from '../../../test/admin/stores.js';
import { limiterOn } from '../../../test/support/stores.js';
import { parsesDuring } from '../../../test/support/parses.js';
import { authorsIn, authorsOf } from '../src/ban-authors.js';
import { writeBans } from '../src/commands/bans.js';
import { recentDenials } from '../src/commands/key-denials.js';
import { warnOfOtherLimit } from '../src/commands/override-hint.js';
import type { Io } from '../src/io.js';
import { writeQueues } from '../src/slots.js';

const UNKNOWN = 'unknown: automatic, an import, or your code';
const BY_DENIALS = 'denials: denied by policy default';

describe('the author of a ban without a note', () => {
  let admin: Admin;
  let limiters: Limiter[];
  let errors: string;
  const io = { json: false, stderr: { write: (text: string) => (errors += text) } } as unknown as Io;

  beforeEach(async () => {
    errors = '';
    const store = memoryStore();
    admin = createAdmin(store);
    limiters = ['api', 'web'].map((name) =>
      limiterOn(store, { name, limit: 1, window: '1h', ban: { after: 2, for: '1m' } }),
    );
    for (const limiter of limiters) for (let i = 0; i < 4; i++) await limiter.consume('wild');
  });
  afterEach(() => Promise.all(limiters.map((limiter) => limiter.close())));

  /** The authors of the bans of a key, as `list` and as `key` show them. */
  const authors = async (key: string) => {
    const views = await admin.key(key);
    const bans = views.map(({ name }) => ({ name, key, by: null, reason: null }));
    const listed = await authorsOf(admin, bans, io);
    const behind = await authorsIn(admin, views, io);
    expect(errors).to.equal('');
    return views.map((view, i) => {
      expect(view.bannedForMs).to.be.above(0);
      const author = listed[i]!;
      expect(behind.get(view)).to.equal(author === UNKNOWN ? `, author ${UNKNOWN}` : ` by ${author}`);
      return `${view.name}: ${author}`;
    });
  };
  const imported = (...keys: readonly string[]) =>
    admin.importBans(keys.map((key) => ({ name: 'api', key, for: '5h' })));
  const many = (count: number) => Array.from({ length: count }, (_, i) => `key-${i}`);

  it('is denials, also if an import bans other keys', async () => {
    await imported('other', 'another');
    expect(await authors('wild')).to.deep.equal([`api: ${BY_DENIALS}`, `web: ${BY_DENIALS}`]);
  });

  for (const [what, others] of [
    ['an import of this key', []],
    ['an import with this key', ['other']],
    ['an import of so many keys that the log has none of them', many(1000)],
  ] as const)
    it(`is unknown after ${what}`, async () => {
      await imported('wild', ...others);
      expect(await authors('wild')).to.deep.equal([`api: ${UNKNOWN}`, `web: ${BY_DENIALS}`]);
    });

  it('is the author of a later ban, and denials again after the import is undone', async () => {
    await imported('wild', 'other');
    const [newest] = await all(admin.log());
    await admin.undo(newest!.id);
    expect(await authors('wild')).to.deep.equal([`api: ${BY_DENIALS}`, `web: ${BY_DENIALS}`]);
    await imported('wild', ...many(1000));
    await limiters[0]!.ban('wild', '9h');
    expect(await authors('wild')).to.deep.equal(['api: the program', `web: ${BY_DENIALS}`]);
  });

  it('is found in the log without parsing the keys of imports', async () => {
    for (let i = 0; i < 20; i++) await imported(...many(100));
    const found = async () => expect((await authors('wild'))[0]).to.equal(`api: ${BY_DENIALS}`);
    expect(await parsesDuring(found)).to.be.below(20);
  });

  it('is unknown to a user without permission for the log, silently, and with a warning after another failure', async () => {
    const ban = { name: 'api', key: 'wild', by: null, reason: null };
    const authorAfter = (message: string) => {
      const banOrigins: Admin['banOrigins'] = () => Promise.reject(new Error(message));
      return authorsOf({ ...admin, banOrigins }, [ban], io);
    };
    expect(await authorAfter('NOPERM User reader has no permissions')).to.deep.equal([UNKNOWN]);
    expect(errors).to.equal('');
    expect(await authorAfter('The server has not answered within 5000 ms.')).to.deep.equal([UNKNOWN]);
    expect(errors).to.equal(
      'headgate: warning: the log of bans cannot be read: The server has not answered within 5000 ms.\n',
    );
  });
});

describe('an export of bans', () => {
  it('has the bans that were found before the search failed', async () => {
    const store = memoryStore();
    const admin = createAdmin(store);
    const limiter = limiterOn(store, { name: 'api', limit: 1, window: '1h', ban: { after: 2, for: '1m' } });
    for (const key of ['ada', 'bob']) await limiter.ban(key, '1h');
    const failing: Admin = {
      ...admin,
      async *bans(options) {
        yield* admin.bans(options);
        throw new Error('The server has not answered within 5000 ms.');
      },
    };
    const stdout = new PassThrough();
    const written = text(stdout);
    const outcome = writeBans(failing, {}, { stdout } as unknown as Io).catch(
      (error: Error) => error.message,
    );
    expect(await outcome).to.equal('The server has not answered within 5000 ms.');
    stdout.end();
    const lines = (await written).trim().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { key: string }).key)).to.have.members(['ada', 'bob']);
    await limiter.close();
  });
});

describe('a question beside that of a command', () => {
  it('is silent without permission, and warns of every other failure: the hint after an override, queues, denials', async () => {
    let errors = '';
    const io = { json: false, stderr: { write: (text: string) => (errors += text) } } as unknown as Io;
    let message = 'NOPERM this user has no permissions to run XREVRANGE';
    const fail = () => Promise.reject(new Error(message));
    const admin = { traffic: fail, queues: fail, denials: fail } as unknown as Admin;
    const ask = async () => {
      await warnOfOtherLimit(admin, { name: 'api', key: 'k' } as OverrideResult, io);
      await writeQueues(admin, 'api', io);
      expect(await recentDenials(admin, 'k', {}, io)).to.equal('');
    };
    await ask();
    expect(errors).to.equal('');
    message = 'The server has not answered within 5000 ms.';
    await ask();
    expect(errors.split('\n').slice(0, -1)).to.deep.equal(
      ['the counts of denials', 'the queues', 'the last denials'].map(
        (what) => `headgate: warning: ${what} cannot be read: ${message}`,
      ),
    );
  });

  it('is not needed for an import: the line of a ban by denials has by: null, or from', () => {
    const line = { kind: 'banned', name: 'api', key: 'k', bannedForMs: 1000 };
    for (const fields of [
      { by: null, reason: null },
      { from: 'denials', cause: 'denied by policy own' },
    ])
      expect(readBanLine(JSON.stringify({ ...line, ...fields }), {})).to.include({
        by: null,
        reason: undefined,
      });
    expect(readBanLine(JSON.stringify(line), {})).to.include({ by: undefined });
  });
});
