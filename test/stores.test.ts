// Every store keeps the contract, with every client.
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { Redis as Valkey } from 'iovalkey';
import { createClient } from 'redis';
import { memoryStore, type Clock, type Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { describeStore } from './conformance/store.js';
import { servers } from './support/shared-servers.js';
import { freshPrefix, map, memory } from './support/stores.js';
import { tableStore } from './support/table.js';

describeStore('memory', memory);
describeStore('a Map of bytes', map);
describeStore('a table with a compare-and-set', (clock) => tableStore(clock));

/** One that answers later, by wrapping another. */
function later(clock: Clock): Store {
  const store = memoryStore({ clock });
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    decide: (query) => turn().then(() => store.decide(query)),
    adjust: (change) => turn().then(() => store.adjust(change)),
    lease: (change) => turn().then(() => store.lease(change)),
    reset: (subject) => turn().then(() => store.reset(subject)),
    ban: (subject, duration) => turn().then(() => store.ban(subject, duration)),
  };
}
describeStore('a store that wraps another', later);

for (const [server, { port, url }] of Object.entries(servers)) {
  const clients = {
    ioredis: new Redis(port, { lazyConnect: true }),
    'ioredis 5': new Redis5(port, { lazyConnect: true }),
    iovalkey: new Valkey(port, { lazyConnect: true }),
    'node-redis': createClient({ url }),
  };
  describe(`on ${server}`, () => {
    before(() => Promise.all(Object.values(clients).map((client) => client.connect())));
    after(() => Promise.all(Object.values(clients).map((client) => client.quit())));

    for (const [name, client] of Object.entries(clients))
      describeStore(`${server} by ${name}`, (clock) => redisStore(client, { clock, prefix: freshPrefix() }));
  });
}
