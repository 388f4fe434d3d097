// Features together over HTTP: drawn sites of stacked limiters behind Express and Fastify, with hundreds of requests in flight.
import { memoryStore } from 'headgate';
import type { TestClock } from 'headgate/testing';
import { allowTime } from '../support/hooks.js';
import { run } from './combinations/run.js';

const memory = {
  name: 'memory',
  create: (clock: TestClock) => memoryStore({ clock: clock.read }),
};

describe('combinations over HTTP', () => {
  it('charges, fields and bodies are those of the oracle, in memory', async () => {
    allowTime(60_000);
    await run({ subject: memory, ms: 4000, most: 30 });
    await run({ subject: memory, ms: 4000, most: 300 });
  });
});
