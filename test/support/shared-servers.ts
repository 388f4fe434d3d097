// The servers of the whole run. An import of this file starts the servers. Each top-level suite finds empty servers.
//   HEADGATE_SERVERS=redis           the kinds of servers, separated by commas, or `none`. Default: both
//   REDIS_URL, VALKEY_URL            running servers to use instead
import { Redis } from 'ioredis';
import { serverUrls, share } from './hooks.js';
import { startServer, type ServerKind, type TestServer } from './servers.js';

/** The part of a server that tests may use. No test may stop or stall a shared server. */
type SharedServer = Pick<TestServer, 'port' | 'url'>;

const chosen = process.env['HEADGATE_SERVERS']?.split(',');
export const serverKinds = (['redis', 'valkey'] as const).filter((kind) => chosen?.includes(kind) ?? true);

const ready = new Map(
  await Promise.all(serverKinds.map(async (kind) => [kind, await sharedServer(kind)] as const)),
);

export const servers = perServer((kind) => ready.get(kind)!);

/** One value for each server. Without servers the record is empty, and reading an entry throws an error with the fix. */
export function perServer<T>(make: (kind: ServerKind) => T): Readonly<Record<ServerKind, T>> {
  const made = Object.fromEntries(serverKinds.map((kind) => [kind, make(kind)])) as Record<ServerKind, T>;
  return new Proxy(made, {
    get(target, name) {
      if (!(name in target) && (name === 'redis' || name === 'valkey'))
        throw new Error(
          `This test needs a ${name} server, and HEADGATE_SERVERS=${chosen?.join() ?? ''} has none. Loop over serverKinds instead, or move a test ` +
            'of Valkey to test/slow.',
        );
      return target[name as ServerKind];
    },
  });
}

async function sharedServer(kind: ServerKind): Promise<SharedServer> {
  const url = serverUrls[kind];
  if (url !== undefined) return running(kind, url);
  const server = await startServer(kind);
  share(new Redis(server.port), server);
  return server;
}

/** A running server from a URL. The tests know the server by its port, and empty it repeatedly. */
async function running(kind: ServerKind, url: string): Promise<SharedServer> {
  const setting = `${kind.toUpperCase()}_URL=${url}`;
  const { protocol, hostname, port, username, password, pathname } = new URL(url);
  const isLocal = hostname === 'localhost' || hostname === '127.0.0.1';
  if (protocol !== 'redis:' || !isLocal || username || password || !/^\/?0?$/.test(pathname))
    throw new Error(
      `${setting}: write redis://127.0.0.1:6379. The server must be on this machine, without password or database.`,
    );
  const client = new Redis(Number(port || 6379), '127.0.0.1', { lazyConnect: true });
  await client.connect().catch((error: Error) => {
    throw new Error(`${setting}: no server answers (${error.message}).`);
  });
  if ((await client.info('keyspace')).includes('keys='))
    throw new Error(`${setting}: this server holds keys, which the tests would remove. Name an empty one.`);
  share(client);
  return { port: Number(port || 6379), url };
}
