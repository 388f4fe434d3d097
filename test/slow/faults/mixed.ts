// An hour of everything at once: faults of the store, and hostile clients of the apps that use it. For npm run soak.
import { once, setMaxListeners } from 'node:events';
import { request, type ServerResponse } from 'node:http';
import { connect as connectHttp2, constants } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import {
  createLimiter,
  HeadgateError,
  type Decision,
  type Limiter,
  type Policy,
  type Store,
  type Verdict,
} from 'headgate';
import { redisStore } from 'headgate/redis';
import { ResponseEnd } from '../../../src/http/response-end.js';
import { nodeResponse } from '../../../src/http/node-response.js';
import {
  adapters,
  serveHttp2,
  type Serve,
  type Served,
  type TestOptions,
  type TestRequest,
} from '../../http/apps.js';
import { endings, get, sent } from '../../http/hostile.js';
import { startCluster } from '../../support/cluster.js';
import type { ServerKind } from '../../support/servers.js';
import { clientKinds, clusterKinds, type TestClient } from './clients.js';
import { MODES, sleep, TIMEOUT, type Mode } from './load.js';
import { check, play } from './play.js';
import { Proxy } from './proxy.js';
import { lines } from './report.js';
import { scenes, type Breakable } from './scenes.js';

const LIMIT = 20;
const SLOTS = 4;
const HOUR = 3_600_000;
const LONG = 'x'.repeat(5_000_000);

/** The time limit for a polite client's answer, and for the end of a waiting call, ms. */
const PATIENCE_MS = 10_000;

/** The time limit of a round, ms. Most rounds take five seconds. */
const MAX_ROUND_MS = 180_000;

const taken: Policy[] = [
  { name: 'quota', algorithm: 'fixed-window', limit: LIMIT, window: '1h' },
  { name: 'slots', algorithm: 'concurrency', limit: SLOTS, lease: '1h' },
];
/** The first request goes on, and each further request is held for another hour. */
const paced: Policy[] = [
  { name: 'paced', algorithm: 'leaky-bucket', limit: 1, window: '1h', burst: 1, maxDelay: '10h' },
];
const WAITERS_SLOTS = 2;
const MAX_WAITING = 100;

/** The expected warnings, once per process: stores go down, and some apps count by dimensions that many requests lack. */
const TRUE_WARNINGS = new Set<string | undefined>(['HEADGATE_STORE_DOWN', 'HEADGATE_NEVER_A_KEY']);

