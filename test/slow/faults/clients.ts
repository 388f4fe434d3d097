import { Cluster, Redis } from 'ioredis';
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5';
import { Cluster as ValkeyCluster, Redis as Valkey } from 'iovalkey';
import { createClient, createCluster } from 'redis';
import type { RedisClient } from '../../../src/stores/redis/clients/clients.js';

export interface TestClient {
  readonly client: RedisClient;
  /** Commands that wait in the client. */
  queued(): number;
  end(): void;
}

/** The options for ioredis that docs/redis.md recommends: reconnect soon after any outage, and close a dead connection. */
export const recommended = {
  socketTimeout: 5000,
  retryStrategy: (attempt: number) => Math.min(attempt * 50, 500),
  maxLoadingRetryTime: 200,
};

interface Queues {
  commandQueue: { length: number };
  offlineQueue: { length: number };
}

function ioredis(client: Redis | Redis5 | Valkey): TestClient {
  client.on('error', () => {});
  return {
    client: client,
    queued() {
      const queues = client as unknown as Queues;
      return queues.commandQueue.length + queues.offlineQueue.length;
    },
    end: () => client.disconnect(),
  };
}

export const clientKinds = {
  'ioredis 6': (port: number) => ioredis(new Redis(port, recommended)),
  'ioredis 5': (port: number) => ioredis(new Redis5(port, recommended)),
  iovalkey: (port: number) => ioredis(new Valkey(port, recommended)),
  'node-redis'(port: number): TestClient {
    const { socketTimeout, retryStrategy: reconnectStrategy } = recommended;
    const client = createClient({ socket: { port, socketTimeout, reconnectStrategy }, pingInterval: 1000 });
    client.on('error', () => {});
    client.connect().catch(() => {});
    return { client: client, queued: () => 0, end: () => client.destroy() };
  },
};

/** The proxies for a cluster's announced addresses. */
type Addresses = Readonly<Record<string, { host: string; port: number }>>;

const clusterOptions = { clusterRetryStrategy: () => 100, slotsRefreshTimeout: 500 };

const nodes = (ports: readonly number[]) => ports.map((port) => ({ host: '127.0.0.1', port }));

function ioredisCluster(client: Cluster | Cluster5 | ValkeyCluster): TestClient {
  client.on('error', () => {});
  return { client, queued: () => 0, end: () => client.disconnect() };
}

type ConnectCluster = (ports: readonly number[], natMap?: Addresses) => TestClient;

export const clusterKinds: Readonly<Record<keyof typeof clientKinds, ConnectCluster>> = {
  'ioredis 6': (ports, natMap) => ioredisCluster(new Cluster(nodes(ports), withMap(natMap))),
  'ioredis 5': (ports, natMap) => ioredisCluster(new Cluster5(nodes(ports), withMap(natMap))),
  iovalkey: (ports, natMap) => ioredisCluster(new ValkeyCluster(nodes(ports), withMap(natMap))),
  'node-redis'(ports, nodeAddressMap) {
    const client = createCluster({
      rootNodes: ports.map((port) => ({ url: `redis://127.0.0.1:${port}` })),
      defaults: { socket: { reconnectStrategy: () => 100 } },
      topologyRefreshOnReconnectionAttemptStrategy: 300,
      ...(nodeAddressMap && { nodeAddressMap }),
    });
    client.on('error', () => {});
    client.connect().catch(() => {});
    return { client: client, queued: () => 0, end: () => client.destroy() };
  },
};

function withMap(natMap: Addresses | undefined) {
  return natMap ? { ...clusterOptions, natMap } : clusterOptions;
}
