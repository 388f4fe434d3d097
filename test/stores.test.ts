// Every store keeps the contract, with every client.
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { Redis as Valkey } from 'iovalkey';
import { createClient } from 'redis';
import { memoryStore, type Clock, type Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { contractChecks } from 'headgate-testing';
import { describeChecks } from './support/kit.js';
import { servers } from './support/shared-servers.js';
import { freshPrefix, map, memory } from './support/stores.js';
import { tableStore } from './support/table.js';

describeChecks('memory', contractChecks({ createStore: memory }));
describeChecks('a Map of bytes', contractChecks({ createStore: map }));
describeChecks(
  'a table with a compare-and-set',
  contractChecks({ createStore: (clock) => tableStore(clock) }),
);

/** Wraps a store to answer later. */
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
describeChecks('a store that wraps another', contractChecks({ createStore: later }));

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
      describeChecks(
        `${server} by ${name}`,
        contractChecks({ createStore: (clock) => redisStore(client, { clock, prefix: freshPrefix() }) }),
      );
  });
}
