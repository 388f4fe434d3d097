import type { RedisClient } from '../../stores/clients.js';
import { failure } from '../errors.js';
import type { Address } from './address.js';
import type { Connection, Node, Target } from './connection.js';
import { within } from './within.js';

/** What is used of an ioredis or iovalkey client. */
interface Client {
  connect(): Promise<unknown>;
  disconnect(): void;
  call(command: string, ...args: string[]): Promise<unknown>;
  pttl(key: string): Promise<number>;
  del(key: string): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

interface ClusterClient extends Client {
  nodes(role: 'master'): Client[];
}

interface Module {
  readonly Redis?: new (options: object) => Client;
  readonly Cluster?: new (nodes: object[], options: object) => ClusterClient;
}

/** Connects once: a command line that fails is run again by whoever typed it. */
export async function openIoredis(module: unknown, target: Target): Promise<Connection> {
  const { Redis, Cluster } = module as Module;
  if (!Redis || !Cluster) throw failure('The installed ioredis is too old. Install version 5 or later.');
  if (target.cluster) {
    const client = await connected(new Cluster([endpoint(target.address)], clusterOptions(target)), target);
    return connectionOf(client, () => client.nodes('master').map(nodeOf));
  }
  const client = await connected(new Redis(options(target)), target);
  return connectionOf(client, () => [nodeOf(client)]);
}

function endpoint({ host, port }: Address): { host: string; port: number } {
  return { host, port };
}

/** Of each connection, be it alone or in a cluster. */
function common({ address, timeout }: Target): object {
  const { host, username, password, tls } = address;
  return {
    username,
    password,
    connectTimeout: timeout,
    ...(tls && { tls: { servername: host } }),
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  };
}

function options(target: Target): object {
  const { address, sentinel } = target;
  return {
    ...common(target),
    db: address.database,
    lazyConnect: true,
    retryStrategy: () => null,
    ...(sentinel === undefined
      ? endpoint(address)
      : { sentinels: [endpoint(address)], name: sentinel, sentinelRetryStrategy: () => null }),
  };
}

function clusterOptions(target: Target): object {
  return {
    lazyConnect: true,
    clusterRetryStrategy: () => null,
    slotsRefreshTimeout: target.timeout,
    redisOptions: common(target),
    // Certificates are for names: those that the cluster tells must reach the TLS handshake.
    ...(target.address.tls && {
      dnsLookup: (name: string, done: (error: null, address: string) => void) => done(null, name),
    }),
  };
}

/** @throws the error that kept it from connecting, not the one that says that it is not connected */
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
    pttl: (key) => client.pttl(key),
    del: (key) => client.del(key),
    close: () => client.disconnect(),
  };
}
