// The faults of one server: each scene starts, breaks and mends a server.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort, startServer, type ServerKind, type TestServer } from '../../support/servers.js';
import { until } from './load.js';
import { Proxy } from './proxy.js';

export interface Breakable {
  /** Whether the server is down from the start. */
  readonly isDown?: true;
  /** Whether the server loses its counts. */
  readonly forgets?: true;
  /** Whether callers may not notice the fault. */
  readonly mayGoUnnoticed?: true;
  break(): Promise<void>;
  /** Resolves when a server could decide again. */
  mend(): Promise<void>;
}

export interface Scene extends Breakable {
  /** The port for the clients. */
  readonly port: number;
  end(): Promise<void>;
}

type MakeScene = (kind: ServerKind) => Promise<Scene>;

/** A client for the test itself, with short timeouts and an ignored error event. */
function adminOf({ port }: { port: number }): Redis {
  return new Redis(port, { enableReadyCheck: false, retryStrategy: () => 50 }).on('error', () => {});
}

/** A server whose settings break it. */
async function settings(
  kind: ServerKind,
  breaking: readonly (readonly string[])[],
  mending: readonly (readonly string[])[],
): Promise<Scene> {
  const server = await startServer(kind);
  const admin = adminOf(server);
  const run = async (commands: readonly (readonly string[])[]): Promise<void> => {
    for (const [name, ...args] of commands) await admin.call(name!, ...args);
  };
  return {
    port: server.port,
    break: () => run(breaking),
    mend: () => run(mending),
    async end() {
      admin.disconnect();
      await server.stop();
    },
  };
}

async function downAtStart(kind: ServerKind): Promise<Scene> {
  const port = await freePort();
  let server: TestServer | undefined;
  return {
    port,
    isDown: true,
    break: async () => {},
    async mend() {
      server = await startServer(kind, { port });
    },
    end: async () => server?.stop(),
  };
}

async function refused(kind: ServerKind): Promise<Scene> {
  const server = await startServer(kind);
  const proxy = new Proxy(server.port);
  await proxy.open();
  return {
    port: proxy.port,
    break: () => proxy.close(),
    mend: () => proxy.open(),
    async end() {
      await proxy.close();
      await server.stop();
    },
  };
}

/** The server goes on, but its replies are held back. */
async function heldBack(kind: ServerKind): Promise<Scene> {
  const server = await startServer(kind);
  const proxy = new Proxy(server.port);
  await proxy.open();
  return {
    port: proxy.port,
    break: async () => proxy.hold(),
    mend: async () => proxy.release(),
    async end() {
      await proxy.close();
      await server.stop();
    },
  };
}

async function killed(kind: ServerKind): Promise<Scene> {
  let server = await startServer(kind);
  return {
    port: server.port,
    forgets: true,
    break: () => server.kill('SIGKILL'),
    async mend() {
      server = await startServer(kind, { port: server.port });
    },
    end: () => server.stop(),
  };
}

async function stalled(kind: ServerKind): Promise<Scene> {
  const server = await startServer(kind);
  return {
    port: server.port,
    break: () => server.kill('SIGSTOP'),
    mend: () => server.kill('SIGCONT'),
    end: () => server.stop(),
  };
}

async function cutInMidReply(kind: ServerKind): Promise<Scene> {
  const server = await startServer(kind);
  const proxy = new Proxy(server.port);
  await proxy.open();
  let timer: NodeJS.Timeout | undefined;
  return {
    port: proxy.port,
    async break() {
      timer = setInterval(() => proxy.cutNextReply(), 20);
    },
    async mend() {
      // Clients reconnect at their own pace.
      await until(() => proxy.cuts >= 3);
      clearInterval(timer);
    },
    async end() {
      clearInterval(timer);
      await proxy.close();
      await server.stop();
    },
  };
}

async function scriptsFlushed(kind: ServerKind): Promise<Scene> {
  const server = await startServer(kind);
  const admin = adminOf(server);
  let timer: NodeJS.Timeout | undefined;
  return {
    port: server.port,
    mayGoUnnoticed: true,
    async break() {
      timer = setInterval(() => void admin.script('FLUSH'), 10);
    },
    async mend() {
      clearInterval(timer);
    },
    async end() {
      clearInterval(timer);
      admin.disconnect();
      await server.stop();
    },
  };
}

/** A restart that takes long to load the old data. */
async function loading(kind: ServerKind): Promise<Scene> {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-loading-'));
  const first = await startServer(kind, { dir });
  const { port } = first;
  const admin = adminOf(first);
  await admin.eval("for i = 1, 1000 do redis.call('SET', 'filler' .. i, 'x', 'EX', 600) end", 0);
  await admin.call('SAVE');
  let restarted: Promise<TestServer> | undefined;
  return {
    port,
    forgets: true,
    async break() {
      admin.disconnect();
      await first.kill('SIGKILL');
      // 1,000 keys, a millisecond each. Meanwhile the server answers LOADING.
      const args = ['--key-load-delay', '1000', '--loading-process-events-interval-bytes', '1024'];
      restarted = startServer(kind, { dir, port, args });
    },
    async mend() {
      await restarted;
    },
    async end() {
      await (await restarted)?.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export const scenes: Readonly<Record<string, MakeScene>> = {
  'down at the start, up later': downAtStart,
  'connections refused': refused,
  'killed, and restarted empty': killed,
  'replies held back': heldBack,
  'stalled, and resumed': stalled,
  'connections cut in mid-reply': cutInMidReply,
  'scripts flushed again and again': scriptsFlushed,
  'out of memory, noeviction': (kind) =>
    settings(kind, [['CONFIG', 'SET', 'maxmemory', '1']], [['CONFIG', 'SET', 'maxmemory', '0']]),
  'read-only after a role change': (kind) =>
    settings(kind, [['REPLICAOF', '127.0.0.1', '1']], [['REPLICAOF', 'NO', 'ONE']]),
  'a replica without its primary': (kind) =>
    settings(
      kind,
      [
        ['CONFIG', 'SET', 'replica-serve-stale-data', 'no'],
        ['REPLICAOF', '127.0.0.1', '1'],
      ],
      [['REPLICAOF', 'NO', 'ONE']],
    ),
  'loading its data': loading,
  'a password is asked for': (kind) =>
    settings(
      kind,
      [
        ['CONFIG', 'SET', 'requirepass', 'secret'],
        ['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'],
      ],
      [['CONFIG', 'SET', 'requirepass', '']],
    ),
};
