// Counts and past denials of every store, against a generator of traffic that keeps its own books.
import { join } from 'node:path';
import { expect } from 'chai';
import type { Pool } from 'pg';
import { memoryStore, type Limiter, type Store } from 'headgate';
import { createAdmin, type Admin, type DecisionRates, type PastDenials } from 'headgate/admin';
import { postgresStore } from 'headgate/postgres';
import { redisStore } from 'headgate/redis';
import { hourOf } from '../../src/stores/counts/denials.js';
import { Traffic } from '../../src/stores/counts/traffic.js';
import type { CountedDecision } from '../../src/contract/announcement.js';
import { commandsOf } from '../../src/stores/redis/clients/clients.js';
import { compileHashing } from '../../src/stores/redis/secret-keys.js';
import { RedisCounts } from '../../src/stores/redis/operators/count-sink.js';
import { json } from '../../packages/cli/test/cli.js';
import { until } from '../admin/stores.js';
import { sequence } from '../support/fleet.js';
import { freshTable, usePostgres } from '../support/postgres.js';
import { serverKinds, servers } from '../support/shared-servers.js';
import { drivers, makeDirectory, storeOn } from '../support/sqlite.js';
import { clients, freshPrefix, limiterOn } from '../support/stores.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const SECRET = 'a secret of the tests';
/** The largest difference between a rate and the books, as a part of the rate. */
const TOLERANCE = 0.02;

/** A store to count on, and the options by which the command line finds it. */
interface Place {
  readonly store: Store;
  readonly admin: Admin;
  readonly where?: readonly string[];
  /** Counts a decision of another store at the time of the clock, where the store cannot have a clock. */
  readonly count?: (decisions: readonly CountedDecision[]) => void;
}

type Clock = () => number;

/** The decisions of a generator, by limiter and key, then by cause. */
class Books {
  readonly admitted = new Map<string, number>();
  readonly denied = new Map<string, Map<string, number>>();
  /** The denials of a limiter by each policy that denies, or by the reason if there is no such policy. */
  readonly causes = new Map<string, Map<string, number>>();

  /** Books a decision for its keys. The first one represents the request in the sums of the limiter. */
  add(name: string, keys: readonly string[], { allowed, policy, reason, policies }: CountedDecision): void {
    for (const [i, key] of keys.entries()) {
      const id = i === 0 ? `${name} ${key}` : `other ${name} ${key}`;
      if (allowed) this.admitted.set(id, (this.admitted.get(id) ?? 0) + 1);
      else increment(this.denied, id, policy ?? `!${reason}`);
    }
    if (allowed) return;
    const denying = policies.filter((each) => !each.allowed);
    for (const each of denying) increment(this.causes, name, each.name);
    if (denying.length === 0) increment(this.causes, name, `!${reason}`);
  }

  /** The numbers of a limiter, or of a key. */
  of(id: string) {
    const isOwn = ([each]: readonly [string, unknown]) => each === id || each.startsWith(`${id} `);
    const causes = new Map<string, number>();
    for (const [, own] of [...this.denied].filter(isOwn))
      for (const [cause, count] of own) causes.set(cause, (causes.get(cause) ?? 0) + count);
    const admitted = sum([...this.admitted].filter(isOwn).map(([, count]) => count));
    return { admitted, denied: sum([...causes.values()]), causes };
  }
}

