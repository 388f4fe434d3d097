// Features together over HTTP: drawn sites of stacked limiters behind Express and Fastify, with hundreds of requests in flight.
import { setImmediate as immediate } from 'node:timers/promises';
import { expect } from 'chai';
import { memoryStore } from 'headgate';
import type { TestClock } from 'headgate/testing';
import { allowTime } from '../support/hooks.js';
import { watched } from './combinations/own.js';
import { run } from './combinations/run.js';

const memory = {
  name: 'memory',
  create: (clock: TestClock) => memoryStore({ clock: clock.read }),
};

describe('combinations over HTTP', () => {
  it('charges, fields and bodies are those of the oracle, in memory', async () => {
    allowTime(60_000);
    await run({ subject: memory, sites: 40, most: 30 });
    await run({ subject: memory, sites: 20, most: 300 });
  });

  it('takes no timers and warnings of others for those of a site', async () => {
    const warn = (text: string) => process.emit('warning', new Error(text));
    const others = immediate().then(() => {
      warn('of others');
      return setTimeout(() => {}, 60_000);
    });
    await watched(async ({ warnings, timersAfter }) => {
      const timer = await others;
      expect(await timersAfter(10)).to.equal(0);
      clearTimeout(timer);
      const own = setTimeout(() => {}, 60_000);
      expect(await timersAfter(10)).to.equal(1);
      clearTimeout(own);
      expect(await timersAfter(1000)).to.equal(0);
      warn('own');
      expect(warnings).to.deep.equal(['Error: own']);
    });
  });
});
