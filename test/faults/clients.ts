import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { Redis as Valkey } from 'iovalkey';
import { createClient } from 'redis';
import type { RedisClient } from '../../src/stores/clients.js';

interface TestClient {
  readonly client: RedisClient;
  /** Commands that wait in the client. */
  queued(): number;
  end(): void;
}

/** What docs/failure.md recommends for ioredis: reconnect soon, however long the outage was, and give a dead connection up. */
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
