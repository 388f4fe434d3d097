import type { RedisClient } from '../../stores/clients.js';
import type { Connection, Node, Target } from './connection.js';
import { within } from './within.js';

/** What is used of a client of the package `redis`. */
interface Client {
  connect(): Promise<unknown>;
  /** Since version 5. */
  destroy?(): unknown;
  disconnect(): unknown;
  pTTL(key: string): Promise<number>;
  del(key: string): Promise<unknown>;
  on(event: 'error', listener: () => void): unknown;
}

interface SingleClient extends Client {
  sendCommand(command: readonly string[]): Promise<unknown>;
}

interface ClusterClient extends Client {
  readonly masters: readonly unknown[];
  nodeClient(node: unknown): SingleClient | Promise<SingleClient>;
}

interface Module {
  createClient(options: object): SingleClient;
  createCluster(options: object): ClusterClient;
}

/** Connects once: a command line that fails is run again by whoever typed it. */
export async function openNodeRedis(module: unknown, target: Target): Promise<Connection> {
  const { createClient, createCluster } = module as Module;
  const { host, port, username, password, database, tls } = target.address;
  const socket = {
    connectTimeout: target.timeout,
    reconnectStrategy: false,
    ...(tls && { tls, servername: host }),
  };
  const login = { username, password };
  const first = { socket: { ...socket, host, port } };
  if (target.cluster) {
    const client = createCluster({ rootNodes: [first], defaults: { ...login, socket } });
    await connected(client, target);
    return connectionOf(client, () =>
      Promise.all(client.masters.map(async (master) => nodeOf(await client.nodeClient(master)))),
    );
  }
  const client = createClient({ ...login, ...first, database });
  await connected(client, target);
  return connectionOf(client, () => Promise.resolve([nodeOf(client)]));
}

async function connected(client: Client, target: Target): Promise<void> {
  // What is the matter, the call that it kept from working says.
  client.on('error', () => {});
  try {
    await within(target, client.connect());
  } catch (error) {
    close(client);
    throw error;
  }
}

function close(client: Client): void {
  try {
    if (client.destroy) client.destroy();
    else void client.disconnect();
  } catch {
    // It is closed.
  }
}

function nodeOf(client: SingleClient): Node {
  return { send: (command) => client.sendCommand(command) };
}

function connectionOf(client: Client, nodes: () => Promise<Node[]>): Connection {
  return {
    client: client as unknown as RedisClient,
    nodes,
    pttl: (key) => client.pTTL(key),
    del: (key) => client.del(key),
    close: () => close(client),
  };
}
