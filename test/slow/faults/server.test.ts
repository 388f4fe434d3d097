// Law 8: whatever the store does, the caller has its answer in time, and enforcement comes back by itself.
import { redisStore } from 'headgate/redis';
import type { ServerKind } from '../../support/servers.js';
import { clientKinds } from './clients.js';
import { MODES } from './load.js';
import { check, play } from './play.js';
import { scenes } from './scenes.js';

function suite(kind: ServerKind, clientName: keyof typeof clientKinds, chosen: readonly string[]): void {
  describe(`${kind} under load, by ${clientName}`, () => {
    for (const what of chosen) {
      it(what, async () => {
        const scene = await scenes[what]!(kind);
        const client = clientKinds[clientName](scene.port);
        try {
          const stores = MODES.map(() => redisStore(client.client));
          const outcome = await play(scene, stores, client.queued);
          await check(`${what} (${clientName})`, scene, stores, outcome);
        } finally {
          client.end();
          await scene.end();
        }
      });
    }
  });
}

const all = Object.keys(scenes);
const cut = all.filter((what) => /start|killed|stalled|mid-reply/.test(what));

describe('faults of one server', () => {
  suite('redis', 'ioredis 6', all);
  suite('redis', 'ioredis 5', cut);
  suite('valkey', 'iovalkey', [...cut, 'out of memory, noeviction', 'read-only after a role change']);
  suite('redis', 'node-redis', cut);
});
