// A margin that changes while turns are reserved: the new window counts anew, and its turns must not overlap the turns of earlier calls.
import { expect } from 'chai';
import { createLimiter, memoryStore, type Decision } from 'headgate';
import { Margins } from '../../src/fetch/margin.js';
import { pace } from '../../src/fetch/pacing.js';

const START = 1_700_000_000_000;

describe('a margin that changes while turns are reserved', () => {
  for (const learnt of [undefined, 0.12])
    it(`${learnt === undefined ? 'wider' : 'narrower'}: later turns come after the reserved ones`, async () => {
      let now = START;
      const { policies, partners } = pace('50/1s', 0.03, 1);
      const limiter = createLimiter({
        ...{ name: 'partner', policies, overrides: true },
        store: memoryStore({ clock: () => now }),
      });
      const charged: Promise<unknown>[] = [];
      const margins = new Margins(limiter, 0.03, partners, async (key, name, units) => {
        const consumed = limiter.consume(key, { cost: { [name]: units } });
        charged.push(consumed);
        await consumed;
      });
      const { name } = partners[0]!;
      if (learnt !== undefined) {
        const change = { [name]: { window: `${1000 * (1 + learnt)}ms` } };
        const reason = `margin ${learnt}, shrinks after 0 s`;
        await limiter.override('k', change, { for: '1h', by: 'headgate/fetch', reason });
      }
      const turns: number[] = [];
      const take = async (calls: number): Promise<Decision> => {
        let decision: Decision;
        for (let i = 0; i < calls; i++) {
          decision = await limiter.consume('k');
          if (decision.allowed) turns.push(now + decision.delayMs);
        }
        return decision!;
      };
      // Calls of several processes reserve their turns right after a pause, before the margin changes.
      const last = await take(40);
      now += 50;
      const before = await limiter.overrideOf('k');
      if (learnt === undefined) margins.widenAfter('k', 0);
      else await margins.narrow('k', last);
      while ((await limiter.overrideOf('k'))?.reason === before?.reason) await new Promise(setImmediate);
      await new Promise(setImmediate);
      await Promise.all(charged);
      await take(40);

      const inOrder = [...turns].sort((a, b) => a - b);
      const gaps = inOrder.slice(1).map((turn, i) => turn - inOrder[i]!);
      expect(turns).to.have.length.greaterThan(70);
      // The partner takes a call every 20 ms.
      expect(Math.min(...gaps)).to.be.at.least(20);
      await limiter.close();
    });
});
