import { once } from 'node:events';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findProgram } from '../../scripts/programs.mjs';

export type ServerKind = 'redis' | 'valkey';

export interface ServerOptions {
  /** More options for the command line. If an option is given twice, the last one wins. */
  args?: readonly string[];
  /** The text of a configuration file, if one is needed. */
  config?: string;
  /** The port to use again after a restart. Default: a free port. */
  port?: number;
  /** A directory that outlives the server, for persistence. Default: a new directory, which is removed when the server stops. */
  dir?: string;
}

export interface TestServer {
  readonly kind: ServerKind;
  readonly port: number;
  readonly url: string;
  readonly pid: number;
  /** Stops the server in order. Resolves when the server is gone, even if it was gone before. */
  stop(): Promise<void>;
  /** Sends a signal: SIGKILL crashes the server (and resolves at its end), SIGSTOP stalls the server, SIGCONT resumes it. */
  kill(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): Promise<void>;
}

const startTimeout = 10_000;
const stopTimeout = 5_000;

/**
 * Starts a new server on loopback, without persistence. Resolves when the server answers. The server's program must be installed: servers
 * that REDIS_URL or VALKEY_URL name are only for tests that share a server.
 */
export async function startServer(kind: ServerKind, options: ServerOptions = {}): Promise<TestServer> {
  const program = findProgram(kind);
  const dir = options.dir ?? mkdtempSync(join(tmpdir(), `headgate-${kind}-`));
  const removeDir = () => {
    if (!options.dir) rmSync(dir, { recursive: true, force: true });
  };
  for (;;) {
    const port = options.port ?? (await freePort());
    const running = launch(program, port, dir, options);
    const outcome = await running.answers();
    if (outcome === 'up') return handle(kind, port, running, removeDir);
    await running.end('SIGKILL');
    // Between finding a free port and listening on it, another process may have taken it.
    if (outcome === 'port taken' && options.port === undefined) continue;
    removeDir();
    throw new Error(`${program} did not start on port ${port} (${outcome}):\n${running.log()}`);
  }
}

function handle(kind: ServerKind, port: number, running: Running, removeDir: () => void): TestServer {
  return {
    kind,
    port,
    url: `redis://127.0.0.1:${port}`,
    pid: running.pid,
    async stop() {
      await running.end('SIGTERM');
      removeDir();
    },
    async kill(signal) {
      if (signal !== 'SIGKILL') return void running.signal(signal);
      await running.end(signal);
      removeDir();
    },
  };
}

type Running = ReturnType<typeof launch>;

function launch(program: string, port: number, dir: string, { args = [], config }: ServerOptions) {
  const file = join(dir, 'server.conf');
  if (config !== undefined) writeFileSync(file, config);
  const defaults = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', dir];
  const first = config === undefined ? [] : [file];
  const child = spawn(program, [...first, '--port', String(port), ...defaults, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output = (output + text).slice(-10_000)));
  }
  // Only the server's own log proves that this server, and not an older process, listens on the port.
  const ready = new Promise<void>((resolve) => {
    child.stdout.on('data', () => {
      if (/Ready to accept connections|Sentinel ID is/.test(output)) resolve();
    });
  });
  const gone = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', (error) => {
      output += error.message;
      resolve();
    });
  });
  watch(child);

  return {
    pid: child.pid ?? 0,
    log: () => output,
    signal: (signal: NodeJS.Signals) => child.kill(signal),
    async answers(): Promise<'up' | 'port taken' | 'exited' | 'no answer'> {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, startTimeout)));
      await Promise.race([ready, gone, late]);
      clearTimeout(timer);
      if (output.includes('Address already in use')) return 'port taken';
      if (child.exitCode !== null) return 'exited';
      return (await ping(port)) ? 'up' : 'no answer';
    },
    async end(signal: 'SIGTERM' | 'SIGKILL') {
      child.kill('SIGCONT');
      child.kill(signal);
      const timer = setTimeout(() => child.kill('SIGKILL'), stopTimeout);
      await gone;
      clearTimeout(timer);
    },
  };
}

/** Whether a server answers, even if it only asks for a password. */
function ping(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(port, '127.0.0.1', () => socket.write('PING\r\n'));
    socket.once('data', (reply) => {
      socket.destroy();
      resolve(/^\+PONG|^-NOAUTH/.test(reply.toString()));
    });
    socket.once('error', () => resolve(false));
    socket.setTimeout(1_000, () => {
      socket.destroy();
      resolve(false);
    });
  });
}

/** Ports below those that systems give to connections. A connection of a test that runs beside could take a port before its server does. */
const FIRST_PORT = 12_000;
const PORTS = 20_000;

/** A port on which nothing listens. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORTS);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    await new Promise((resolve) => server.close(resolve));
    if (isFree) return port;
  }
}

/** The running servers. The hooks fail a run that leaves any behind. */
export const runningServers = new Map<number, string>();

let watchdog: ChildProcess | undefined;

// A shell that kills the remaining processes when this process has gone for any reason, which closes the shell's standard input.
const watchdogScript = `
  while read -r sign pid; do
    case $sign in
      +) pids="$pids $pid " ;;
      -) pids=$(printf %s "$pids" | sed "s/ $pid / /") ;;
    esac
  done
  [ -z "\${pids# }" ] || kill -9 $pids
`;

/** Ensures that a test's process does not outlive the run. The run fails if the test leaves the process behind. */
export function watch(child: ChildProcess) {
  const { pid } = child;
  if (pid === undefined) return;
  runningServers.set(pid, child.spawnargs.join(' '));
  tellWatchdog('+', pid);
  child.once('exit', () => {
    runningServers.delete(pid);
    tellWatchdog('-', pid);
  });
}

function tellWatchdog(sign: '+' | '-', pid: number) {
  if (!watchdog) {
    watchdog = spawn('sh', ['-c', watchdogScript], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
    watchdog.unref();
    (watchdog.stdin as unknown as { unref(): void }).unref();
  }
  watchdog.stdin?.write(`${sign} ${pid}\n`);
}
