import { createRequire } from 'node:module';

interface Count {
  readonly current: number;
  readonly ttl: number;
}

type Store = new (
  continueExceeding: boolean,
  exponentialBackoff: boolean,
  of: unknown,
) => {
  incr(key: string, done: (error: Error | null, result: Count) => void, window: number, limit: number): void;
};

/** The store of @fastify/rate-limit, which does not export it: on Redis, or in memory for so many keys. */
export function fastifyCounter(
  name: 'LocalStore' | 'RedisStore',
  of: unknown,
  window: number,
  limit: number,
) {
  const Store = createRequire(import.meta.url)(`@fastify/rate-limit/store/${name}.js`) as Store;
  const store = new Store(false, false, of);
  return (key: string): Promise<Count> =>
    new Promise((resolve, reject) => {
      store.incr(key, (error, result) => (error ? reject(error) : resolve(result)), window, limit);
    });
}
