// The laws of policies by several dimensions, for any number of steps, on each engine. A part of `npm run soak`.
import { Redis } from 'ioredis';
import { memoryStore, type Store } from 'headgate';
import { redisStore, type RedisClient } from 'headgate/redis';
import { identityChecks, lawChecks, type Check, type Law, type StoreUnderTest } from 'headgate-testing';
import { mapStore } from '../../../examples/map-store.js';
import { startCluster } from '../../support/cluster.js';
import { startServer } from '../../support/servers.js';

/** The result of one engine. */
export interface Played {
  readonly engine: string;
  /** The operations on the store under each law: decisions, looks, returns, releases, resets and bans. */
  readonly steps: Readonly<Record<string, number>>;
  readonly seconds: number;
  /** The broken laws, with the seed to repeat them. */
  readonly broken: readonly string[];
}

const LAWS: Law[] = ['law 1, bound', 'law 2, retry', 'law 3, charge', 'law 7, race', 'law 12, change'];

/** The operations that count as a step. */
const OPERATIONS: readonly unknown[] = ['decide', 'adjust', 'lease', 'reset', 'ban'];

/** Cases of each check in a round. */
const RUNS = 50;

interface Engine extends Pick<StoreUnderTest, 'createStore' | 'createSibling' | 'dimensions'> {
  readonly name: string;
  /** Removes the state of the previous round. */
  readonly clear?: () => Promise<unknown>;
  readonly stop?: () => Promise<unknown>;
}

/** The engines by name. */
const ENGINES: Readonly<Record<string, () => Engine | Promise<Engine>>> = {
  memory: () => ({ name: 'memory', createStore: (clock) => memoryStore({ clock }) }),
  redis: () => server('redis'),
  valkey: () => server('valkey'),
  slotBy: () => cluster('cluster, slotBy', { slotBy: 'org' }),
  acrossSlots: () => cluster('cluster, acrossSlots', { acrossSlots: true }),
};

/** Plays at least so many steps on each engine, or on a single engine by name, one engine after the other. */
export async function playDimensions(
  steps: number,
  only: string | undefined,
  tell: (played: Played) => void,
): Promise<void> {
  for (const name of only === undefined ? Object.keys(ENGINES) : [only]) {
    const engine = await ENGINES[name]!();
    try {
      tell(await play(engine, steps));
    } finally {
      await engine.stop?.();
    }
  }
}

async function play(engine: Engine, wanted: number): Promise<Played> {
  const begun = performance.now();
  const steps: Record<string, number> = {};
  const broken: string[] = [];
  for (let seed = 1, sum = 0; sum < wanted && broken.length === 0; seed++) {
    const checks = [...identity, ...laws].flatMap((checksOf) => checksOf(engine, seed, steps));
    const outcomes = await Promise.allSettled(checks.map((check) => check.run()));
    for (const outcome of outcomes) if (outcome.status === 'rejected') broken.push(String(outcome.reason));
    await engine.clear?.();
    sum = Object.values(steps).reduce((a, b) => a + b, 0);
  }
  return { engine: engine.name, steps, seconds: Math.round((performance.now() - begun) / 1000), broken };
}

type ChecksOf = (engine: Engine, seed: number, steps: Record<string, number>) => Check[];

const ofDimensions = (checks: readonly Check[]): Check[] =>
  checks.filter(({ name }) => name.includes('dimension'));

const laws = LAWS.map(
  (law): ChecksOf =>
    (engine, seed, steps) =>
      ofDimensions(lawChecks({ ...counting(engine, law, steps), seed, runs: RUNS }, [law])),
);

/** Identity with memory; for memory itself, with a store that keeps bytes. */
const identity: readonly ChecksOf[] = [
  (engine, seed, steps) => {
    const createReference: StoreUnderTest['createStore'] = (clock) =>
      engine.name === 'memory' ? mapStore(clock) : memoryStore({ clock });
    const subject = counting(engine, 'law 4, identity', steps);
    return ofDimensions(identityChecks({ ...subject, seed, runs: RUNS, createReference }));
  },
];

/** The engine with stores that count the operations. */
function counting(engine: Engine, law: string, steps: Record<string, number>): StoreUnderTest {
  const counted = (store: Store): Store =>
    new Proxy(store, {
      get(target, property) {
        const value: unknown = Reflect.get(target, property, target);
        if (OPERATIONS.includes(property)) steps[law] = (steps[law] ?? 0) + 1;
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
  const { createSibling } = engine;
  const siblings = new WeakMap<Store, Store>();
  return {
    createStore: async (clock) => {
      const store = await engine.createStore(clock);
      const proxy = counted(store);
      siblings.set(proxy, store);
      return proxy;
    },
    ...(createSibling && {
      createSibling: async (store, clock) => counted(await createSibling(siblings.get(store)!, clock)),
    }),
    ...(engine.dimensions && { dimensions: engine.dimensions }),
  };
}

async function server(kind: 'redis' | 'valkey'): Promise<Engine> {
  const started = await startServer(kind);
  const client = new Redis(started.port);
  return {
    name: kind,
    ...onRedis(client),
    clear: () => client.flushall(),
    stop: async () => {
      client.disconnect();
      await started.stop();
    },
  };
}

async function cluster(name: string, dimensions: Engine['dimensions'] & object): Promise<Engine> {
  const started = await startCluster('redis');
  const client = await started.connect();
  return {
    name,
    ...onRedis(client),
    dimensions,
    clear: () => Promise.all(client.nodes('master').map((node) => node.flushall())),
    stop: async () => {
      client.disconnect();
      await started.stop();
    },
  };
}

function onRedis(client: RedisClient): Pick<Engine, 'createStore' | 'createSibling'> {
  const prefixes = new WeakMap<Store, string>();
  let made = 0;
  return {
    createStore: (clock) => {
      const prefix = `s${(made++).toString(36)}`;
      const store = redisStore(client, { clock, prefix });
      prefixes.set(store, prefix);
      return store;
    },
    createSibling: (store, clock) => redisStore(client, { clock, prefix: prefixes.get(store)! }),
  };
}
