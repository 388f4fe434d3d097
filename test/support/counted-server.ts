// A Redis server for counting the calls of one suite. On the shared servers, stores of earlier tests publish their limiters now and then.
import { Redis } from 'ioredis';
import { redisStore, type CheckableStore, type RedisStoreOptions } from 'headgate/redis';
import { startServer, type TestServer } from './servers.js';
import { freshPrefix } from './stores.js';

/** Starts a server for the calling suite, and stops the server after the suite. */
export function countedServer(Client: typeof Redis = Redis): CountedServer {
  const counted = new CountedServer();
  before(() => counted.start(Client));
  after(() => counted.stop());
  return counted;
}

export class CountedServer {
  client!: Redis;
  #server!: TestServer;

  async start(Client: typeof Redis): Promise<void> {
    this.#server = await startServer('redis');
    this.client = new Client(this.#server.port);
  }

  async stop(): Promise<void> {
    this.client.disconnect();
    await this.#server.stop();
  }

  /** A store that calls the server only for decisions. */
  store(options: RedisStoreOptions = {}): CheckableStore {
    return redisStore(this.client, { prefix: freshPrefix(), publish: false, ...options });
  }

  /** Counts the script calls during `work`, by command. */
  async countsOf(work: () => Promise<unknown>): Promise<Record<string, number>> {
    await this.client.config('RESETSTAT');
    await work();
    const stats = await this.client.info('commandstats');
    const found = stats.matchAll(/^cmdstat_(eval|evalsha):calls=(\d+)/gm);
    return Object.fromEntries([...found].map(([, command, count]) => [command!, Number(count)]));
  }

  async callsOf(work: () => Promise<unknown>): Promise<number> {
    return (await this.countsOf(work))['evalsha'] ?? 0;
  }
}
