// The checks of headgate-testing in Mocha, on memory, Redis and Valkey.
import type { Redis } from 'ioredis';
import type { Clock, Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { lawChecks, type Check, type Law, type StoreUnderTest } from 'headgate-testing';
import { runs } from './random.js';
import { perServer, serverKinds } from './shared-servers.js';
import { clients, freshPrefix, map, memory } from './stores.js';

/** Describes checks, suite by suite. */
export function describeChecks(title: string, checks: readonly Check[]): void {
  for (const suite of new Set(checks.map((check) => check.suite))) {
    describe(`${suite}, ${title}`, () => {
      for (const { name, run } of checks.filter((check) => check.suite === suite))
        it(name, () => {
          allowRuns();
          return run();
        });
    });
  }
}

/** The number of runs of random checks, in memory and on a server. */
export const runsOf = (store: string, inMemory = 100, onServer = 8): number =>
  runs(store, inMemory, onServer).numRuns;

const allowRuns = () => void runs('', 0, 0);

/** A store whose state is in a Redis or Valkey under a prefix, in the form that the checks expect. */
export function storeUnderPrefix(
  client: Redis,
  open: (clock: Clock, prefix: string) => Store,
  numRuns: number,
): StoreUnderTest {
  const prefixes = new WeakMap<Store, string>();
  const create = (clock: Clock, prefix: string) => {
    const store = open(clock, prefix);
    prefixes.set(store, prefix);
    return store;
  };
  return {
    createStore: (clock) => create(clock, freshPrefix()),
    createSibling: (store, clock) => create(clock, prefixes.get(store)!),
    entries: async (store) => {
      const names = await client.keys(`${prefixes.get(store)}:*`);
      const ends = await Promise.all(names.map((name) => client.pexpiretime(name)));
      return names.map((name, i) => ({ name, expiresAt: ends[i]! < 0 ? undefined : ends[i] }));
    },
    ordered: true,
    runs: numRuns,
  };
}

const onServers = perServer((kind): StoreUnderTest =>
  storeUnderPrefix(
    clients[kind],
    (clock, prefix) => redisStore(clients[kind], { clock, prefix }),
    runsOf(kind),
  ),
);

/** The stores in the form that headgate-testing expects. */
export const subjects: Readonly<Record<string, StoreUnderTest>> = {
  memory: { createStore: memory, ordered: true, runs: runsOf('memory') },
  map: { createStore: map, ordered: true, runs: runsOf('map') },
  ...Object.fromEntries(serverKinds.map((kind) => [kind, onServers[kind]])),
};

/** Describes one law on every store. */
export function describeLaw(law: Law): void {
  for (const [name, subject] of Object.entries(subjects))
    describeChecks(`on ${name}`, lawChecks(subject, [law]));
}