/** The faults that break connections. */
const BREAKS_CONNECTIONS =
  /^(connections|killed|loading|a password|a server is killed|a server's connections)/;

/** The counts of the soak. `broken` are broken promises, as text. */
export interface Counts {
  rounds: number;
  faults: number;
  decisions: number;
  requests: number;
  degraded: number;
  doubled: number;
  lost: number;
  unresolved: number;
  leakedSlots: number;
  leakedTurns: number;
  /** Turns whose give-back was on its way when the connection broke. Such a give-back may have run, so it is not sent again. */
  unknownTurns: number;
  leakedWaiters: number;
  overAdmissions: number;
  unhandledRejections: number;
  warnings: number;
  heapGrowth: number;
  readonly broken: string[];
}

/** The store's answers for a key, and the requests with them. */
interface Told {
  asked: number;
  admitted: number;
  degraded: number;
  /** Admitted requests that have not ended. */
  readonly underWay: Set<ResponseEnd<ServerResponse>>;
}

/** An app with hostile clients, behind one of the adapters. */
class Site {
  readonly counts: Counts;
  readonly told = new Map<string, Told>();
  readonly pacedKeys = new Map<string, number>();
  /** The last key that had slots held at the end. */
  leaking = '';
  /** Whether the store loses its state, which admits more units than there are. */
  forgets = false;
  readonly #mode: Mode;
  readonly #http2: boolean;
  readonly #limiter: Limiter;
  readonly #pacer: Limiter;
  readonly #waits: Limiter;
  readonly #sockets = new Set<{ destroy(): unknown }>();
  readonly #bodies = new Set<PassThrough>();
  readonly #pending = new Set<Promise<void>>();
  readonly #responses = new WeakMap<object, ServerResponse>();
  #served!: Served;
  #ended = false;
  #made = 0;

  constructor(counts: Counts, store: Store, mode: Mode, http2: boolean) {
    this.counts = counts;
    this.#mode = mode;
    this.#http2 = http2;
    const common = { store, timeout: TIMEOUT, localShare: 0.5 } as const;
    this.#limiter = createLimiter({ ...common, name: 'site', policies: taken, onStoreError: mode });
    this.#pacer = createLimiter({ ...common, name: 'paced', policies: paced, onStoreError: 'deny' });
    this.#waits = createLimiter({
      ...{ ...common, name: 'waits', onStoreError: 'throw', maxWaiting: MAX_WAITING },
      policies: [{ name: 'waits', algorithm: 'concurrency', limit: WAITERS_SLOTS, lease: '1h' }],
    });
  }

  async open(serve: Serve): Promise<void> {
    const limiters: TestOptions[] = [
      {
        limiter: this.#limiter,
        keyGenerator: (req) => field(req, 'x-key'),
        onDecision: (decision, req) => this.#note(decision, req),
      },
      {
        limiter: this.#pacer,
        keyGenerator: (req) => field(req, 'x-paced'),
        onDecision: ({ degraded, key }) => {
          if (degraded) this.pacedKeys.set(key, this.pacedKeys.get(key)! + 1);
        },
      },
    ];
    this.#served = await serve({
      limiters,
      before: (response) => this.#came(response),
      answer: ({ url }) => this.#answer(url),
    });
    this.#served.server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => {}).once('close', () => this.#sockets.delete(socket));
    });
    this.#served.server.on('upgrade', (_request, socket) => socket.on('end', () => socket.end()).resume());
  }

  #came(response: ServerResponse): void {
    this.#responses.set(response.req, response);
    const key = response.req.headers['x-key'] as string | undefined;
    if (key === undefined) return;
    const answers = this.told.get(key);
    if (answers) answers.asked++;
    else this.told.set(key, { asked: 1, admitted: 0, degraded: 0, underWay: new Set() });
  }

  #note({ allowed, degraded, key }: Decision, req: TestRequest): void {
    const answers = this.told.get(key)!;
    this.counts.decisions++;
    if (degraded) {
      answers.degraded++;
      this.counts.degraded++;
    } else if (allowed) {
      answers.admitted++;
      const response = this.#responses.get('raw' in req ? (req.raw as object) : req)!;
      const { underWay } = answers;
      const ended = (): unknown => underWay.delete(ending);
      const ending: ResponseEnd<ServerResponse> = new ResponseEnd(nodeResponse, response, () =>
        queueMicrotask(ended),
      );
      underWay.add(ending);
      const size = [...underWay].filter((each) => !each.look()).length;
      if (!this.forgets && size > SLOTS) {
        this.counts.overAdmissions++;
        this.counts.broken.push(`${size} of ${key} at a time`);
      }
    }
  }

  #answer(url: string) {
    if (url === '/?hang') return new Promise<never>(() => {});
    if (url === '/?long') return { body: LONG };
    if (url !== '/?begin') return {};
    const body = new PassThrough();
    body.write('begun');
    this.#bodies.add(body);
    body.once('close', () => this.#bodies.delete(body));
    return { body };
  }

  /** Starts clients of every kind, which go on until `end`. */
  start(): void {
    const hostile = this.#http2 ? () => this.#resetStreams() : () => this.#hangUp();
    for (let i = 0; i < 8; i++) this.#repeat(hostile);
    for (let i = 0; i < 4; i++) this.#repeat(() => this.#wait());
    if (this.#http2) return;
    this.#repeat(() => this.#flood());
    for (let i = 0; i < 3; i++) this.#repeat(() => this.#askPolitely());
  }

  #repeat(act: () => Promise<void>): void {
    const go = async (): Promise<void> => {
      while (!this.#ended) {
        await act();
        await sleep(Math.random() * 30);
      }
    };
    const going = go();
    this.#pending.add(going);
    void going.catch((error: unknown) => this.counts.broken.push(`a client of the soak: ${String(error)}`));
  }

  /** Keys that several clients share, keys of a single client, and keys whose requests are held. */
  #fields(): Record<string, string> {
    const i = Math.floor(Math.random() * 5);
    if (Math.random() < 0.3) {
      const key = `paced-${i}-${this.#made++ >> 5}`;
      if (!this.pacedKeys.has(key)) this.pacedKeys.set(key, 0);
      return { 'x-paced': key };
    }
    return { 'x-key': Math.random() < 0.5 ? `shared-${i}` : `own-${this.#made++}` };
  }

  async #connect(): Promise<Socket> {
    const socket = connect({ port: this.#served.port, host: '127.0.0.1' }).on('error', () => {});
    await Promise.race([once(socket, 'connect'), once(socket, 'close'), sleep(PATIENCE_MS)]);
    return socket;
  }

  async #hangUp(): Promise<void> {
    const fields = Object.entries(this.#fields()).map(([name, value]) => `${name}: ${value}`);
    const { text, n } = pick(Object.values(sent(...fields)));
    this.counts.requests += n;
    const socket = await this.#connect();
    socket.write(text);
    await sleep(Math.random() * 60);
    pick(Object.values(endings))(socket);
    await sleep(Math.random() * 20);
    socket.destroy();
  }

  async #flood(): Promise<void> {
    const socket = await this.#connect();
    const asked = Array.from({ length: 50 }, () => get('/', `x-key: own-${this.#made++}`));
    this.counts.requests += asked.length;
    socket.write(asked.join(''));
    socket.resume();
    await sleep(Math.random() * 100);
    socket.resetAndDestroy();
  }

  async #resetStreams(): Promise<void> {
    const session = connectHttp2(`http://127.0.0.1:${this.#served.port}`).on('error', () => {});
    await Promise.race([once(session, 'connect'), once(session, 'close'), sleep(PATIENCE_MS)]);
    const streams = Array.from({ length: 10 }, () => {
      const path = pick(['/?hang', '/?begin', '/?long', '/']);
      const unfinished = Math.random() < 0.3;
      const head = { ':path': path, ':method': unfinished ? 'POST' : 'GET', 'content-type': 'text/plain' };
      const stream = session.request({ ...head, ...this.#fields() }, { endStream: !unfinished });
      if (unfinished) stream.write('begun');
      return stream.on('error', () => {});
    });
    this.counts.requests += streams.length;
    await sleep(Math.random() * 60);
    for (const stream of streams)
      if (Math.random() < 0.7) stream.close(pick([constants.NGHTTP2_CANCEL, constants.NGHTTP2_NO_ERROR]));
    await sleep(Math.random() * 10);
    session.destroy();
  }

  /** Sends a request that must get an answer. */
  async #askPolitely(): Promise<void> {
    this.counts.requests++;
    const asked = request({
      ...{ port: this.#served.port, host: '127.0.0.1', path: '/', agent: false },
      headers: { 'x-key': Math.random() < 0.5 ? 'shared-0' : `own-${this.#made++}` },
    });
    const answered = new Promise<boolean>((resolve) => {
      asked.on('error', () => resolve(false));
      asked.on('response', (response) => {
        response.resume().on('end', () => resolve(true));
        response.on('error', () => resolve(false));
      });
    });
    asked.end();
    if (await within(PATIENCE_MS, answered)) return;
    this.counts.unresolved++;
    this.counts.broken.push('a request without an answer');
    asked.destroy();
  }

  /** Waits for a slot. Some waits are cancelled. */
  async #wait(): Promise<void> {
    const gone = new AbortController();
    const givesUp = Math.random() < 0.3;
    const waited = this.#waits.wait(`waits-${Math.floor(Math.random() * 2)}`, {
      timeout: 300,
      signal: gone.signal,
    });
    this.counts.decisions++;
    if (givesUp) setTimeout(() => gone.abort(), Math.random() * 40);
    const done = waited.then(
      async (decision) => {
        await sleep(Math.random() * 20);
        await decision.release();
        return true;
      },
      (error: unknown) => error instanceof HeadgateError,
    );
    if (await within(PATIENCE_MS, done)) return;
    this.counts.unresolved++;
    this.counts.broken.push('a wait that does not end');
  }

  /** Ends all clients, and checks the remaining state. */
  async end(where: string): Promise<void> {
    const { counts } = this;
    this.#ended = true;
    stage = 'clients end';
    await Promise.all(this.#pending);
    stage = 'what is left is counted';
    for (const socket of this.#sockets) socket.destroy();
    for (const body of this.#bodies) body.destroy();
    const broke = (n: number, what: string): number => {
      if (n > 0) counts.broken.push(`${where}: ${n} ${what}`);
      return n;
    };
    counts.leakedSlots += broke(await this.#leaked(() => this.#slots()), `slots leaked: ${this.leaking}`);
    const turns = await this.#leaked(() => this.#turns());
    if (BREAKS_CONNECTIONS.test(where)) counts.unknownTurns += turns;
    else counts.leakedTurns += broke(turns, 'turns of held requests leaked');
    counts.leakedWaiters += broke(await this.#leaked(() => this.#waiters()), 'waiters leaked');
    await this.#charges(broke);
    stage = 'the app closes';
    await this.#served.close();
    stage = 'the limiters close';
    await Promise.all([this.#limiter.close(), this.#pacer.close(), this.#waits.close()]);
  }

  /** The units that are still taken although there was time to give them back. */
  async #leaked(count: () => Promise<number>): Promise<number> {
    const giveUp = performance.now() + PATIENCE_MS;
    for (;;) {
      const left = await count();
      if (left === 0 || performance.now() > giveUp) return left;
      await sleep(20);
    }
  }

  /** A key's verdict from the store itself, not from this process. */
  async #left(limiter: Limiter, key: string, policy: number): Promise<Verdict> {
    const until = performance.now() + PATIENCE_MS;
    for (;;) {
      const decision = await limiter.peek(key).catch((error: HeadgateError) => error.code);
      if (typeof decision !== 'string' && !decision.degraded) return decision.policies[policy]!;
      if (performance.now() > until) {
        const why = typeof decision === 'string' ? decision : decision.reason;
        throw new Error(`The store does not answer for ${key}: ${why} ${JSON.stringify(limiter.health)}`);
      }
      await sleep(20);
    }
  }

  async #slots(): Promise<number> {
    let held = 0;
    const look = async (limiter: Limiter, key: string, policy: number): Promise<void> => {
      const { limit, remaining } = await this.#left(limiter, key, policy);
      held += limit - remaining;
      if (remaining < limit) this.leaking = `${key}, ${JSON.stringify(limiter.health)}`;
    };
    const keys = [...this.told.keys()];
    for (let i = 0; i < keys.length; i += 20)
      await Promise.all(keys.slice(i, i + 20).map((key) => look(this.#limiter, key, 1)));
    for (const key of ['waits-0', 'waits-1']) await look(this.#waits, key, 0);
    return held;
  }

  /** The first request of each key went on. A degraded answer may have been charged. */
  async #turns(): Promise<number> {
    let sum = 0;
    for (const [key, degraded] of this.pacedKeys) {
      const { resetAfterMs } = await this.#left(this.#pacer, key, 0);
      sum += Math.max(0, Math.ceil(resetAfterMs / HOUR) - 1 - degraded);
    }
    return sum;
  }

  /** Waiting calls that find no room although the queue is empty. */
  async #waiters(): Promise<number> {
    const held: Decision[] = [];
    for (let i = 0; i < 10 * WAITERS_SLOTS; i++) held.push(await this.#waits.wait(`room-${i % 10}`));
    const gone = new AbortController();
    setMaxListeners(0, gone.signal);
    let full = 0;
    const waits = Array.from({ length: MAX_WAITING }, (_, i) =>
      this.#waits.wait(`room-${i % 10}`, { signal: gone.signal }).then(
        (decision) => decision.release(),
        (error: HeadgateError) => {
          if (error.code === 'HEADGATE_QUEUE_FULL') full++;
        },
      ),
    );
    await sleep(20);
    gone.abort();
    await Promise.all(waits);
    await Promise.all(held.map((decision) => decision.release()));
    return full;
  }

  async #charges(broke: (n: number, what: string) => number): Promise<void> {
    const { counts } = this;
    let doubled = 0;
    let lost = 0;
    let over = 0;
    for (const [key, { asked, admitted, degraded }] of this.told) {
      const charged = LIMIT - (await this.#left(this.#limiter, key, 0)).remaining;
      // A request that fails with an error has no decision.
      if (charged > (this.#mode === 'throw' ? asked : admitted + degraded)) doubled++;
      if (!this.forgets && charged < admitted) lost++;
      if (admitted > LIMIT * (this.forgets ? 2 : 1)) over++;
    }
    counts.doubled += broke(doubled, `keys of ${this.#mode} charged more than once a request`);
    counts.lost += broke(lost, `keys of ${this.#mode} charged less than was admitted`);
    counts.overAdmissions += broke(over, `keys of ${this.#mode} admitted more than their limit`);
  }
}

/** A fault, and the client under test. */
interface Setting {
  readonly scene: Breakable;
  readonly client: TestClient;
  end(): Promise<void>;
}

/** The faults of one server of a cluster. */
const clusterFaults = [
  'a server is killed, and restarted empty',
  'a server is stalled, and resumed',
  "a server's connections are refused",
  "a server's connections are cut in mid-reply",
  "a server's replies are held back",
] as const;

type ClientName = keyof typeof clientKinds;

async function oneServer(kind: ServerKind, name: ClientName, fault: string): Promise<Setting> {
  const scene = await scenes[fault]!(kind);
  const client = clientKinds[name](scene.port);
  return {
    scene,
    client,
    async end() {
      client.end();
      await scene.end();
    },
  };
}

async function clusterOf(
  kind: ServerKind,
  name: ClientName,
  fault: (typeof clusterFaults)[number],
): Promise<Setting> {
  const cluster = await startCluster(kind, 3, ['--cluster-require-full-coverage', 'no']);
  const ports = cluster.servers.map(({ port }) => port);
  const proxies = ports.map((port) => new Proxy(port));
  await Promise.all(proxies.map((proxy) => proxy.open()));
  const addresses = Object.fromEntries(
    ports.map((port, i) => [`127.0.0.1:${port}`, { host: '127.0.0.1', port: proxies[i]!.port }]),
  );
  const client = clusterKinds[name](
    proxies.map(({ port }) => port),
    addresses,
  );
  const i = Math.floor(Math.random() * 3);
  const [server, proxy] = [cluster.servers[i]!, proxies[i]!];
  let timer: NodeJS.Timeout | undefined;
  const breakings: Record<typeof fault, Breakable> = {
    'a server is killed, and restarted empty': {
      forgets: true,
      break: () => cluster.kill(i),
      mend: () => cluster.start(i),
    },
    'a server is stalled, and resumed': {
      break: () => server.kill('SIGSTOP'),
      mend: () => server.kill('SIGCONT'),
    },
    "a server's connections are refused": { break: () => proxy.close(), mend: () => proxy.open() },
    "a server's connections are cut in mid-reply": {
      break: async () => void (timer = setInterval(() => proxy.cutNextReply(), 20)),
      mend: async () => clearInterval(timer),
    },
    "a server's replies are held back": {
      break: async () => proxy.hold(),
      mend: async () => proxy.release(),
    },
  };
  return {
    // The keys of a load may be on healthy servers only.
    scene: { ...breakings[fault], mayGoUnnoticed: true },
    client,
    async end() {
      clearInterval(timer);
      client.end();
      for (const each of proxies) await each.close();
      await cluster.stop();
    },
  };
}

const sites: Readonly<Record<string, Serve>> = {
  'Express 4': adapters['Express 4']!.serve,
  'Express 5': adapters['Express 5']!.serve,
  'Fastify 5': adapters['Fastify 5']!.serve,
  'Fastify 5, HTTP/2': serveHttp2,
};

/**
 * Plays round after round, each with a client, a topology, a fault, an adapter and a mode, until the time is over.
 *
 * @param from the number of the first round, to repeat a round
 */
export async function mixed(minutes: number, from: number, told: (line: string) => void): Promise<Counts> {
  const counts: Counts = {
    ...{ rounds: 0, faults: 0, decisions: 0, requests: 0, degraded: 0, doubled: 0, lost: 0 },
    ...{
      unresolved: 0,
      leakedSlots: 0,
      leakedTurns: 0,
      unknownTurns: 0,
      leakedWaiters: 0,
      overAdmissions: 0,
    },
    ...{ unhandledRejections: 0, warnings: 0, heapGrowth: 0 },
    broken: [],
  };
  const listeners = {
    unhandledRejection(reason: unknown) {
      counts.unhandledRejections++;
      counts.broken.push(`unhandled: ${String(reason)}`);
    },
    warning(warning: NodeJS.ErrnoException) {
      if (TRUE_WARNINGS.has(warning.code)) return;
      counts.warnings++;
      counts.broken.push(`warning: ${warning.message}`);
    },
  };
  for (const [event, listener] of Object.entries(listeners)) process.on(event, listener);
  const names = Object.keys(clientKinds) as ClientName[];
  const faults = Object.keys(scenes);
  const heaps: number[] = [];
  const end = performance.now() + minutes * 60_000;
  for (let round = from - 1; performance.now() < end; round++) {
    const name = names[round % names.length]!;
    const turn = Math.floor(round / names.length);
    const isCluster = turn % 2 === 1;
    const nth = Math.floor(turn / 2);
    const kind: ServerKind = nth % 3 === 2 ? 'valkey' : 'redis';
    const clusterFault = clusterFaults[nth % clusterFaults.length]!;
    const fault = isCluster ? clusterFault : faults[nth % faults.length]!;
    const adapter = Object.keys(sites)[(round + turn) % Object.keys(sites).length]!;
    const mode = MODES[(round + nth) % MODES.length]!;
    const where = `${fault} (${name}${isCluster ? ', cluster' : ''}, ${kind}; ${adapter}, ${mode})`;
    const { broken } = counts;
    const before = broken.length;
    const noted = lines.length;
    try {
      const setting = await (isCluster ? clusterOf(kind, name, clusterFault) : oneServer(kind, name, fault));
      try {
        const played = playWith(setting, where, counts, mode, adapter).then(() => true);
        if (!(await within(MAX_ROUND_MS, played))) throw new Error(`the round does not end: ${stage}`);
      } finally {
        await setting.end();
      }
    } catch (error) {
      broken.push(`${where}: ${error instanceof Error ? error.message : String(error)}`);
    }
    counts.rounds++;
    for (const line of lines.splice(noted)) {
      counts.faults++;
      counts.decisions += line.decisions;
      counts.degraded += line.degraded;
    }
    globalThis.gc?.();
    heaps.push(process.memoryUsage().heapUsed);
    const state = broken.length === before ? 'ok  ' : 'FAIL';
    told(`${state} ${round + 1}. ${where}; heap ${megabytes(heaps.at(-1)!)} MB`);
    for (const what of broken.slice(before)) told(`     ${what}`);
    if (counts.rounds % 50 === 0) told(JSON.stringify({ ...counts, broken: broken.length }));
  }
  for (const [event, listener] of Object.entries(listeners)) process.off(event, listener);
  // The first rounds load modules and fill caches.
  const quarter = Math.ceil(heaps.length / 4);
  counts.heapGrowth = Math.min(...heaps.slice(-quarter)) - Math.min(...heaps.slice(quarter, 2 * quarter));
  return counts;
}

/** The current stage of the round, for the error of a round that does not end. */
let stage = '';

async function playWith(
  { scene, client }: Setting,
  where: string,
  counts: Counts,
  mode: Mode,
  adapter: string,
): Promise<void> {
  const prefix = (what: string) => redisStore(client.client, { prefix: what });
  const stores = MODES.map((each) => prefix(`load-${each}`));
  const site = new Site(counts, prefix('site'), mode, adapter.includes('HTTP/2'));
  site.forgets = scene.forgets === true;
  stage = 'the app opens';
  await site.open(sites[adapter]!);
  stage = 'the scene plays';
  site.start();
  try {
    const outcome = await play(scene, stores, client.queued);
    // The outcome is judged after the clients have ended, because they send requests at the same time.
    await site.end(where);
    // The process is never quiet, so the check has more patience.
    await check(where, scene, stores, outcome, 2);
  } catch (error) {
    await site.end(where).catch(() => {});
    throw error;
  }
}

function field({ headers }: TestRequest, name: string): string | undefined {
  return headers[name] as string | undefined;
}

function pick<T>(of: readonly T[]): T {
  return of[Math.floor(Math.random() * of.length)]!;
}

/** Whether a promise is kept within `ms`. */
async function within(ms: number, promised: Promise<boolean>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(false), ms)));
  try {
    return await Promise.race([promised, late]);
  } finally {
    clearTimeout(timer);
  }
}

const megabytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);
