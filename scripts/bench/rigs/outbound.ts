// A process that calls a server as fast as its limiter admits, from several loops.
import { randomBytes } from 'node:crypto';
import Bottleneck from 'bottleneck';
import { memoryStore } from 'headgate';
import { limitFetch } from 'headgate/fetch';
import { redisStore } from 'headgate/redis';
import { sqliteStore } from 'headgate/sqlite';
import { Redis } from 'ioredis';

export const outboundSubjects = [
  ...(['headgate, Redis', 'headgate, SQLite', 'headgate, memory, one process'] as const),
  ...(['bottleneck, minTime', 'bottleneck, reservoir'] as const),
];
export type OutboundSubject = (typeof outboundSubjects)[number];

/** The calls a second that the server admits. */
export const PER_SECOND = 50;

interface Options {
  subject: OutboundSubject;
  /** The server. */
  url: string;
  /** The port of Redis. */
  port: number;
  /** The path of the SQLite file. */
  path: string;
  /** The id of the process in its calls. */
  id: number;
}

type Send = (url: string, init: RequestInit) => Promise<Response>;

async function senderOf({ subject, port, path }: Options): Promise<Send> {
  if (subject.startsWith('headgate')) {
    const store = subject.includes('Redis')
      ? redisStore(new Redis(port), { publish: false })
      : subject.includes('SQLite')
        ? sqliteStore(path)
        : memoryStore();
    const call = limitFetch(fetch, {
      ...{ name: 'partner', store, policies: [`${PER_SECOND}/1s`], timeout: '60s' },
    });
    // Learns the server's time, and loads the scripts.
    await call.limiter.peek('nobody');
    return call;
  }
  const pace = subject.includes('minTime')
    ? { minTime: 1000 / PER_SECOND }
    : { reservoir: PER_SECOND, reservoirRefreshAmount: PER_SECOND, reservoirRefreshInterval: 1000 };
  const limiter = new Bottleneck({
    ...{ id: subject, datastore: 'ioredis', clearDatastore: false, Redis, clientOptions: { port } },
    ...pace,
  });
  // As its README recommends: a failed job runs again after the wait that the server requests.
  limiter.on('failed', (error, { retryCount }) =>
    retryCount < 2 ? Number((error as unknown as { wait?: number }).wait ?? 1000) : undefined,
  );
  await limiter.ready();
  return (url, init) =>
    limiter.schedule({ id: randomBytes(9).toString('hex') }, async () => {
      const response = await fetch(url, init);
      if (response.status !== 429) return response;
      throw Object.assign(new Error('429'), { wait: 1000 * Number(response.headers.get('Retry-After')) });
    });
}

export async function start(options: Options) {
  const send = await senderOf(options);
  return {
    /** Begins `loops` loops, which go on until the process ends. */
    begin(loops: number): void {
      for (let i = 0; i < loops; i++) void loop();
    },
  };

  async function loop(): Promise<never> {
    for (;;) {
      const came = String(performance.timeOrigin + performance.now());
      try {
        const headers = { 'x-process': String(options.id), 'x-came': came };
        const response = await send(options.url, { headers });
        await response.arrayBuffer();
      } catch {
        // A call that the server denies for good is repeated.
      }
    }
  }
}
