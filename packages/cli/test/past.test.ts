// headgate key X --at: why a key was denied at a time, by a test that knows each denial itself.
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { expect } from 'chai';
import type { Limiter, Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { CountRows } from '../../../src/stores/counts/count-rows.js';
import { causeOf, hourOf, type DenialCount } from '../../../src/stores/counts/denials.js';
import type { CountSink } from '../../../src/stores/counts/sink.js';
import { escapeKey, keyTextOf, type KeyText } from '../../../src/stores/keys.js';
import { countedText } from '../../../src/stores/state/database-store.js';
import { commandsOf } from '../../../src/stores/redis/clients/clients.js';
import { compileHashing } from '../../../src/stores/redis/secret-keys.js';
import { RedisCounts } from '../../../src/stores/redis/operators/count-sink.js';
import { sqliteFileOf } from '../../../src/stores/sqlite/sqlite.js';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { drivers, makeDirectory, storeOn } from '../../../test/support/sqlite.js';
import { until } from '../../../test/admin/stores.js';
import { createAdmin, type Admin, type LoggedChange } from 'headgate/admin';
import { changesAround } from '../src/commands/causes.js';
import { headgate, json, jsonLines, TELLING, told } from './cli.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const SECRET = 'a secret of the tests';
const MESSAGE = { id: 'p', sample: 1, ms: 1000, limiters: [] } as const;

/** A full hour of the past day. Denials around it are in records of two hours. */
const T = hourOf(Date.now() - 3 * HOUR);
const POLICIES = ['minute=3/1m', 'account=1/1h by account'];

/** The denials of `ada` in each minute from `T`, as the test knows them: policy or reason, and number. */
const KNOWN: readonly (readonly [minute: number, cause: string, count: number])[] = [
  [-9, 'minute', 2],
  [-2, 'minute', 212],
  [-1, 'minute', 198],
  [-1, '!banned', 31],
  [0, '!banned', 7],
  [4, 'minute', 1],
  [12, 'minute', 5],
];

const iso = (minute: number) => new Date(T + minute * MINUTE).toISOString();
const clock = (minute: number) => iso(minute).slice(11, 16);

/** The rows that the command must show around a minute. */
const around = (minute: number) =>
  KNOWN.filter(([at]) => Math.abs(at - minute) <= 5).map(([at, cause, count]) => ({
    ...{ minute: iso(at), count },
    ...(cause.startsWith('!') ? { reason: cause.slice(1) } : { policy: cause }),
  }));

interface Past {
  readonly at: string;
  readonly known: boolean;
  readonly denials: readonly {
    readonly name: string;
    readonly count: number;
    readonly first: string;
    readonly minutes: readonly { readonly minute: string; readonly count: number }[];
  }[];
}

interface Place {
  readonly where: readonly string[];
  readonly store: Store;
  readonly sink: CountSink;
  readonly text: KeyText;
}

const onRedis = async (hashKeys: string | false): Promise<Place> => {
  const [kind] = serverKinds as [(typeof serverKinds)[0]];
  const prefix = freshPrefix();
  const hashing = compileHashing(hashKeys);
  return {
    where: ['--redis', servers[kind].url, '--prefix', prefix],
    store: redisStore(clients[kind], { prefix, hashKeys, counts: false, ...TELLING }),
    sink: new RedisCounts(commandsOf(clients[kind]), prefix),
    text: hashing?.text ?? escapeKey,
  };
};

const onSqlite = async (hashKeys: string | false): Promise<Place> => {
  const path = join(makeDirectory(), 'limits.db');
  const store = storeOn(path, { hashKeys, counts: false });
  const { transactions, name } = sqliteFileOf(store)!;
  const sink = new CountRows((...update) => transactions.update(...update), Date.now);
  return { where: ['--sqlite', path], store, sink, text: countedText(name) };
};

const kinds = {
  ...(serverKinds.length > 0 && { redis: onRedis }),
  ...(Object.keys(drivers).length > 0 && { sqlite: onSqlite }),
};

for (const [kind, open] of Object.entries(kinds))
  for (const hashKeys of [false, SECRET] as const)
    describe(`headgate key --at on ${kind}${hashKeys ? ', hashed keys' : ''}`, () => {
      let place: Place;
      let limiter: Limiter;
      let where: readonly string[];

      before(async () => {
        place = await open(hashKeys);
        limiter = limiterOn(place.store, { name: 'api', policies: POLICIES, ban: {} });
        await limiter.peek('ada');
        where = place.where;
        if (hashKeys) {
          const file = join(makeDirectory(), 'secret');
          writeFileSync(file, hashKeys);
          where = [...where, '--hash-keys-file', file];
        }
        const denials = [...KNOWN].map(([minute, cause, count]): DenialCount => {
          const at = T + minute * MINUTE;
          const owner = `api:${keyTextOf('key', 'ada', place.text)}`;
          const [policy, reason] = cause.startsWith('!') ? [undefined, cause.slice(1)] : [cause, undefined];
          return { owner, minute: at, cause: causeOf(policy, reason), count, first: at, last: at + 1000 };
        });
        place.sink.write(MESSAGE, new Map(), denials);
        if (kind === 'redis') await told(where, 'api');
        await until(async () => (await past('1m')).denials.length > 0);
      });
      after(async () => {
        await limiter.close();
        await place.store.close?.();
      });

      const past = async (at: string, key = 'ada', ...options: string[]) =>
        (await json('key', key, '--at', at, '--name', 'api', ...options, ...where)) as Past;
      const shown = async (at: string, key = 'ada') =>
        (await headgate(['key', key, '--at', at, '--name', 'api', ...where])).stdout;

      /** The rows of the table: minute, limiter, key, cause, number. */
      const rows = (text: string) =>
        text.split('\n').flatMap((line) => {
          const [day = '', time = '', , , cause = '', count = ''] = line.trim().split(/\s+/);
          return /^\d{4}-/.test(day) ? [[`${day}T${time}:00.000Z`, cause, Number(count)]] : [];
        });
      const expected = (minute: number) =>
        around(minute).map(({ minute: at, count, policy, reason }: Record<string, unknown>) => [
          at,
          policy ?? reason,
          count,
        ]);

      it('shows the minutes around a time of day, also across the hour', async () => {
        for (const minute of [-9, -2, -1, 0, 1, 8, 12]) {
          expect(rows(await shown(clock(minute))), clock(minute)).to.deep.equal(expected(minute));
          const { at, known, denials } = await past(clock(minute));
          expect([at, known]).to.deep.equal([iso(minute), true]);
          expect(denials).to.have.lengthOf(1);
          expect(denials[0]).to.include({ name: 'api', count: 456, first: iso(-9) });
          expect(denials[0]!.minutes).to.deep.equal(
            [-9, -2, -1, 0, 4, 12].flatMap((each) =>
              around(each).filter(({ minute: of }) => of === iso(each)),
            ),
          );
        }
        expect(await shown(clock(-40))).to.match(/^No denial of ada is recorded within 5 minutes of /);
      });

      it('takes ISO 8601 and ages, and UTC in every time zone of the machine', async () => {
        const zone = process.env['TZ'];
        try {
          for (const tz of ['UTC', 'Asia/Kolkata', 'America/St_Johns']) {
            process.env['TZ'] = tz;
            const [day, hour] = iso(-1).split(/[T.]/) as [string, string];
            const local = new Date(T - MINUTE + 330 * MINUTE).toISOString().slice(0, 16);
            for (const at of [`${day}T${hour}Z`, `${day}T${hour}`, `${day} ${hour}`, `${local}+05:30`])
              expect(rows(await shown(at)), `${tz} ${at}`).to.deep.equal(expected(-1));
            expect(rows(await shown(clock(-1))), tz).to.deep.equal(expected(-1));
            const age = Math.round((Date.now() - T) / MINUTE);
            expect((await past(`${age}m`)).at.slice(0, 15), tz).to.equal(
              new Date(Date.now() - age * MINUTE).toISOString().slice(0, 15),
            );
          }
        } finally {
          if (zone === undefined) delete process.env['TZ'];
          else process.env['TZ'] = zone;
        }
      });

      it('finds no denial of a key that was never denied', async () => {
        const { known, denials } = await past(clock(-1), 'bob');
        expect([known, denials]).to.deep.equal([true, []]);
        expect(await shown(clock(-1), 'bob')).to.match(
          /^No denial of bob is recorded in the last 24 hours\. A store records the 540/,
        );
        expect((await past(clock(-1), 'ada', '--dimension', 'account')).denials).to.deep.equal([]);
      });

      it('a time that lies in the future, or before the kept 24 hours, is unknown', async () => {
        const future = new Date(Date.now() + 2 * MINUTE).toISOString();
        const before = new Date(Date.now() - 24 * HOUR - 2 * MINUTE).toISOString();
        for (const key of ['ada', 'bob']) {
          expect((await past(future, key)).known, key).to.equal(false);
          expect((await past(before, key)).known, key).to.equal(false);
          expect(await shown(future, key)).to.match(/^Unknown: .* UTC lies in the future\./);
          expect(await shown(before, key)).to.match(
            /^Unknown: denials are kept for 24 hours, and .* earlier\./,
          );
          expect(await shown(before, key)).not.to.match(/No denial/);
        }
        expect(await shown(future)).to.contain('api: 456 denials from');
        expect((await past('25h')).known).to.equal(false);
        expect((await past('23h')).known).to.equal(true);
      });
    });

describe('headgate key --at and the changes of that time', () => {
  it('shows the changes of the key and of all keys', async () => {
    const [kind] = serverKinds as [(typeof serverKinds)[0]];
    const prefix = freshPrefix();
    const where = ['--redis', servers[kind].url, '--prefix', prefix];
    const store = redisStore(clients[kind], { prefix, ...TELLING });
    const made = ['api', 'other'].map((name) =>
      limiterOn(store, { name, policies: ['minute=600/1m'], overrides: true, ban: {} }),
    );
    await told(where, 'api', 'other');
    const admin = createAdmin(clients[kind], { prefix });
    await admin.override('customer:bob', { minute: '7/1m' }, { name: 'api', by: 'ada' });
    await admin.overrideAll({ minute: '8/1m' }, { name: 'other', by: 'ada' });
    await admin.overrideAll({ minute: '1/1m' }, { name: 'api', by: 'olga', reason: 'INC-7', for: '1h' });
    for (let i = 0; i < 3; i++) await made[0]!.consume('customer:acme');
    await admin.ban('customer:acme', '1h', { name: 'api', by: 'grace' });
    const args = ['key', 'customer:acme', '--at', '1m', '--name', 'api', ...where];
    const { changes } = (await json(...args)) as { changes: Record<string, unknown>[] };
    const byHand = changes.filter(({ action }) => action !== 'configure');
    expect(byHand.map(({ action, key, by, reason }) => [action, key, by, reason])).to.deep.equal([
      ['override', undefined, 'olga', 'INC-7'],
      ['ban', 'customer:acme', 'grace', null],
    ]);
    let stdout = '';
    while (!stdout.includes('Changes of this key')) ({ stdout } = await headgate(args));
    expect(stdout)
      .to.match(/^Changes of this key and of all keys, in force or made around then:$/m)
      .and.match(/ override +api +all keys .*1\/1m.* olga +INC-7 /m);
    await Promise.all(made.map((limiter) => limiter.close()));
  });

  it('shows the ban of a network or an import that denied the key', async () => {
    const [kind] = serverKinds as [(typeof serverKinds)[0]];
    const prefix = freshPrefix();
    const where = ['--redis', servers[kind].url, '--prefix', prefix];
    const store = redisStore(clients[kind], { prefix, ...TELLING });
    const limiter = limiterOn(store, { name: 'api', policies: ['minute=600/1m'], ban: {} });
    await told(where, 'api');
    const admin = createAdmin(clients[kind], { prefix });
    const note = { name: 'api', by: 'ada' };
    await admin.ban('203.0.113.0/28', '1h', note);
    await admin.ban('198.51.100.0/28', '1h', note);
    const list = ['203.0.113.9', '2001:db8:1:2::5'].map((key) => ({ name: 'api', key, for: '2h' }));
    await admin.importBans(list, { by: 'grace', reason: 'feed' });
    const rows = (changes: readonly Record<string, unknown>[]) =>
      changes.flatMap(({ action, network, by, forMs }) =>
        action === 'configure' ? [] : [[action, network, by, forMs]],
      );
    const [network, imported] = [
      ['ban', '203.0.113.0/28', 'ada', HOUR],
      ['import', undefined, 'grace', 2 * HOUR],
    ];
    const past = async (key: string) => {
      const args = ['key', key, '--at', '1m', '--name', 'api', ...where];
      return rows(((await json(...args)) as { changes: Record<string, unknown>[] }).changes);
    };
    expect(await past('203.0.113.9')).to.deep.equal([network, imported]);
    expect(await past('203.0.113.8')).to.deep.equal([network]);
    expect(await past('2001:db8:1:2::5')).to.deep.equal([imported]);
    expect(await past('192.0.2.1')).to.deep.equal([]);
    const logged = async (key: string) => rows(await jsonLines('log', '--key', key, ...where));
    expect(await logged('::ffff:203.0.113.9')).to.deep.equal([imported, network]);
    expect(await logged('2001:db8:1:3::1')).to.deep.equal([imported]);
    expect(await logged('203.0.113.0/28')).to.deep.equal([network]);
    await limiter.close();
  });

  it('leaves out what had ended, and what began later', async () => {
    const hour = (n: number) => new Date(T + n * HOUR);
    const change = (id: string, at: number, rest: Partial<LoggedChange>) =>
      ({ id, at: hour(at), name: 'api', keys: 1, forMs: 0, action: 'override', ...rest }) as LoggedChange;
    const newestFirst = [
      change('later', 1, {}),
      change('all, in force', -1, { forMs: 2 * HOUR }),
      change('all, replaced', -2, {}),
      change('ended by hand', -3, { key: 'ada', action: 'remove' }),
      change('before that', -4, { key: 'ada' }),
      change('ban in force', -5, { key: 'ada', action: 'ban', forMs: 6 * HOUR }),
      change('of another key', -5, { key: 'bob', action: 'ban', forMs: 6 * HOUR }),
      change('in another limiter', -5, { name: 'chat' }),
      change('over', -6, { key: 'ada', dimension: 'account', forMs: HOUR }),
    ];
    const admin = {
      async *log({ key }: { key?: string } = {}) {
        yield* newestFirst.filter((each) => key === undefined || each.key === key);
      },
    } as unknown as Admin;
    const around = { names: new Set(['api']), keys: new Set(['ada']), time: T, aroundMs: 5 * MINUTE };
    const found = await changesAround(admin, around);
    expect(found.map(({ id }) => id)).to.deep.equal(['ban in force', 'all, in force']);
  });
});

describe('headgate key --at without a limiter', () => {
  it('is unknown, because the store does not know which limiters to ask', async () => {
    const [kind] = serverKinds as [(typeof serverKinds)[0]];
    const where = ['--redis', servers[kind].url, '--prefix', freshPrefix()];
    expect(await json('key', 'ada', '--at', '2h', ...where)).to.include({ known: false });
    const { stdout } = await headgate(['key', 'ada', '--at', '2h', ...where]);
    expect(stdout).to.match(/^Unknown: no limiter is published\. Pass --name/);
  });
});
