// Connections of PostgreSQL: some never open, some are lost at any moment, and some belong to pools with settings of their users.
import { createServer, connect, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Pool, types } from 'pg';
import { createLimiter, type Store } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { postgresStore } from 'headgate/postgres';
import { emittedCodes } from '../../../src/common/warnings.js';
import { crossThresholds } from '../../support/threshold-stream.js';
import { freshTable, outcomeOf, type PostgresServer, usePostgres } from '../../support/postgres.js';

/** A proxy that swallows some connections: they open, and nobody ever answers. */
class Swallower {
  /** The connections to swallow next. */
  toSwallow = 0;
  /** Cuts a connection of which the client sends this text. */
  cutAt: string | undefined;
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;

  constructor(port: number) {
    this.#server = createServer((client) => {
      this.#keep(client);
      if (this.toSwallow > 0) {
        this.toSwallow--;
        return;
      }
      const upstream = this.#keep(connect(port, '127.0.0.1'));
      client.on('data', (data: Buffer) => {
        if (this.cutAt === undefined || !data.includes(this.cutAt)) return void upstream.write(data);
        client.destroy();
        upstream.destroy();
      });
      upstream.on('data', (data: Buffer) => void client.write(data));
      client.on('close', () => upstream.destroy());
      upstream.on('close', () => client.destroy());
    });
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    return socket.on('error', () => {}).on('close', () => void this.#sockets.delete(socket));
  }

  async open(): Promise<number> {
    await new Promise<void>((resolve) => void this.#server.listen(0, '127.0.0.1', resolve));
    return (this.#server.address() as AddressInfo).port;
  }

  /** Ends the present connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.#server.close();
    this.cut();
  }
}

/** A message of PostgreSQL's protocol. */
function message(type: string, ...parts: readonly (string | number)[]): Buffer {
  const body = Buffer.concat(
    parts.map((part) => {
      if (typeof part === 'string') return Buffer.from(part);
      const number = Buffer.alloc(4);
      number.writeInt32BE(part);
      return number;
    }),
  );
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

describe('PostgreSQL, connections', function () {
  this.timeout(60_000);
  let server: PostgresServer;
  let pool: Pool;
  let table: string;
  let proxy: Swallower;
  let behind: Pool;

  usePostgres((rig) => ({ server, pool, table } = rig));
  beforeEach(async () => {
    proxy = new Swallower(server.port);
    behind = new Pool({ connectionString: server.url.replace(/:\d+\//, `:${await proxy.open()}/`) });
    behind.on('error', () => {});
  });
  afterEach(async () => {
    const ended = behind.end().catch(() => {});
    proxy.close();
    await ended;
  });

  const limiterOn = (store: Store) => createLimiter({ store, limit: 1_000_000, window: '30d' });

  async function decides(limiter: ReturnType<typeof limiterOn>): Promise<void> {
    while ((await limiter.consume('key')).degraded) await sleep(10);
  }

  it('connections that never open do not turn the store off, at once or one after the other', async () => {
    const limiter = limiterOn(postgresStore(behind, { table }));
    for (const count of [2, 1, 1, 1]) {
      // Without idle connections, the next decisions open new ones.
      proxy.cut();
      proxy.toSwallow = count;
      await Promise.all(Array.from({ length: 10 }, () => limiter.consume('key')));
      while (proxy.toSwallow > 0) await limiter.consume('key');
      await behind.query('SELECT 1');
      await decides(limiter);
    }
    expect((await limiter.consume('key')).degraded).to.equal(false);
    await limiter.close();
  });

  it('setup ends with an error if no connection opens or the connection is lost, and the process goes on', async () => {
    for (const cutAt of ['pg_advisory_xact_lock', 'to_regclass', 'CREATE UNLOGGED TABLE', 'COMMIT']) {
      proxy.cutAt = cutAt;
      const outcome = await outcomeOf(postgresStore(behind, { table: freshTable() }).setup());
      expect(outcome, cutAt).to.match(/terminated|ECONNRESET|EPIPE/);
    }
    proxy.cutAt = undefined;
    const store = postgresStore(behind, { table: freshTable() });
    await store.setup();
    expect((await limiterOn(store).consume('key')).degraded).to.equal(false);
  });

  it('views of the administration end with an error if the connection is lost', async () => {
    const admin = createAdmin(postgresStore(behind, { table }));
    await admin.usage();
    proxy.cutAt = 'ORDER BY key LIMIT';
    expect(await outcomeOf(admin.usage())).to.contain('HEADGATE_STORE_AWAY');
  });

  it('an error in the packet that gives the store its connection does not end the process', async () => {
    const ready = message('Z', 'I');
    const fatal = message('E', 'SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0');
    const fake = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => void socket.write(Buffer.concat([message('R', 0), ready, fatal])));
    });
    await new Promise<void>((resolve) => void fake.listen(0, '127.0.0.1', resolve));
    const { port } = fake.address() as AddressInfo;
    const doomed = new Pool({ host: '127.0.0.1', port, user: 'a', database: 'b' });
    const store = postgresStore(doomed, { table });
    expect(await outcomeOf(store.setup())).to.contain('terminating connection');
    expect((await limiterOn(store).consume('key')).degraded).to.equal(true);
    await doomed.end();
    fake.close();
  });

  it('one listener for the errors of a pool, until its last store is closed', async () => {
    const own = new Pool({ connectionString: server.url });
    const stores = Array.from({ length: 50 }, () => postgresStore(own, { table }));
    expect(own.listenerCount('error')).to.equal(1);
    emittedCodes.delete('HEADGATE_CLIENT_ERROR');
    await limiterOn(stores[0]!).consume('key');
    const lost = new Promise((resolve) => own.once('remove', resolve));
    await pool.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()');
    await lost;
    while (!emittedCodes.has('HEADGATE_CLIENT_ERROR')) await sleep(5);
    for (const store of stores) {
      expect(own.listenerCount('error')).to.equal(1);
      await store.close?.();
      await store.close?.();
    }
    expect(own.listenerCount('error')).to.equal(0);
    await own.end();
  });

  it('a pool that only returns promises works, too', async () => {
    const promising = { connect: () => pool.connect(), on() {} };
    const store = postgresStore(promising, { table });
    await store.setup();
    expect((await limiterOn(store).consume('key')).degraded).to.equal(false);
    await store.close?.();
  });

  it('check() advises connectionTimeoutMillis', async () => {
    const patient = new Pool({ connectionString: server.url, connectionTimeoutMillis: 2000 });
    const [bad, good] = [pool, patient].map((each) => createAdmin(postgresStore(each, { table })).check());
    expect((await bad!).map(({ level, code }) => `${level} ${code}`)).to.deep.equal([
      'ok connection',
      'warning client',
    ]);
    expect((await bad!)[1]!.message).to.contain('connectionTimeoutMillis: 2000');
    expect((await good!).map(({ level }) => level)).to.deep.equal(['ok']);
    await patient.end();
  });

  it('parsers that the application has set do not matter', async () => {
    const oids = [16, 17, 20, 21, 23, 25, 114, 700, 701, 1043, 1114, 1184, 1700, 3802] as const;
    const parsers = oids.map((oid) => types.getTypeParser(oid, 'text') as (value: string) => unknown);
    for (const oid of oids) types.setTypeParser(oid, () => 'parsed');
    const odd = new Pool({ connectionString: server.url, options: '-c bytea_output=escape' });
    try {
      const own = freshTable();
      const store = postgresStore(odd, { table: own, thresholds: 'stream' });
      await store.setup();
      await store.setup();
      await crossThresholds(store);
      const admin = createAdmin(store);
      expect(await admin.thresholds({ group: 'mail' }).read()).to.have.length.above(0);
      const limiter = createLimiter({
        ...{ store, name: 'api', limit: 2, window: '1h', overrides: true },
        ...{ onStoreError: 'throw' as const, timeout: '10s' },
      });
      const left = [];
      // Enough writes for a sweep of expired rows.
      for (let i = 0; i < 100; i++) left.push((await limiter.consume(`key ${i % 50}`)).remaining);
      expect(left).to.deep.equal([...Array<number>(50).fill(1), ...Array<number>(50).fill(0)]);
      await admin.override('key 1', '5/1h', { name: 'api' });
      expect((await limiter.peek('key 1')).remaining).to.equal(3);
      expect(await admin.key('key 1', { name: 'api' })).to.have.length(1);
      const changes = [];
      for await (const { action } of admin.log()) changes.push(action);
      expect(changes).to.deep.equal(['override']);
    } finally {
      await odd.end();
      oids.forEach((oid, i) => types.setTypeParser(oid, parsers[i]!));
    }
  });
});
