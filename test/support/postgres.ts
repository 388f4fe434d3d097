// A PostgreSQL server for tests, on loopback, and its stores.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { chownSync, cpSync, existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Pool, type PoolConfig } from 'pg';
import { postgresStore } from 'headgate/postgres';
import { root } from '../../scripts/lib/run.mjs';
import { findProgram } from '../../scripts/programs.mjs';
import { freePort, watch } from './servers.js';

/** The user that runs the server if the tests run as root, because PostgreSQL refuses root. */
const SERVER_USER = 'postgres';

const START_TIMEOUT_MS = 20_000;

export interface PostgresServer {
  readonly port: number;
  readonly url: string;
  /** Creates a pool, which must be ended before `stop`. */
  pool(config?: PoolConfig): Pool;
  /** SIGQUIT: the server ends at once, as after a crash. */
  crash(): Promise<void>;
  /** Starts the server again after `crash`, on the same data and port. */
  start(): Promise<void>;
  /** Stalls the processes of the server, or resumes them. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void;
  stop(): Promise<void>;
}

/** Starts a new server. */
export async function startPostgres(
  settings: Readonly<Record<string, string>> = {},
): Promise<PostgresServer> {
  const program = findProgram('postgres');
  const user = process.getuid?.() === 0 ? idsOf(SERVER_USER) : undefined;
  const directory = mkdtempSync(join(tmpdir(), 'headgate-postgres-'));
  if (user) chownSync(directory, user.uid, user.gid);
  const data = join(directory, 'data');
  cpSync(emptyData(program, user), data, { recursive: true, preserveTimestamps: true });
  if (user) spawnSync('chown', ['-R', SERVER_USER, data]);
  const port = await freePort();
  const url = `postgres://headgate@127.0.0.1:${port}/postgres`;
  const given = { listen_addresses: '127.0.0.1', unix_socket_directories: '', fsync: 'off', ...settings };
  const args = Object.entries(given).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  let child: ChildProcess;
  const start = async (): Promise<void> => {
    child = spawn(program, ['-D', data, '-p', String(port), ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
      ...user,
    });
    watch(child);
    let log = '';
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (log = (log + text).slice(-10_000)));
    const end = Date.now() + START_TIMEOUT_MS;
    while (!(await answers(url))) {
      if (child.exitCode !== null || Date.now() > end) throw new Error(`PostgreSQL did not start:\n${log}`);
      await sleep(50);
    }
  };
  const end = async (signal: 'SIGINT' | 'SIGQUIT'): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await gone;
  };
  await start();
  return {
    port,
    url,
    pool: (config) => new Pool({ connectionString: url, ...config }),
    crash: () => end('SIGQUIT'),
    start,
    signal(signal) {
      const { stdout } = spawnSync('pgrep', ['-P', String(child.pid)], { encoding: 'utf8' });
      for (const pid of [child.pid!, ...stdout.split('\n').filter(Boolean).map(Number)])
        process.kill(pid, signal);
    },
    async stop() {
      await end('SIGINT');
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** The data of a new server of this version, which is made once on a machine, because it takes a second of the processor. */
function emptyData(program: string, user: { uid: number; gid: number } | undefined): string {
  const [version = ''] =
    /\d[\w.]*/.exec(spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout) ?? [];
  const kept = join(root, `node_modules/.cache/headgate/postgres-${version}`);
  if (existsSync(kept)) return kept;
  const directory = mkdtempSync(join(tmpdir(), 'headgate-initdb-'));
  if (user) chownSync(directory, user.uid, user.gid);
  const data = join(directory, 'data');
  const { status, stdout, stderr } = spawnSync(
    join(dirname(program), 'initdb'),
    ['-D', data, '-U', 'headgate', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'],
    { encoding: 'utf8', ...user },
  );
  if (status !== 0) throw new Error(`initdb failed: ${stdout}${stderr}`);
  // Another process may keep its own meanwhile, which is the same.
  const written = `${kept}.${process.pid}`;
  cpSync(data, written, { recursive: true });
  rmSync(directory, { recursive: true, force: true });
  try {
    renameSync(written, kept);
  } catch (error) {
    if (!existsSync(kept)) throw error;
    rmSync(written, { recursive: true });
  }
  return kept;
}

/** A server for the tests of a suite: `pool` ends with them, and `table` is new and set up for each test. */
export interface PostgresRig {
  readonly server: PostgresServer;
  readonly pool: Pool;
  readonly table: string;
}

/** Starts a server for the suite, and stops it at the end. @param take receives the server before the tests, and a table before each test */
export function usePostgres(take: (rig: PostgresRig) => void): void {
  let server: PostgresServer;
  let pool: Pool;
  before(async function () {
    this.timeout(60_000);
    server = await startPostgres();
    pool = server.pool();
    // A pool without a listener ends the process when a test breaks a connection.
    pool.on('error', () => {});
    take({ server, pool, table: '' });
  });
  beforeEach(async () => {
    const table = freshTable();
    await postgresStore(pool, { table }).setup();
    take({ server, pool, table });
  });
  after(async () => {
    await pool.end();
    await server.stop();
  });
}

export interface PgBouncer {
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts a PgBouncer in transaction mode in front of a server. @param size the connections to the server */
export async function startPgBouncer(server: PostgresServer, size: number): Promise<PgBouncer> {
  const user = process.getuid?.() === 0 ? idsOf(SERVER_USER) : undefined;
  const directory = mkdtempSync(join(tmpdir(), 'headgate-pgbouncer-'));
  const port = await freePort();
  const config = join(directory, 'pgbouncer.ini');
  writeFileSync(
    config,
    `[databases]
postgres = host=127.0.0.1 port=${server.port} user=headgate
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${size}
`,
    { mode: 0o644 },
  );
  if (user) chownSync(directory, user.uid, user.gid);
  const child = spawn(findProgram('pgbouncer'), ['-q', config], { stdio: 'ignore', ...user });
  watch(child);
  const url = `postgres://headgate@127.0.0.1:${port}/postgres`;
  const end = Date.now() + START_TIMEOUT_MS;
  while (!(await answers(url))) {
    if (child.exitCode !== null || Date.now() > end) throw new Error('PgBouncer did not start.');
    await sleep(50);
  }
  return {
    url,
    async stop() {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGQUIT');
      await gone;
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

async function answers(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('SELECT 1');
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

function idsOf(name: string): { uid: number; gid: number } {
  const id = (flag: string) => Number(spawnSync('id', [flag, name], { encoding: 'utf8' }).stdout);
  return { uid: id('-u'), gid: id('-g') };
}

/** The code and the message of an error, or `done`. */
export const outcomeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'done',
    (error: Error & { code: string }) => `${error.code} ${error.message}`,
  );

let tables = 0;

/** A new table name, which makes a store empty. */
export const freshTable = () => `t_${(tables++).toString(36)}`;
