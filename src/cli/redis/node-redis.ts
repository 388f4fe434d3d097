import type { RedisClient } from '../../stores/redis/clients/clients.js';
import { serverName } from './address.js';
import type { Connection, Node, Opener, Target } from './client.js';
import { within } from './within.js';

/** The parts of a client of the package `redis` that are used. */
interface Client {
  connect(): Promise<unknown>;
  /** Since version 5. */
  destroy?(): unknown;
  disconnect(): unknown;
  on(event: 'error', listener: () => void): unknown;
}

interface SingleClient extends Client {
  sendCommand(command: readonly string[]): Promise<unknown>;
}

interface ClusterClient extends Client {
  sendCommand(key: string, isReadonly: boolean, command: readonly string[]): Promise<unknown>;
  readonly masters: readonly unknown[];
  nodeClient(node: unknown): SingleClient | Promise<SingleClient>;
}

interface Module {
  createClient(options: object): SingleClient;
  createCluster(options: object): ClusterClient;
}

/** Connects only once: users repeat a failed command line themselves. */
export const nodeRedis: Opener = {
  async open(module, target) {
    const { host, port, username, password, database, tls } = target.address;
    const client = (module as Module).createClient({
      username,
      password,
      database,
      socket: { ...socketOptions(target), host, port, ...(tls && serverName(target.address)) },
    });
    await connected(client, target);
    const node = nodeOf(client);
    return connectionOf(
      client,
      (...command) => node.send(command),
      () => Promise.resolve([node]),
    );
  },

  async openCluster(module, target) {
    const { host, port, username, password } = target.address;
    const client = (module as Module).createCluster({
      rootNodes: [{ socket: { host, port } }],
      defaults: { username, password, socket: socketOptions(target) },
    });
    await connected(client, target);
    return connectionOf(
      client,
      (command, key, ...args) => client.sendCommand(key, false, [command, key, ...args]),
      () => Promise.all(client.masters.map(async (master) => nodeOf(await client.nodeClient(master)))),
    );
  },
};

function socketOptions({ address: { tls }, timeout }: Target): object {
  return { connectTimeout: timeout, reconnectStrategy: false, ...(tls && { tls }) };
}

async function connected(client: Client, target: Target): Promise<void> {
  // The call that fails because of the error reports it.
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
    // The client is already closed.
  }
}

function nodeOf(client: SingleClient): Node {
  return { send: (command) => client.sendCommand(command) };
}

function connectionOf(client: Client, call: Connection['call'], nodes: () => Promise<Node[]>): Connection {
  return {
    client: client as unknown as RedisClient,
    nodes,
    call,
    close: () => close(client),
  };
}
