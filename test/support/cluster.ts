import { once } from 'node:events';
import { Cluster, Redis } from 'ioredis';
import { startServer, type ServerKind, type TestServer } from './servers.js';

export interface TestCluster {
  readonly servers: readonly TestServer[];
  /** A client of its own, ready. Whoever connects disconnects. */
  connect(): Promise<Cluster>;
  stop(): Promise<void>;
}

const SLOTS = 16384;

/** Starts a cluster of primaries that share the slots evenly, and resolves when all agree that it is up. */
export async function startCluster(
  kind: ServerKind,
  count = 3,
  more: readonly string[] = [],
): Promise<TestCluster> {
  const args = [
    '--cluster-enabled',
    'yes',
    '--cluster-config-file',
    'nodes.conf',
    '--cluster-node-timeout',
    '2000',
    ...more,
  ];
  const servers = await Promise.all(Array.from({ length: count }, () => startServer(kind, { args })));
  const nodes = servers.map(({ port }) => new Redis(port));
  await Promise.all(
    nodes.map((node, i) => {
      const [from, to] = [i, i + 1].map((n) => Math.floor((n * SLOTS) / count)) as [number, number];
      return node.call('CLUSTER', 'ADDSLOTSRANGE', from, to - 1);
    }),
  );
  for (const { port } of servers.slice(1)) await nodes[0]!.cluster('MEET', '127.0.0.1', port);
  const up = async (node: Redis): Promise<boolean> => {
    const info = String(await node.cluster('INFO'));
    return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${count}`);
  };
  for (const node of nodes) while (!(await up(node))) await new Promise((resolve) => setTimeout(resolve, 20));
  for (const node of nodes) node.disconnect();
  return {
    servers,
    async connect() {
      const client = new Cluster(servers.map(({ port }) => ({ host: '127.0.0.1', port })));
      await once(client, 'ready');
      return client;
    },
    async stop() {
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}
