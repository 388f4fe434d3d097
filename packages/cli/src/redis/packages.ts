import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { RedisClient } from 'headgate/redis';
import { failure } from '../errors.js';
import { serverName, within, type Target } from './address.js';

/** A client of one of the packages, with the commands' additions to the store's requirements. */
export interface Connection {
  readonly client: RedisClient;
  call(command: string, ...args: string[]): Promise<unknown>;
  close(): void;
}

type Open = (target: Target, cluster: boolean) => Promise<Connection>;

/**
 * Loads a client package from the current directory, or from beside this package (`npx -p headgate-cli -p ioredis headgate`).
 *
 * @throws CliError `FAILED` if there is none
 */
export function loadOpener(cwd: string, sentinel: boolean): Open {
  // The packages that `redisStore` accepts, in the order in which they are tried.
  const names = ['ioredis', 'iovalkey', ...(sentinel ? [] : ['redis'])];
  for (const from of [join(cwd, 'package.json'), import.meta.url]) {
    const require = createRequire(from);
    for (const name of names) {
      let path: string;
      try {
        path = require.resolve(name);
      } catch {
        continue;
      }
      return (name === 'redis' ? ofNodeRedis : ofIoredis)(require(path) as never);
    }
  }
  throw failure(
    `None of the packages ${names.join(', ')} is installed here, and Redis requires one. Run the command where your service is ` +
      `installed, or: npx -p headgate-cli -p ioredis headgate ...`,
  );
}

interface Ioredis {
  readonly Redis?: new (options: object) => IoredisClient;
  readonly Cluster?: new (nodes: object[], options: object) => IoredisClient;
}

interface IoredisClient {
  connect(): Promise<unknown>;
  disconnect(): void;
  call(command: string, ...args: string[]): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

const ofIoredis = ({ Redis, Cluster }: Ioredis): Open => {
  if (!Redis || !Cluster) throw failure('The installed ioredis is too old. Install version 5 or later.');
  return async (target, cluster) => {
    const { host, port } = target.address;
    const options = ioredisOptions(target, cluster);
    const client = cluster ? new Cluster([{ host, port }], options) : new Redis(options);
    let reason: (Error & { lastNodeError?: Error }) | undefined;
    client.on('error', (error) => (reason = error));
    try {
      await within(target, client.connect()).catch((error: unknown) => {
        // The error that prevented the connection, in preference to the error that there is no connection.
        throw reason?.lastNodeError ?? reason ?? error;
      });
      if (!cluster) await within(target, logIn(client, target));
    } catch (error) {
      client.disconnect();
      throw error;
    }
    return {
      client: client as unknown as RedisClient,
      call: (command, ...args) => client.call(command, ...args),
      close: () => client.disconnect(),
    };
  };
};

/** The pause before a lost connection is opened again, ms. */
const RECONNECT_MS = 1000;

function ioredisOptions({ address, sentinel, timeout, reconnects }: Target, cluster: boolean): object {
  const { host, port, username, password, database, tls } = address;
  const retry = (): number | null => (reconnects ? RECONNECT_MS : null);
  /** Options of each connection, to a single server or within a cluster. */
  const each = {
    connectTimeout: timeout,
    ...(tls && { tls: {} }),
    // With protocol 3, ioredis 6 would log in by itself.
    protocol: 2,
    enableReadyCheck: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  };
  if (cluster) {
    return {
      lazyConnect: true,
      clusterRetryStrategy: retry,
      slotsRefreshTimeout: timeout,
      redisOptions: { ...each, username, password },
      // Certificates are for names, so the TLS handshake needs the names that the cluster reports.
      ...(tls && {
        dnsLookup: (name: string, done: (error: null, address: string) => void) => done(null, name),
      }),
    };
  }
  return {
    ...each,
    ...(tls && { tls: serverName(address) }),
    lazyConnect: true,
    retryStrategy: retry,
    // Later connections log in without `logIn`.
    ...(reconnects && { username, password, db: database }),
    ...(sentinel === undefined
      ? { host, port }
      : { sentinels: [{ host, port }], name: sentinel, sentinelRetryStrategy: retry }),
  };
}

/** Logs in explicitly: if the server refuses, ioredis itself would continue, in database 0. */
async function logIn(client: IoredisClient, { address }: Target): Promise<void> {
  const { username, password, database } = address;
  if (username !== undefined || password !== undefined) {
    await client.call('AUTH', username ?? 'default', password ?? '');
  }
  if (database !== 0) await client.call('SELECT', String(database));
}

interface NodeRedis {
  createClient(options: object): NodeRedisClient;
  createCluster(options: object): NodeRedisClient;
}

interface NodeRedisClient {
  connect(): Promise<unknown>;
  /** Since version 5. */
  destroy?(): unknown;
  on(event: 'error', listener: () => void): unknown;
  sendCommand(words: readonly string[]): Promise<unknown>;
}

const ofNodeRedis =
  ({ createClient, createCluster }: NodeRedis): Open =>
  async (target, cluster) => {
    const { host, port, username, password, database, tls } = target.address;
    let isConnected = false;
    const reconnectStrategy = (): number | false => (target.reconnects && isConnected ? RECONNECT_MS : false);
    const socket = { connectTimeout: target.timeout, reconnectStrategy, ...(tls && { tls }) };
    const own = { ...socket, host, port, ...(tls && serverName(target.address)) };
    const client = cluster
      ? createCluster({ rootNodes: [{ socket: { host, port } }], defaults: { username, password, socket } })
      : createClient({ username, password, database, socket: own });
    const close = (): void => {
      try {
        client.destroy?.();
      } catch {
        // The client is already closed.
      }
    };
    // The call that fails because of the error reports it.
    client.on('error', () => {});
    try {
      await within(target, client.connect());
      isConnected = true;
    } catch (error) {
      close();
      throw error;
    }
    return {
      client: client as unknown as RedisClient,
      call: (...words) => client.sendCommand(words),
      close,
    };
  };
