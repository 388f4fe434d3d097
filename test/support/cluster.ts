import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cluster, Redis } from 'ioredis';
import { startServer, type ServerKind, type TestServer } from './servers.js';

export interface TestCluster {
  readonly servers: readonly TestServer[];
  /** Kills a server. `start` starts it again, empty, in its old place in the cluster. */
  kill(i: number): Promise<void>;
  /** Resolves when the servers agree again that the cluster is up. */
  start(i: number): Promise<void>;
  /** A new client, ready for use. The caller must disconnect the client. */
  connect(): Promise<Cluster>;
  stop(): Promise<void>;
}

const SLOTS = 16384;

/** Starts a cluster of primaries with an even share of the slots each. Resolves when all servers agree that the cluster is up. */
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
  // A restarted node reads its place in the cluster from its directory.
  const dirs = Array.from({ length: count }, () => mkdtempSync(join(tmpdir(), 'headgate-cluster-')));
  const servers = await Promise.all(dirs.map((dir) => startServer(kind, { args, dir })));
  const nodes = servers.map(({ port }) => new Redis(port));
  await Promise.all(
    nodes.map((node, i) => {
      const [from, to] = [i, i + 1].map((n) => Math.floor((n * SLOTS) / count)) as [number, number];
      return node.call('CLUSTER', 'ADDSLOTSRANGE', from, to - 1);
    }),
  );
  for (const { port } of servers.slice(1)) await nodes[0]!.cluster('MEET', '127.0.0.1', port);
  for (const node of nodes) node.disconnect();
  const isUp = async (node: Redis): Promise<boolean> => {
    const info = String(await node.cluster('INFO'));
    return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${count}`);
  };
  const allUp = async (): Promise<void> => {
    for (const { port } of servers) {
      const node = new Redis(port);
      while (!(await isUp(node))) await new Promise((resolve) => setTimeout(resolve, 20));
      node.disconnect();
    }
  };
  await allUp();
  return {
    servers,
    kill: (i) => servers[i]!.kill('SIGKILL'),
    async start(i) {
      servers[i] = await startServer(kind, { args, dir: dirs[i]!, port: servers[i]!.port });
      await allUp();
    },
    async connect() {
      const client = new Cluster(servers.map(({ port }) => ({ host: '127.0.0.1', port })));
      await once(client, 'ready');
      return client;
    },
    async stop() {
      await Promise.all(servers.map((server) => server.stop()));
      for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
    },
  };
}
