// Law 14: a late process does not count as a failed store.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { Worker } from 'node:worker_threads';
import { Redis } from 'ioredis';
import { createLimiter, HeadgateError, type Decision, type Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { servers } from '../../support/shared-servers.js';
import { freshPrefix } from '../../support/stores.js';
import { clientKinds, type TestClient } from '../faults/clients.js';
import { MODES, TIMEOUT } from '../faults/load.js';

const CONNECTIONS = 64;
const REQUESTS = 640;
const LIMIT = 100;

/** Clients in another thread, so that only the server's own work makes it late. */
const CLIENTS = `
  const { parentPort, workerData: { port, connections, requests } } = require('node:worker_threads');
  const http = require('node:http');
  const agent = new http.Agent({ keepAlive: true, maxSockets: connections });
  const ask = () => new Promise((resolve, reject) => {
    http.get({ port, host: '127.0.0.1', agent }, (res) => res.resume().on('end', resolve)).on('error', reject);
  });
  let left = requests;
  const client = async () => { while (left-- > 0) await ask(); };
  Promise.all(Array.from({ length: connections }, client)).then(() => {
    agent.destroy();
    parentPort.postMessage('done');
  });
`;

/**
 * Pings the server from another thread. On request it reports the longest answer time, ms. A late timer counts as well: without time for
 * this thread, the machine may have had none for the server either, and no ping would show it.
 */
const OBSERVER = `
  const { parentPort, workerData: { port } } = require('node:worker_threads');
  let [last, longest] = [performance.now(), 0];
  const note = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const ping = () => {
    note();
    socket.write('PING\\r\\n');
  };
  const socket = require('node:net').connect(port, '127.0.0.1', ping).on('data', () => {
    note();
    setTimeout(ping, 2);
  });
  parentPort.once('message', () => {
    note();
    socket.destroy();
    parentPort.postMessage(longest);
  });
`;

/** Serves `requests` requests over many connections. */
async function serve(requests: number, listener: RequestListener): Promise<void> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const worker = new Worker(CLIENTS, {
    eval: true,
    workerData: { port, connections: CONNECTIONS, requests },
  });
  await once(worker, 'message');
  await worker.terminate();
  await new Promise((resolve) => server.close(resolve));
}

/** Works for `ms`, and blocks the event loop meanwhile. */
function work(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

type Answers = Map<string, number>;

function count(answers: Answers, what: string): void {
  answers.set(what, (answers.get(what) ?? 0) + 1);
}

function nameOf({ allowed, degraded, reason }: Decision): string {
  return `${degraded ? 'degraded' : ''}${allowed ? 'admitted' : 'denied'}${reason === 'store-error' ? ' store-error' : ''}`;
}

/** Sends a request to every limiter at once, and collects the answers. */
function ask(limiters: readonly Limiter[], answers: readonly Answers[]): Promise<unknown> {
  return Promise.all(
    limiters.map((limiter, i) =>
      limiter.consume('hot').then(
        (decision) => count(answers[i]!, nameOf(decision)),
        (error: unknown) => count(answers[i]!, error instanceof HeadgateError ? error.code : String(error)),
      ),
    ),
  );
}

/** The results of the limiters of all modes, and the server's longest answer time, ms. */
async function scene(connect: Connect, workOf: (n: number) => number) {
  const { client, end } = connect(servers.redis.port);
  const observer = new Worker(OBSERVER, { eval: true, workerData: { port: servers.redis.port } });
  const prefix = freshPrefix();
  // Denials ask the server, too.
  const limiters = MODES.map((mode) =>
    createLimiter({
      name: mode,
      store: redisStore(client, { prefix, localDenials: false }),
      limit: LIMIT,
      window: '10m',
      timeout: TIMEOUT,
      onStoreError: mode,
    }),
  );
  const answers = MODES.map((): Answers => new Map());
  let requests = 0;
  try {
    await serve(REQUESTS, (_, res) => {
      const ms = workOf(++requests);
      work(ms / 2);
      void ask(limiters, answers).then(() => res.end());
      work(ms / 2);
    });
    const results = limiters.map(({ health }, i) => ({
      answers: Object.fromEntries(answers[i]!),
      state: health.state,
    }));
    observer.postMessage('how long?');
    const [longest] = (await once(observer, 'message')) as [number];
    return { told: results, longest };
  } finally {
    await observer.terminate();
    for (const limiter of limiters) await limiter.close();
    end();
  }
}

type Connect = (port: number) => Pick<TestClient, 'client' | 'end'>;

const kinds: Readonly<Record<string, Connect>> = {
  ...clientKinds,
  'ioredis 6 with a commandTimeout': (port: number) => {
    const client = new Redis(port, { commandTimeout: 2 * TIMEOUT });
    return { client, end: () => client.disconnect() };
  },
};

describe('a busy process whose store is healthy', function () {
  this.timeout(240_000);

  for (const [name, connect] of Object.entries(kinds)) {
    for (const [what, workOf] of Object.entries({
      'of 2 ms of other work a request': () => 2,
      // The client writes other commands as well, so the turns are not Headgate's.
      'of turns of 150 to 500 ms': (n: number) => (n % 40 === 0 ? 150 + (n % 7) * 58 : 0.2),
    })) {
      it(`${what}, by ${name}: denies no request for it, and limits hold`, async () => {
        for (let tries = 19; ; tries--) {
          const { told, longest } = await scene(connect, workOf);
          const expected = { answers: { admitted: LIMIT, denied: REQUESTS - LIMIT }, state: 'up' };
          // On a machine without time for the server, the store really is late.
          const wasWell = longest < TIMEOUT / 2;
          if (
            !wasWell &&
            tries > 0 &&
            !isDeepStrictEqual(
              told,
              MODES.map(() => expected),
            )
          )
            continue;
          for (const [i, each] of told.entries()) assert.deepEqual(each, expected, MODES[i]);
          return;
        }
      });
    }
  }
});
