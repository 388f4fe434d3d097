// A primary with a replica and three sentinels; a cluster of three primaries with a replica each.
import { execFileSync } from 'node:child_process';
import { Redis } from 'ioredis';
import { findProgram } from '../../../scripts/programs.mjs';
import { freePort, startServer, type ServerKind, type TestServer } from '../../support/servers.js';
import { sleep, until } from './load.js';

const quick = { enableReadyCheck: false, retryStrategy: () => 50 };

function adminOf(port: number): Redis {
  return new Redis(port, quick).on('error', () => {});
}

async function infoOf(admin: Redis, section: string): Promise<string> {
  return (await admin.info(section)).replaceAll('\r', '');
}

/** The time limit for a failover, ms. After a split vote, which a busy machine may cause, Sentinels and nodes wait for seconds before the next vote. */
const ELECTION_MS = 60_000;

export class Sentinels {
  readonly primary: TestServer;
  readonly replica: TestServer;
  readonly sentinels: readonly TestServer[];

  private constructor(primary: TestServer, replica: TestServer, sentinels: readonly TestServer[]) {
    this.primary = primary;
    this.replica = replica;
    this.sentinels = sentinels;
  }

  static async start(): Promise<Sentinels> {
    const primary = await startServer('redis');
    const replica = await startServer('redis', { args: ['--replicaof', '127.0.0.1', String(primary.port)] });
    const config = [
      `sentinel monitor headgate 127.0.0.1 ${primary.port} 2`,
      'sentinel down-after-milliseconds headgate 500',
      'sentinel failover-timeout headgate 3000',
    ].join('\n');
    const sentinels = await Promise.all(
      [1, 2, 3].map(() => startServer('redis', { config, args: ['--sentinel'] })),
    );
    const set = new Sentinels(primary, replica, sentinels);
    const admin = adminOf(replica.port);
    await until(async () => (await infoOf(admin, 'replication')).includes('master_link_status:up'));
    admin.disconnect();
    await set.#eachKnowsTheOthers();
    return set;
  }

  /** Resolves when the replica is the primary and accepts writes, and every sentinel sends clients there. */
  async failedOver(): Promise<void> {
    const admin = adminOf(this.replica.port);
    await until(async () => (await infoOf(admin, 'replication')).includes('role:master'), ELECTION_MS);
    admin.disconnect();
    for (const { port } of this.sentinels) {
      const sentinel = adminOf(port);
      const primary = () => sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'headgate');
      await until(async () => String(await primary()).endsWith(`,${this.replica.port}`), ELECTION_MS);
      sentinel.disconnect();
    }
  }

  async stop(): Promise<void> {
    for (const server of [...this.sentinels, this.replica, this.primary]) await server.stop();
  }

  async #eachKnowsTheOthers(): Promise<void> {
    for (const { port } of this.sentinels) {
      const admin = adminOf(port);
      await until(async () => /slaves=1,sentinels=3/.test(await infoOf(admin, 'sentinel')));
      admin.disconnect();
    }
  }
}

const PRIMARIES = 3;

/** A slot that is being moved. */
export interface OpenSlot {
  /** Moves the current keys of the slot, with a pause of `pause` ms before each. */
  moveKeys(pause?: number): Promise<void>;
  /** Moves the remaining keys, and announces the slot's new server to all nodes. */
  close(): Promise<void>;
}

/** The major version of a server's program: 8 for Valkey 8.0.1. */
export function majorOf(kind: ServerKind): number {
  const version = execFileSync(findProgram(kind), ['--version'], { encoding: 'utf8' });
  return Number(/ v=(\d+)/.exec(version)![1]);
}

export class TestCluster {
  readonly servers: readonly TestServer[];
  readonly admins: readonly Redis[];

  private constructor(servers: readonly TestServer[], admins: readonly Redis[]) {
    this.servers = servers;
    this.admins = admins;
  }

  static async start(kind: ServerKind): Promise<TestCluster> {
    const buses: number[] = [];
    const servers = await Promise.all(
      Array.from({ length: 2 * PRIMARIES }, async (_, i) => {
        const bus = (buses[i] = await freePort());
        return startServer(kind, {
          args: ['--cluster-enabled', 'yes', '--cluster-node-timeout', '1000', '--cluster-port', String(bus)],
        });
      }),
    );
    const admins = servers.map(({ port }) => adminOf(port));
    const cluster = new TestCluster(servers, admins);
    const share = Math.ceil(16_384 / PRIMARIES);
    for (const [i, admin] of admins.entries()) {
      const { port } = servers[0]!;
      if (i > 0) await admin.cluster('MEET', '127.0.0.1', port, String(buses[0]!) as never);
      if (i < PRIMARIES)
        await admin.cluster('ADDSLOTSRANGE', i * share, Math.min((i + 1) * share, 16_384) - 1);
    }
    await cluster.#all((info) => info.includes(`cluster_known_nodes:${2 * PRIMARIES}`));
    for (const [i, admin] of admins.slice(PRIMARIES).entries()) {
      const id = String(await admins[i]!.cluster('MYID'));
      // The gossip may still be on its way.
      await until(() =>
        admin.cluster('REPLICATE', id).then(
          () => true,
          () => false,
        ),
      );
    }
    await cluster.settled();
    for (const admin of admins.slice(PRIMARIES))
      await until(async () => (await infoOf(admin, 'replication')).includes('master_link_status:up'));
    return cluster;
  }

