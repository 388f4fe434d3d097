import type { RedisClient } from '../../stores/redis/clients/clients.js';
import { failure } from '../errors.js';
import { serverName, type Address } from './address.js';
import type { Connection, Node, Opener, Target } from './client.js';
import { within } from './within.js';

/** The parts of an ioredis or iovalkey client that are used. */
interface Client {
  connect(): Promise<unknown>;
  disconnect(): void;
  call(command: string, ...args: string[]): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

interface ClusterClient extends Client {
  nodes(role: 'master'): Client[];
}

interface Module {
  readonly Redis?: new (options: object) => Client;
  readonly Cluster?: new (nodes: object[], options: object) => ClusterClient;
}

/** Connects only once: users repeat a failed command line themselves. */
export const ioredis: Opener = {
  async open(module, target) {
    const { Redis } = load(module);
    const client = await connected(new Redis(serverOptions(target)), target);
    try {
      await within(target, logIn(client, target.address));
      return connectionOf(client, () => [nodeOf(client)]);
    } catch (error) {
      client.disconnect();
      throw error;
    }
  },

  async openCluster(module, target) {
    const { Cluster } = load(module);
    const { host, port } = target.address;
    const client = await connected(new Cluster([{ host, port }], clusterOptions(target)), target);
    return connectionOf(client, () => client.nodes('master').map(nodeOf));
  },
};

function load(module: unknown): Required<Module> {
  const { Redis, Cluster } = module as Module;
  if (!Redis || !Cluster) throw failure('The installed ioredis is too old. Install version 5 or later.');
  return { Redis, Cluster };
}

/** Options of each connection, to a single server or within a cluster. */
function common({ address, timeout }: Target): object {
  return {
    connectTimeout: timeout,
    ...(address.tls && { tls: {} }),
    // With protocol 3, ioredis 6 would log in by itself.
    protocol: 2,
    enableReadyCheck: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  };
}

function serverOptions(target: Target): object {
  const { address, sentinel } = target;
  const { host, port } = address;
  return {
    ...common(target),
    ...(address.tls && { tls: serverName(address) }),
    lazyConnect: true,
    retryStrategy: () => null,
    ...(sentinel === undefined
      ? { host, port }
      : { sentinels: [{ host, port }], name: sentinel, sentinelRetryStrategy: () => null }),
  };
}

function clusterOptions(target: Target): object {
  const { username, password, tls } = target.address;
  return {
    lazyConnect: true,
    clusterRetryStrategy: () => null,
    slotsRefreshTimeout: target.timeout,
    redisOptions: { ...common(target), username, password },
    // Certificates are for names, so the TLS handshake needs the names that the cluster reports.
    ...(tls && {
      dnsLookup: (name: string, done: (error: null, address: string) => void) => done(null, name),
    }),
  };
}

/** Logs in explicitly: if the server refuses, ioredis itself would continue, in database 0. */
async function logIn(client: Client, { username, password, database }: Address): Promise<void> {
  if (username !== undefined || password !== undefined) {
    await client.call('AUTH', username ?? 'default', password ?? '');
  }
  if (database !== 0) await client.call('SELECT', String(database));
}

/** @throws the error that prevented the connection, not the one that says that there is none */
async function connected<T extends Client>(client: T, target: Target): Promise<T> {
  let reason: (Error & { lastNodeError?: Error }) | undefined;
  client.on('error', (error) => (reason = error));
  try {
    await within(target, client.connect());
    return client;
  } catch (error) {
    client.disconnect();
    throw reason?.lastNodeError ?? reason ?? error;
  }
}

function nodeOf(client: Client): Node {
  return { send: ([command = '', ...args]) => client.call(command, ...args) };
}

function connectionOf(client: Client, nodes: () => Node[]): Connection {
  return {
    client: client as unknown as RedisClient,
    nodes: () => Promise.resolve(nodes()),
    call: (command, key, ...args) => client.call(command, key, ...args),
    close: () => client.disconnect(),
  };
}
