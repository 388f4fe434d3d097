// A process that begins while an override of all keys is in force.
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { perServer, serverKinds } from '../support/shared-servers.js';
import { clients, freshPrefix } from '../support/stores.js';

const prefixes = perServer(freshPrefix);

for (const kind of serverKinds) {
  describe(`the first decision of a process, on ${kind}`, () => {
    for (const change of [
      { limit: 1 },
      '1/2m',
      { algorithm: 'token-bucket', limit: 1, window: '1m' },
    ] as const) {
      it(`obeys the override of all keys ${JSON.stringify(change)}`, async () => {
        const open = () =>
          createLimiter({
            store: redisStore(clients[kind], {
              prefix: `${prefixes[kind]}-${JSON.stringify(change).length}`,
            }),
            ...{ name: 'api', limit: 100, window: '1m', overrides: true, timeout: '1m' },
          });
        const first = open();
        await first.overrideAll(change);
        const second = open();
        const decisions = await Promise.all([
          second.consume('ada'),
          second.consume('ada'),
          second.peek('ada'),
        ]);
        expect(decisions.map(({ allowed, limit }) => [allowed, limit])).to.deep.equal([
          [true, 1],
          [false, 1],
          [false, 1],
        ]);
        await Promise.all([first.close(), second.close()]);
      });
    }
  });
}