  get ports(): number[] {
    return this.servers.map(({ port }) => port);
  }

  /** Resolves when all running nodes agree on a served owner for every slot. */
  settled(): Promise<void> {
    return this.#all((info) => info.includes('cluster_state:ok'));
  }

  /** Moves a slot from its primary to the next primary, key by key, with `pause` ms between keys. */
  async moveSlot(slot: number, pause: number): Promise<void> {
    const open = await this.openSlot(slot);
    await open.moveKeys(pause);
    await open.close();
  }

  /** Begins to move a slot to the next primary. Until the slot is closed, a key is on either server. */
  async openSlot(slot: number): Promise<OpenSlot> {
    const { ids, from, to } = await this.#ownersOf(slot);
    await this.admins[to]!.cluster('SETSLOT', slot, 'IMPORTING', ids[from]!);
    await this.admins[from]!.cluster('SETSLOT', slot, 'MIGRATING', ids[to]!);
    const moveKeys = async (pause = 0): Promise<void> => {
      for (;;) {
        const keys = await this.admins[from]!.cluster('GETKEYSINSLOT', slot, 1);
        if (keys.length === 0) break;
        await sleep(pause);
        await this.admins[from]!.call('MIGRATE', '127.0.0.1', this.ports[to]!, keys[0]!, '0', '1000');
      }
    };
    const close = async (): Promise<void> => {
      await moveKeys();
      for (const i of [to, from, ...ids.keys()])
        await this.admins[i]!.cluster('SETSLOT', slot, 'NODE', ids[to]!).catch(() => {});
    };
    return { moveKeys, close };
  }

  /** Moves a slot to the next primary in one step, as Valkey can from 9.0 on. */
  async moveSlotAtOnce(slot: number): Promise<void> {
    const { ids, from, to } = await this.#ownersOf(slot);
    await this.admins[from]!.call('CLUSTER', ['MIGRATESLOTS', 'SLOTSRANGE', slot, slot, 'NODE', ids[to]!]);
    await until(async () => (await this.#ownersOf(slot)).from === to);
  }

  /** The nodes' ids, the index of a slot's primary, and that of the next primary. */
  async #ownersOf(slot: number): Promise<{ ids: string[]; from: number; to: number }> {
    const ids = await Promise.all(this.admins.map(async (admin) => String(await admin.cluster('MYID'))));
    const ranges = await this.admins[0]!.cluster('SLOTS');
    const owner = ranges.find(([first, last]) => slot >= first && slot <= last)![2]![2];
    const from = ids.indexOf(owner);
    return { ids, from, to: (from + 1) % PRIMARIES };
  }

  /** The slot of the keys whose names contain a text. */
  async slotOf(text: string): Promise<number> {
    const [primary] = this.admins;
    const keysByNode = await Promise.all(
      this.admins.slice(0, PRIMARIES).map((admin) => admin.keys(`*${text}*`)),
    );
    return Number(await primary!.cluster('KEYSLOT', keysByNode.flat()[0]!));
  }

  /** Kills a primary. */
  async kill(i: number): Promise<void> {
    this.admins[i]!.disconnect();
    await this.servers[i]!.kill('SIGKILL');
  }

  /** Resolves when the replica of a killed primary has taken over. */
  async failedOver(i: number): Promise<void> {
    const admin = this.admins[i + PRIMARIES]!;
    await until(async () => (await infoOf(admin, 'replication')).includes('role:master'), ELECTION_MS);
    await this.settled();
  }

  async stop(): Promise<void> {
    for (const admin of this.admins) admin.disconnect();
    await Promise.all(this.servers.map((server) => server.stop()));
  }

  async #all(condition: (info: string) => boolean): Promise<void> {
    for (const admin of this.admins) {
      if (admin.status === 'end') continue;
      await until(async () => condition(String(await admin.cluster('INFO'))), ELECTION_MS);
    }
  }
}