function increment(counts: Map<string, Map<string, number>>, id: string, cause: string): void {
  const causes = counts.get(id) ?? new Map<string, number>();
  counts.set(id, causes);
  causes.set(cause, (causes.get(cause) ?? 0) + 1);
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
const causeOf = ({ policy, reason }: { policy?: string; reason?: string }): string => policy ?? `!${reason}`;

describe('counts against the books of a generator', function () {
  this.timeout(120_000);
  let pool: Pool;
  usePostgres((rig) => ({ pool } = rig));

  /** The generators of all places, which work at the same time, because the counts take seconds. */
  const generators: (() => Promise<void>)[] = [];
  before(() => Promise.all(generators.map((generate) => generate())));

  /** Opens a place with a clock, or without, and with or without hashed keys. */
  type Open = (clock?: Clock, hashKeys?: string | false) => Promise<Place>;

  const withClock = (clock: Clock | undefined) => (clock ? { clock, counts: true } : {});
  const memory: Open = async (clock) => {
    const store = memoryStore(withClock(clock));
    return { store, admin: createAdmin(store) };
  };
  const sqlite: Open = async (clock, hashKeys = false) => {
    const path = join(makeDirectory(), 'limits.db');
    const store = storeOn(path, { ...withClock(clock), hashKeys });
    return { store, admin: createAdmin(store), where: ['--sqlite', path] };
  };
  const postgres: Open = async (clock, hashKeys = false) => {
    const store = postgresStore(pool, { table: freshTable(), ...withClock(clock), hashKeys });
    await store.setup();
    return { store, admin: createAdmin(store) };
  };
  const onServer =
    (kind: (typeof serverKinds)[0]): Open =>
    async (clock, hashKeys = false) => {
      const prefix = freshPrefix();
      const store = redisStore(clients[kind], {
        prefix,
        hashKeys,
        publish: '20ms',
        counts: clock === undefined,
      });
      // Redis has the time of its server, so another process counts by the clock of the test.
      class PastCounts extends RedisCounts {
        override now = clock!;
      }
      const count = (decisions: readonly CountedDecision[]) => {
        const sink = new PastCounts(commandsOf(clients[kind]), prefix);
        const traffic = new Traffic(sink, { sample: 1, text: compileHashing(hashKeys).text }, new Set());
        for (const decision of decisions) traffic.count('api', decision);
        traffic.flush();
        traffic.close();
      };
      return {
        ...{ store, admin: createAdmin(clients[kind], { prefix, hashKeys }) },
        where: ['--redis', servers[kind].url, '--prefix', prefix],
        ...(clock && { count }),
      };
    };
  const kinds: Record<string, Open> = {
    memory,
    ...(Object.keys(drivers).length > 0 && { sqlite }),
    postgres,
    ...Object.fromEntries(serverKinds.map((kind) => [kind, onServer(kind)])),
  };

  for (const [kind, open] of Object.entries(kinds)) {
    describe(`${kind}, now`, () => {
      const books = new Books();
      let place: Place;
      const limiters: Limiter[] = [];

      generators.push(async () => {
        place = await open();
        const make = (options: object) => {
          const limiter = limiterOn(place.store, { ...options, timeout: '30s' } as never);
          limiters.push(limiter);
          return limiter;
        };
        const api = make({ name: 'api', policies: ['minute=40/1h', 'account=60/1h by account'], ban: {} });
        const login = make({ name: 'login', policies: ['5/1h'] });
        await api.ban('10.0.0.9', '1h');
        const random = sequence(61);
        // Below 500 decisions a second, the keys of all decisions are counted.
        for (let tick = 0; tick < 60; tick++) {
          for (let i = 0; i < 12; i++) {
            const key = random() < 0.3 ? 'often' : `10.0.0.${Math.floor(10 * random())}`;
            const account = random() < 0.4 ? { account: 'ada' } : {};
            const decision = (await api.consume({ key, ...account })) as CountedDecision;
            // A decision belongs to the key of each dimension.
            books.add('api', 'account' in account ? [key, 'account ada'] : [key], decision);
          }
          for (let i = 0; i < 4; i++) {
            const key = `user:${Math.floor(3 * random())}`;
            books.add('login', [key], (await login.consume(key)) as CountedDecision);
          }
          await new Promise((resolve) => setTimeout(resolve, 45));
        }
        const total = sum(['api', 'login'].map((name) => books.of(name).denied));
        await until(async () => {
          const { limiters: counted } = await place.admin.history({ minutes: 5 });
          return sum(counted.flatMap(({ denied }) => denied)) >= total;
        });
      });
      after(async () => {
        for (const limiter of limiters) await limiter.close();
        await place.store.close?.();
      });

      /** Compares rates over a minute, which has all decisions, with the books. */
      const compare = (rates: readonly DecisionRates[]) => {
        const close = (rate: number, count: number, what: string) =>
          expect(60 * rate, what).to.be.closeTo(count, Math.max(3, TOLERANCE * count));
        expect(rates.map(({ name }) => name)).to.have.members(['api', 'login']);
        for (const { name, admitted, denied, policies, reasons, keys } of rates) {
          const own = books.of(name);
          expect(own.denied).to.be.above(100);
          close(admitted, own.admitted, `${name} admitted`);
          close(denied, own.denied, `${name} denied`);
          const counted = new Map([
            ...policies.map((each) => [each.name, each.denied] as const),
            ...reasons.map((each) => [`!${each.reason}`, each.denied] as const),
          ]);
          const causes = books.causes.get(name)!;
          expect([...counted.keys()]).to.have.members([...causes.keys()]);
          for (const [cause, count] of causes) close(counted.get(cause)!, count, `${name} ${cause}`);
          expect(keys).not.to.be.empty;
        }
      };

      it('admin.traffic: rates of limiters, policies and reasons', async () => {
        compare((await place.admin.traffic({ seconds: 60, keys: 20 })).limiters);
      });

      it('admin.traffic: the rate of the busiest key', async () => {
        const { limiters: rates } = await place.admin.traffic({ seconds: 60, keys: 20 });
        const often = rates.find(({ name }) => name === 'api')!.keys.find(({ key }) => key === 'often')!;
        const own = books.of('api often');
        expect(60 * often.denied).to.be.closeTo(own.denied, Math.max(3, TOLERANCE * own.denied));
        expect(60 * often.admitted).to.be.closeTo(own.admitted, 3);
        const ada = rates.flatMap(({ keys }) => keys).find(({ dimension }) => dimension === 'account')!;
        const known = books.of('other api account ada');
        expect(60 * (ada.admitted + ada.denied)).to.be.closeTo(known.admitted + known.denied, 5);
      });

      it('admin.history: exactly', async () => {
        const { limiters: counted } = await place.admin.history({ minutes: 5 });
        for (const { name, admitted, denied, policies, reasons } of counted) {
          const own = books.of(name);
          const causes = [
            ...Object.entries(policies),
            ...Object.entries(reasons).map(([reason, counts]) => [`!${reason}`, counts] as const),
          ].map(([cause, counts]) => [cause, sum(counts)] as const);
          expect({ admitted: sum(admitted), denied: sum(denied) }, name).to.deep.equal({
            admitted: own.admitted,
            denied: own.denied,
          });
          expect(new Map(causes), name).to.deep.equal(books.causes.get(name));
        }
      });

      it('admin.denials: exactly, for each key', async () => {
        const keys = [
          'often',
          'user:0',
          'user:1',
          'user:2',
          ...Array.from({ length: 10 }, (_, i) => `10.0.0.${i}`),
        ];
        for (const key of keys) {
          const past = await place.admin.denials(key);
          for (const name of ['api', 'login']) {
            const own = past.filter((each) => each.name === name).flatMap(({ minutes }) => minutes);
            const causes = new Map<string, number>();
            for (const each of own) causes.set(causeOf(each), (causes.get(causeOf(each)) ?? 0) + each.count);
            expect(causes, `${name} ${key}`).to.deep.equal(books.of(`${name} ${key}`).causes);
          }
        }
        const [account] = await place.admin.denials('ada', { dimension: 'account' });
        expect(account!.count).to.equal(books.of('other api account ada').denied);
      });

      // The command line opens servers and files.
      if (kind !== 'memory' && kind !== 'postgres')
        it('headgate top --once', async () => {
          const args = ['--once', '--seconds', '60', '--keys', '20', ...place.where!];
          compare(((await json('top', ...args)) as { limiters: DecisionRates[] }).limiters);
        });
    });

    for (const hashKeys of kind === 'memory' ? [false as const] : [false as const, SECRET])
      describe(`${kind}, the past${hashKeys ? ' of hashed keys' : ''}`, () => {
        /** The end of an hour in the past. */
        const T = hourOf(Date.now() - 3 * HOUR);
        let now = T - 2 * MINUTE + 20_000;
        const known = new Map<string, { minute: number; cause: string; count: number }[]>();
        let place: Place;
        let limiter: Limiter;
        let deciding: Limiter;

        generators.push(async () => {
          place = await open(() => now, hashKeys);
          const options = { name: 'api', policies: ['minute=3/1m', 'account=1/1h by account'], ban: {} };
          limiter = limiterOn(place.store, { ...options, timeout: '30s' });
          deciding = place.count ? limiterOn(memoryStore({ clock: () => now }), options) : limiter;
          await deciding.ban('eve', '1h');
          // Across the hour, then after a pause.
          for (const [minutes, adas, eves] of [
            [0, 9, 2],
            [1, 6, 0],
            [1, 5, 3],
            [12, 8, 1],
          ] as const) {
            now += minutes * MINUTE;
            const decisions: CountedDecision[] = [];
            const consume = async (id: string, key: Parameters<Limiter['consume']>[0]) => {
              const decision = (await deciding.consume(key)) as CountedDecision;
              decisions.push(decision);
              if (decision.allowed) return;
              const minute = now - (now % MINUTE);
              const cause = causeOf(decision as never);
              const own = known.get(id) ?? [];
              known.set(id, own);
              const row = own.find((each) => each.minute === minute && each.cause === cause);
              if (row) row.count++;
              else own.push({ minute, cause, count: 1 });
            };
            for (let i = 0; i < adas; i++) await consume('ada', { key: 'ada' });
            for (let i = 0; i < eves; i++) await consume('eve', { key: 'eve' });
            for (let i = 0; i < 2; i++)
              await consume('acme', { key: `10.0.${minutes}.${i}`, account: 'acme' });
            if (place.count) place.count(decisions);
            else await until(async () => (await counted()) >= decisions.length);
          }
          now += HOUR;
          await until(async () => (await shown('eve')).length === known.get('eve')!.length);
        });
        after(async () => {
          await limiter.close();
          if (deciding !== limiter) await deciding.close();
          await place.store.close?.();
        });

        /** The decisions of the current time of the clock that the store has counted. */
        const counted = async (): Promise<number> => {
          // Rates are rounded to a tenth, so those of more than ten seconds would not be exact. Within less, the counts of a late process,
          // which are those of several seconds, would not all be.
          const { limiters } = await place.admin.traffic({ seconds: 10 });
          return Math.round(10 * sum(limiters.map((each) => each.admitted + each.denied)));
        };
        const shown = async (key: string, options: object = {}) =>
          (await place.admin.denials(key, options)).flatMap(({ minutes }) =>
            minutes.map(({ minute, count, ...each }) => ({ minute, cause: causeOf(each), count })),
          );

        it('has each minute, also across the hour', async () => {
          expect(known.get('ada')!.map(({ minute }) => (minute - T) / MINUTE)).to.deep.equal([-2, -1, 0, 12]);
          expect(await shown('ada')).to.deep.equal(known.get('ada'));
          expect(await shown('eve')).to.deep.equal(known.get('eve'));
          expect(await shown('acme', { dimension: 'account' })).to.deep.equal(known.get('acme'));
        });

        it('has the first and the last denial', async () => {
          const [past] = (await place.admin.denials('ada')) as [PastDenials];
          expect(past.first.getTime()).to.equal(T - 2 * MINUTE + 20_000);
          expect(past.last.getTime()).to.equal(T + 12 * MINUTE + 20_000);
          expect(past.count).to.equal(sum(known.get('ada')!.map(({ count }) => count)));
        });

        it('has nothing of a key that was never denied, or by another dimension', async () => {
          expect(await place.admin.denials('bob')).to.deep.equal([]);
          expect(await shown('10.0.12.0')).to.have.length(1);
          expect(await place.admin.denials('ada', { dimension: 'account' })).to.deep.equal([]);
        });
      });
  }
});
