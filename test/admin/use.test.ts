// The use of policies: a use is a key in a window, whatever the algorithm and the store.
import { expect } from 'chai';
import { createLimiter, memoryStore } from 'headgate';
import { USE_LEVELS } from 'headgate/admin';
import type { CountedDecision } from '../../src/contract/announcement.js';
import type { CountSink, MinuteFields } from '../../src/stores/counts/sink.js';
import { escapeKey } from '../../src/stores/keys.js';
import { Traffic } from '../../src/stores/counts/traffic.js';
import { limiterOn } from '../support/stores.js';
import { places, until, useLimiters, type Place } from './stores.js';

const MINUTE = 60_000;

/** A sink that keeps the fields of minutes. */
function recording(now: () => number): { readonly fields: MinuteFields[]; readonly sink: CountSink } {
  const fields: MinuteFields[] = [];
  const write: CountSink['write'] = (_, minutes) => void fields.push(minutes);
  return { fields, sink: { isPermitted: true, isReady: true, now, write } };
}

describe('the use of policies', () => {
  const ALGORITHMS = [
    'sliding-window',
    'fixed-window',
    'sliding-log',
    'token-bucket',
    'leaky-bucket',
    'gcra',
  ];
  for (const algorithm of ALGORITHMS)
    it(`counts each key once a window, and its denials: ${algorithm}`, async () => {
      let now = 1_000_000 * MINUTE;
      const { fields, sink } = recording(() => now);
      const traffic = new Traffic(sink, { sample: 1, text: escapeKey }, new Set());
      const limiter = createLimiter({
        store: memoryStore({ clock: () => now }),
        ...{
          name: 'api',
          policies: [{ name: 'p', algorithm: algorithm as 'gcra', limit: 20, window: '1m' }],
        },
      });
      // Ten minutes: one key far above the limit, and one far below it.
      for (let second = 0; second < 600; second++) {
        for (let i = 0; i < 3; i++) traffic.count('api', (await limiter.consume('often')) as CountedDecision);
        if (second % 30 === 0) traffic.count('api', (await limiter.consume('rare')) as CountedDecision);
        now += 1000;
      }
      traffic.flush(true);
      traffic.close();
      await limiter.close();
      const levels = [...USE_LEVELS.keys(), USE_LEVELS.length].map((level) =>
        fields.reduce((sum, each) => sum + (each.get('api')?.get(`u${level}:p`) ?? 0), 0),
      );
      expect(levels[0]).to.equal(20);
      // The rare key uses two of 20 units in a minute, and so never a quarter.
      expect(levels[11]).to.equal(10);
      expect(levels.at(-1)).to.equal(10);
      expect([...levels].sort((a, b) => b - a)).to.deep.equal(levels);
    });

  for (const algorithm of ALGORITHMS)
    it(`counts the denials of no more keys and windows than are used, also after restarts: ${algorithm}`, async () => {
      for (const restartAt of [150, 155, 160, 165, 170]) {
        let now = 1_000_000 * MINUTE;
        const { fields, sink } = recording(() => now);
        const start = () => new Traffic(sink, { sample: 1, text: escapeKey }, new Set());
        const end = (traffic: Traffic) => {
          traffic.flush(true);
          traffic.close();
        };
        let traffic = start();
        const limiter = createLimiter({
          store: memoryStore({ clock: () => now }),
          ...{ name: 'api', policies: [`p=${algorithm} 30/1m`] },
        });
        for (let second = 0; second < 300; second++) {
          if (second === restartAt) {
            end(traffic);
            traffic = start();
            // A restart takes some seconds, in which units are freed.
            now += 3000;
          }
          traffic.count('api', (await limiter.consume('a')) as CountedDecision);
          now += 1000;
        }
        end(traffic);
        await limiter.close();
        const levels = [...USE_LEVELS.keys(), USE_LEVELS.length].map((level) =>
          fields.reduce((sum, each) => sum + (each.get('api')?.get(`u${level}:p`) ?? 0), 0),
        );
        expect(levels[0], `restart after ${restartAt} s`).to.be.within(4, 6);
        expect(
          [...levels].sort((a, b) => b - a),
          `restart after ${restartAt} s`,
        ).to.deep.equal(levels);
      }
    });

  it('counts keys that fill long after the start of the processes that share their requests', async () => {
    let now = 1_000_000 * MINUTE;
    const { fields, sink } = recording(() => now);
    const processes = Array.from(
      { length: 10 },
      () => new Traffic(sink, { sample: 1, text: escapeKey }, new Set()),
    );
    const limiter = createLimiter({
      store: memoryStore({ clock: () => now }),
      ...{ name: 'api', policies: ['p=10/1d'] },
    });
    for (const traffic of processes)
      traffic.count('api', (await limiter.consume('first')) as CountedDecision);
    for (let i = 0; i < 10; i++) {
      now += 5 * MINUTE;
      for (let key = 0; key < 20; key++)
        processes[(7 * key + 3 * i) % 10]!.count(
          'api',
          (await limiter.consume(`key:${key}`)) as CountedDecision,
        );
    }
    for (const traffic of processes) {
      traffic.flush(true);
      traffic.close();
    }
    await limiter.close();
    const full = fields.reduce(
      (sum, each) => sum + (each.get('api')?.get(`u${USE_LEVELS.length - 1}:p`) ?? 0),
      0,
    );
    expect(full).to.be.within(20, 21);
  });

  // Each use is new in one process: that whose charge, or whose denial, reached the level.
  for (const algorithm of [...ALGORITHMS, 'calendar'])
    it(`counts a use once, however many processes decide: ${algorithm}`, async () => {
      const now = Date.UTC(2026, 10, 10, 12);
      const { fields, sink } = recording(() => now);
      const processes = Array.from(
        { length: 4 },
        () => new Traffic(sink, { sample: 1, text: escapeKey }, new Set()),
      );
      const span = algorithm === 'calendar' ? 'month' : '1h';
      const limiter = createLimiter({
        store: memoryStore({ clock: () => now }),
        ...{ name: 'api', policies: [`p=${algorithm} 100/${span}`] },
      });
      // Twenty keys with 5, 10 ... 100 units in turn by the processes, and one that is denied.
      let turn = 0;
      const consume = async (key: string, cost: number) => {
        const decision = (await limiter.consume(key, { cost })) as CountedDecision;
        processes[turn++ % 4]!.count('api', decision);
      };
      for (let i = 0; i < 20; i++)
        for (let unit = 0; unit < 5 * (i + 1); unit += 5) await consume(`k${i}`, 5);
      for (let i = 0; i < 8; i++) await consume('k19', 5);
      for (const each of processes) {
        each.flush(true);
        each.close();
      }
      await limiter.close();
      const sumOf = (field: string): number =>
        fields.reduce((sum, each) => sum + (each.get('api')?.get(field) ?? 0), 0);
      const known = USE_LEVELS.map(
        (level) =>
          Array.from({ length: 20 }, (_, i) => 5 * (i + 1)).filter((used) => used >= 100 * level).length,
      );
      expect(USE_LEVELS.map((_, i) => sumOf(`u${i}:p`))).to.deep.equal(known);
      expect(sumOf(`u${USE_LEVELS.length}:p`)).to.equal(1);
      expect(sumOf('cp')).to.equal(1050);
    });

  for (const [kind, open] of Object.entries(places)) {
    describe(`on ${kind}`, () => {
      let place: Place;
      const { make } = useLimiters(open, (opened) => (place = opened));

      it('is the same on all stores, and has the keys that are denied', async () => {
        const limiter = make({ name: 'api', policies: ['p=token-bucket 8/1h'] });
        for (let i = 0; i < 12; i++) await limiter.consume('a');
        for (let i = 0; i < 4; i++) await limiter.consume('b');
        for (let i = 0; i < 9; i++) await limiter.consume('c');
        const sum = (all: readonly number[] = []) => all.reduce((a, b) => a + b, 0);
        const read = async () => (await place.admin.history()).limiters[0];
        await until(async () => sum((await read())?.denied) === 5);
        const { use } = (await read())!;
        const counts = use['p']![0]!.map((_, i) => sum(use['p']!.map((levels) => levels[i]!)));
        const known = USE_LEVELS.map((level) => (level <= 0.5 ? 3 : 2));
        expect(counts).to.deep.equal([...known, 2]);
        expect(sum((await read())!.units['p'])).to.equal(20);
      });

      if (kind !== 'memory')
        it('has each use and each unit once, with several processes on one store', async () => {
          const stores = await Promise.all([1, 2].map(() => place.another!()));
          const options = { name: 'api', policies: ['p=fixed-window 100/1h'] };
          const limiters = [make(options), ...stores.map((store) => limiterOn(store, options))];
          let admitted = 0;
          for (let i = 0; i < 30; i++)
            for (const key of ['a', 'b', 'c']) {
              const decision = await limiters[i % 3]!.consume(key, { cost: key === 'a' ? 4 : 1 });
              if (decision.allowed) admitted += key === 'a' ? 4 : 1;
            }
          for (const each of limiters.slice(1)) await each.close();
          for (const each of stores) await each.close?.();
          const sum = (all: readonly number[] = []) => all.reduce((a, b) => a + b, 0);
          const read = async () => (await place.admin.history()).limiters[0];
          await until(async () => sum((await read())?.units['p']) >= admitted);
          const { use, units } = (await read())!;
          expect(sum(units['p'])).to.equal(160);
          const counts = use['p']![0]!.map((_, i) => sum(use['p']!.map((levels) => levels[i]!)));
          const known = USE_LEVELS.map((level) => (level <= 0.3 ? 3 : 1));
          expect(counts).to.deep.equal([...known, 1]);
        });
    });
  }
});
