// The use of policies: a use is a key in a window, whatever the algorithm and the store.
import { expect } from 'chai';
import { createLimiter, memoryStore } from 'headgate';
import { USE_LEVELS } from 'headgate/admin';
import type { CountedDecision } from '../../src/contract/announcement.js';
import type { CountSink, MinuteFields } from '../../src/stores/counts/sink.js';
import { escapeKey } from '../../src/stores/keys.js';
import { Traffic } from '../../src/stores/counts/traffic.js';
import { places, until, useLimiters, type Place } from './stores.js';

const MINUTE = 60_000;

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
      const fields: MinuteFields[] = [];
      const sink: CountSink = {
        ...{ isPermitted: true, isReady: true, now: () => now },
        write: (_, minutes) => void fields.push(minutes),
      };
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
      });
    });
  }
});
