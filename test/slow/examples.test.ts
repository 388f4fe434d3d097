// Every example runs, and behaves as its first lines describe.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { createTRPCClient, httpBatchLink, TRPCClientError } from '@trpc/client';
import { expect } from 'chai';
import { io, type Socket } from 'socket.io-client';
import type { Usage } from 'headgate';
import { WebSocket } from 'ws';
import type { AppRouter } from '../../examples/trpc.js';
import { compilePrograms, programDirectory } from '../support/programs.js';
import { startRest } from '../support/rest-server.js';
import { freePort } from '../support/servers.js';
import { servers } from '../support/shared-servers.js';
import { clients } from '../support/stores.js';

const examples = new URL('../../examples/', import.meta.url);

/** A running example. */
interface Example {
  url: string;
  output: () => string;
  /** Resolves with the exit status of the process. */
  ended: Promise<number | null>;
}

const running: (() => Promise<unknown>)[] = [];

/** The directory with the compiled examples. */
const compiled = programDirectory();

async function compile(): Promise<void> {
  const names = ['', 'compared/'].flatMap((folder) =>
    readdirSync(new URL(folder, examples)).map((name) => folder + name),
  );
  await compilePrograms({
    entryPoints: names.filter((name) => name.endsWith('.ts')).map((name) => `examples/${name}`),
    ...{ outdir: compiled, outbase: 'examples', splitting: true },
  });
}

/** Starts an example on a free port. */
async function run(name: string, env: NodeJS.ProcessEnv = {}): Promise<Example> {
  const port = await freePort();
  const child = spawn(process.execPath, [`${compiled}/${name}.mjs`], {
    env: { ...process.env, PORT: String(port), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  running.push(() => {
    child.kill('SIGTERM');
    return ended;
  });
  return { url: `http://127.0.0.1:${port}`, output: () => output, ended };
}

/** Starts an example and waits until it listens. */
async function serve(name: string, env?: NodeJS.ProcessEnv): Promise<Example> {
  const example = await run(name, env);
  const port = new URL(example.url).port;
  let ended = false;
  void example.ended.then(() => (ended = true));
  while (!example.output().includes(`:${port}`)) {
    if (ended) throw new Error(`${name} has ended: ${example.output()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return example;
}

/** The statuses of `count` consecutive requests. */
async function statuses(count: number, url: string, init?: RequestInit): Promise<number[]> {
  const received: number[] = [];
  for (let i = 0; i < count; i++) received.push((await fetch(url, init)).status);
  return received;
}

/** `count` times `status`. */
const times = (count: number, status: number): number[] => Array<number>(count).fill(status);

const post = (body: object, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { 'Content-Type': 'application/json', ...headers },
  body: JSON.stringify(body),
});

interface Body {
  [name: string]: unknown;
}

const json = async (response: Response): Promise<Body> => (await response.json()) as Body;

describe('examples', function () {
  // Each example starts processes.
  this.timeout(60_000);
  before(compile);
  afterEach(async () => {
    for (const stop of running.splice(0)) await stop();
  });

  for (const kind of ['redis', 'valkey'] as const) {
    for (const name of ['express-redis', 'fastify-redis']) {
      it(`${name}: two processes share a quota in ${kind}`, async () => {
        const env = { REDIS_URL: `redis://127.0.0.1:${servers[kind].port}` };
        const [one, other] = await Promise.all([serve(name, env), serve(name, env)]);
        // The first requests are slow. On a busy machine they can exceed the store's timeout, and are then decided locally.
        for (const { url } of [one, other, one, other]) await statuses(1, url);
        await clients[kind].flushall();
        expect(await statuses(3, one.url)).to.deep.equal(times(3, 200));
        expect(await statuses(3, other.url)).to.deep.equal([200, 200, 429]);
        const denied = await fetch(one.url);
        expect(denied.status).to.equal(429);
        expect(denied.headers.get('RateLimit-Policy')).to.match(/;q=5;w=60$/);
        expect(Number(denied.headers.get('Retry-After'))).to.be.within(1, 66);
      });
    }
  }

  it('per-route', async () => {
    const { url } = await serve('per-route');
    expect(await statuses(6, `${url}/search`)).to.deep.equal([...times(5, 200), 429]);
    expect(await statuses(2, url)).to.deep.equal([200, 200]);
    const exports = await Promise.all([fetch(`${url}/export`), fetch(`${url}/export`)]);
    expect(exports.map(({ status }) => status)).to.have.members([200, 429]);
    const health = await fetch(`${url}/health`);
    expect(health.status).to.equal(200);
    expect(health.headers.has('RateLimit')).to.equal(false);
    const denied = await fetch(`${url}/search`);
    expect(denied.headers.get('Content-Type')).to.equal('application/problem+json');
  });

  describe('compared', () => {
    const start = async (name: string): Promise<string> => {
      await clients.redis.flushall();
      const { url } = await serve(`compared/${name}`, {
        REDIS_URL: `redis://127.0.0.1:${servers.redis.port}`,
      });
      return url;
    };

    for (const library of ['headgate', 'flexible']) {
      it(`tokens-${library}: a request that is denied for its tokens is not charged as a request`, async () => {
        const url = await start(`tokens-${library}`);
        const ask = (maxTokens: number) => statuses(1, `${url}/complete`, post({ maxTokens }));
        expect(await ask(6000)).to.deep.equal([200]);
        expect([...(await ask(9990)), ...(await ask(9990))]).to.deep.equal([429, 429]);
        const otherStatuses = await statuses(5, `${url}/complete`, post({ maxTokens: 6000 }));
        expect(otherStatuses).to.deep.equal([...times(4, 200), 429]);
      });

      it(`reports-${library}: two at a time, five in line, further requests are denied`, async () => {
        const url = await start(`reports-${library}`);
        const answers = await Promise.all(Array.from({ length: 9 }, () => fetch(`${url}/report`)));
        expect(answers.map(({ status }) => status).sort()).to.deep.equal([...times(7, 200), 503, 503]);
      });
    }

    for (const library of ['headgate', 'express']) {
      it(`customer-${library}: one customer has ten times the burst`, async () => {
        const url = await start(`customer-${library}`);
        const [ada, bob] = ['ada', 'bob'].map((user) => ({ headers: { 'X-User': user } }));
        expect(await statuses(6, url, ada)).to.deep.equal([...times(5, 200), 429]);
        expect(await statuses(6, url, bob)).to.deep.equal([...times(5, 200), 429]);
        await fetch(`${url}/customers/ada/limit`, { method: 'PUT' });
        expect(await statuses(40, url, ada)).to.deep.equal(times(40, 200));
        expect(await statuses(1, url, bob)).to.deep.equal([429]);
      });
    }

    it('have the number of lines that the page states', () => {
      const page = readFileSync(new URL('../../docs/migrating.md', import.meta.url), 'utf8');
      const stated = [...page.matchAll(/\[(\d+)\]\(\.\.\/examples\/(compared\/[\w-]+\.ts)\)/g)];
      const isCode = (line: string): boolean => !/^\s*(\/\/|$)/.test(line);
      const counts = stated.map(([, , file]) => {
        const lines = readFileSync(new URL(file!, examples), 'utf8').split('\n');
        return `${file} ${lines.filter(isCode).length}`;
      });
      expect(counts).to.have.length(6);
      expect(stated.map(([, lines, file]) => `${file} ${lines}`)).to.deep.equal(counts);
    });
  });

  it('queue: two reports at a time, five in line, further reports are denied', async () => {
    const { url } = await serve('queue');
    const answers = await Promise.all(Array.from({ length: 9 }, () => fetch(`${url}/report`)));
    expect(answers.map(({ status }) => status).sort()).to.deep.equal([...times(7, 200), 503, 503]);
  });

  it('queue: a report stops when its client disconnects, because its slot is free', async () => {
    const { url, output } = await serve('queue');
    const leave = new AbortController();
    const report = fetch(`${url}/report`, { signal: leave.signal }).catch((error: Error) => error.name);
    await new Promise((resolve) => setTimeout(resolve, 50));
    leave.abort();
    expect(await report).to.equal('AbortError');
    for (let i = 0; i < 100 && !output().includes('Stopped'); i++)
      await new Promise((resolve) => setTimeout(resolve, 20));
    expect(output()).to.match(/Stopped at page [23]/);
  });

  it('mcp: the SDK’s client gets denials as results, by tool, by session and by client', async () => {
    const { url } = await serve('mcp');
    const open = async () => {
      const client = new Client({ name: 'test', version: '1.0.0' });
      await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
      running.push(() => client.close());
      return async (name: string) => {
        const { isError, content, _meta } = await client.callTool({ name });
        const [{ text }] = content as [{ text: string }];
        if (isError) expect(_meta?.['headgate/retryAfterMs']).to.be.within(1, 66_000);
        return text;
      };
    };
    const call = await open();
    for (let i = 0; i < 3; i++) expect(await call('search')).to.equal('found');
    expect(await call('search')).to.match(/^Too many calls \(tool\)\. Call again in \d+ s\.$/);
    // The client has 27 of 30 left, and a report costs 10. A new session does not reset the client's quota.
    expect([await call('report'), await call('report')]).to.deep.equal(['built', 'built']);
    const again = await open();
    expect(await again('report')).to.match(/^Too many calls \(client\)/);
    expect((await fetch(`${url}/mcp`, { headers: { 'Mcp-Session-Id': 'of-nobody' } })).status).to.equal(404);
  });

  it('trpc: its client gets TOO_MANY_REQUESTS and the time to wait, also within a batch', async () => {
    const { url } = await serve('trpc');
    const trpc = createTRPCClient<AppRouter>({ links: [httpBatchLink({ url })] });
    expect(await Promise.all([trpc.hello.query(), trpc.report.query()])).to.deep.equal(['hello', 'built']);
    const [denied, allowed] = await Promise.allSettled([trpc.report.query(), trpc.hello.query()]);
    expect(allowed.status).to.equal('fulfilled');
    const error = (denied as PromiseRejectedResult).reason as TRPCClientError<AppRouter>;
    expect(error).to.be.instanceOf(TRPCClientError);
    expect(error.data).to.include({ code: 'TOO_MANY_REQUESTS', httpStatus: 429 });
    expect(error.data?.retryAfterMs).to.be.within(1, 12_000);
    const { status, headers } = await fetch(`${url}/report`);
    expect(status).to.equal(429);
    expect(Number(headers.get('Retry-After'))).to.be.within(1, 12);
  });

  it('socket-io: events of a user over all sockets, and connections of an address', async () => {
    const { url } = await serve('socket-io');
    const connect = (): Socket => {
      const socket = io(url, { auth: { user: 'ada' }, forceNew: true, reconnection: false });
      running.push(async () => socket.close());
      return socket;
    };
    const [one, other] = [connect(), connect()];
    expect(await one.emitWithAck('upload', 'data')).to.deep.equal({ stored: true });
    expect(await other.emitWithAck('say', 'hello')).to.deep.equal({ said: 'hello' });
    const denied = (await other.emitWithAck('upload', 'data')) as Body;
    expect(denied).to.include({ error: 'Too many events', reason: 'quota-exceeded' });
    expect(denied.retryAfterMs).to.be.within(1, 6000);
    const denial = new Promise<Body>((resolve) => one.once('denied', resolve));
    one.emit('upload', 'data');
    expect(await denial).to.include({ event: 'upload' });
    const third = connect();
    await new Promise<void>((resolve) => third.once('connect', resolve));
    const refused = await new Promise<Error & { data?: Body }>((resolve) => {
      const fourth = connect();
      fourth.once('connect', () => resolve(new Error('connected')));
      fourth.once('connect_error', resolve);
    });
    expect(refused.message).to.equal('Too many connections');
    expect(refused.data?.retryAfterMs).to.be.within(1, 66_000);
  });

  it('tiers', async () => {
    const { url } = await serve('tiers');
    const as = (key: string): RequestInit => ({ headers: { 'X-API-Key': key } });
    expect(await statuses(3, url)).to.deep.equal([200, 200, 429]);
    expect(await statuses(1, url, as('unknown'))).to.deep.equal([429]);
    expect(await statuses(6, url, as('key-of-bob'))).to.deep.equal([...times(5, 200), 429]);
    expect(await statuses(8, url, as('key-of-ada'))).to.deep.equal(times(8, 200));
    expect((await fetch(url, as('key-of-ada'))).headers.get('RateLimit-Policy')).to.contain(
      '"minute";q=1000;w=60',
    );
  });

  it('prometheus', async () => {
    const { url } = await serve('prometheus');
    expect(await statuses(7, url)).to.deep.equal(times(7, 200));
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).to.match(
      /headgate_decisions_total\{.*headgate_limiter="api".*headgate_outcome="allowed".*\} 7/,
    );
    expect(metrics).to.match(/headgate_shadow_denials_total\{.*policy="burst".*\} 2/);
  });

  it('several-policies', async () => {
    const { url } = await serve('several-policies');
    const first = await fetch(`${url}?items=3`);
    expect(first.status).to.equal(200);
    expect(first.headers.get('RateLimit')).to.match(/^"burst";r=2;t=\d+, "hour";r=17;t=\d+$/);
    const denied = await fetch(`${url}?items=5`);
    expect(denied.status).to.equal(429);
    expect(await json(denied)).to.deep.include({ 'violated-policies': ['burst'] });
    // The denied request was charged in neither policy.
    expect((await fetch(`${url}?items=1`)).headers.get('RateLimit')).to.contain('"hour";r=16');
  });

  for (const name of ['per-account', 'per-account-fastify']) {
    it(name, async () => {
      const { url } = await serve(name);
      const as = (account: string) => ({ headers: { Authorization: `token-of-${account}` } });
      const first = await fetch(`${url}/a`, as('ada'));
      expect(await first.json()).to.deep.equal([
        { name: 'address-minute', key: '127.0.0.1', remaining: 299 },
        { name: 'address-burst', key: '127.0.0.1', remaining: 99 },
        { name: 'page-minute', key: '/a', remaining: 299 },
        { name: 'page-burst', key: '/a', remaining: 99 },
        { name: 'account-minute', key: 'ada', remaining: 299 },
        { name: 'account-burst', key: 'ada', remaining: 99 },
      ]);
      const answers = await Promise.all(
        times(110, 0).map((_, i) => fetch(`${url}/page-${i % 3}`, as('bob'))),
      );
      const denied = answers.filter(({ status }) => status === 429);
      // However slow the machine is, at most the burst is admitted within its window.
      expect(denied.length).to.be.at.least(1);
      expect(await json(denied[0]!)).to.deep.include({ 'violated-policies': ['address-burst'] });
      const anonymous = (await fetch(`${url}/b`)).headers.get('RateLimit-Policy');
      expect(anonymous).to.contain('"page-burst"').and.not.contain('account');
    });
  }

  for (const name of ['usage', 'usage-fastify']) {
    it(name, async () => {
      const { url } = await serve(name);
      const headers = { 'x-api-key': 'key-of-ada', Accept: 'application/json' };
      const first = await fetch(url, { headers });
      expect(first.headers.get('RateLimit')).to.contain('"minute";r=59').and.contain('"month";r=9999');
      const usage = (await json(await fetch(`${url}/usage`, { headers }))) as unknown as Usage;
      expect(usage.policies.map((policy) => [policy.name, policy.used, policy.remaining])).to.deep.equal([
        ['minute', 1, 59],
        ['month', 1, 9999],
      ]);
      const page = await fetch(`${url}/usage`, { headers: { ...headers, Accept: 'text/html' } });
      expect(page.headers.get('Content-Type')).to.contain('text/html');
      expect(await page.text()).to.contain('1 requests used, 59 left');
    });
  }

  it('threshold-mails: a mail for each threshold, once', async () => {
    const { url } = await serve('threshold-mails');
    const mails = async () => (await (await fetch(`${url}/mails`)).json()) as string[];
    const ask = (times: number) =>
      Promise.all(Array.from({ length: times }, () => fetch(url, { headers: { 'x-api-key': 'ada' } })));
    await ask(7);
    expect(await mails()).to.deep.equal([]);
    await ask(6);
    const month = new Date().toISOString().slice(0, 7);
    expect(await mails()).to.deep.equal([
      `ada: 8 of 10 requests of ${month} are used (80 %).`,
      `ada: 10 of 10 requests of ${month} are used (100 %).`,
    ]);
    await ask(2);
    expect(await mails()).to.have.length(2);
  });

  it('without-http', async () => {
    const { ended, output } = await run('without-http');
    expect(await ended).to.equal(0);
    expect(output().trim().split('\n')).to.deep.equal([
      'ada report: done, 2 remaining',
      'ada broken: failed, given back',
      'ada import: done, 0 remaining',
      'ada report: denied (quota-exceeded), again in 66 s',
      'ada huge: denied (cost-exceeds-capacity), again never',
      'bob report: done, 2 remaining',
      'ada has 0 remaining',
      'ada report: done, 2 remaining',
    ]);
  });

  it('map-store', async () => {
    const { ended, output } = await run('map-store');
    expect(await ended).to.equal(0);
    expect(output().trim().split('\n')).to.deep.equal([
      'request 1: admitted, 1 left',
      'request 2: admitted, 0 left',
      'request 3: denied, 0 left',
    ]);
  });

  it('login-lockout', async () => {
    const { url } = await serve('login-lockout');
    const login = `${url}/login`;
    const attempt = (email: string, password: string, cookie?: string) => {
      const { headers, ...rest } = post({ email, password });
      return { ...rest, headers: { ...(headers as Record<string, string>), ...(cookie && { cookie }) } };
    };
    const [ada, guess] = [attempt('ada@example.org', 'correct horse'), attempt('ada@example.org', 'guess')];
    const first = await fetch(login, ada);
    expect(first.status).to.equal(200);
    const cookie = first.headers.get('set-cookie')!.split(';')[0]!;
    expect(await statuses(4, login, ada)).to.deep.equal(times(4, 200));
    expect(await statuses(7, login, guess)).to.deep.equal([...times(5, 401), 429, 429]);

    // Ada's account is locked only for devices without her cookie.
    const knownDevice = attempt('ADA@example.org', 'correct horse', cookie);
    expect(await statuses(2, login, knownDevice)).to.deep.equal([200, 200]);
    // The cookie proves the device for Ada's account, and not for Bob's.
    expect(await statuses(6, login, attempt('bob@example.org', 'guess', cookie))).to.deep.equal([
      ...times(5, 401),
      429,
    ]);

    // The address has used 13 of its 20 attempts, including attempts at locked accounts. Further attempts ban the address, and no other.
    const further = await statuses(28, login, guess);
    expect(further).to.deep.equal(times(28, 429));
    const banned = await fetch(login, guess);
    expect(await json(banned))
      .to.have.property('type')
      .that.contains('abnormal-usage-detected');
    expect(Number(banned.headers.get('Retry-After'))).to.be.within(3500, 3600);
  });

  it('token-budget', async () => {
    const { url } = await serve('token-budget');
    const complete = (account: string, maxTokens: number) =>
      fetch(
        `${url}/complete`,
        post({ prompt: 'Hello', maxTokens }, { Authorization: `token-of-${account}` }),
      );
    // The first requests reserve 9,005 of 10,000 tokens and use 8, so the next request has room.
    for (let i = 0; i < 3; i++) {
      const answer = await complete('ada', 9_000);
      expect(await answer.text()).to.match(/^(data: \{"text":"\w+:? "\}\n\n){3}data: \{"used":8\}\n\n$/);
    }
    const tooMuch = await complete('ada', 10_000);
    expect(tooMuch.status).to.equal(429);
    expect(tooMuch.headers.get('RateLimit-Policy')).to.match(
      /^"account";q=10000;w=3600;qu="tokens", "org";q=20000;w=3600;qu="tokens", "month";q=500000;w=\d+;qu="tokens"$/,
    );
    expect(await json(tooMuch)).to.deep.include({ 'violated-policies': ['account'] });
    expect((await complete('eve', 1)).status).to.equal(401);
    // A client that disconnects pays for the tokens used until then, and no more.
    const gone = new AbortController();
    const abandoned = await fetch(`${url}/complete`, {
      ...post({ prompt: 'a '.repeat(500), maxTokens: 9_000 }, { Authorization: 'token-of-bob' }),
      signal: gone.signal,
    });
    gone.abort();
    await abandoned.text().catch(() => undefined);
    let status = 429;
    while (status !== 200) ({ status } = await complete('bob', 8_000));
  });

  for (const name of ['tokens-and-requests', 'tokens-and-requests-web']) {
    it(`${name}: reserved tokens that were not used come back, and either policy can deny`, async () => {
      const { url } = await serve(name);
      const complete = (user: string, ask: object, init: RequestInit = {}) =>
        fetch(`${url}/complete`, { ...post(ask, { Authorization: `token-of-${user}` }), ...init });
      const small = { prompt: 'Hello', maxTokens: 1000 };
      const first = await complete('ada', small);
      expect(first.headers.get('RateLimit-Policy') ?? '"tokens"').to.contain('"tokens"');
      expect(await first.text()).to.match(/^(data: \{"text":"\w+:? "\}\n\n){3}data: \{"used":8\}\n\n$/);
      for (let i = 0; i < 4; i++) await (await complete('ada', small)).text();
      const denied = await complete('ada', small);
      expect(denied.status).to.equal(429);
      expect(await json(denied)).to.deep.include({ 'violated-policies': ['requests'] });
      expect(Number(denied.headers.get('Retry-After'))).to.be.within(1, 13);
      // Five requests reserve all 10,000 tokens of a user. The remaining users are not affected.
      const large = { prompt: 'a'.repeat(1000), maxTokens: 1000 };
      const all = await Promise.all(Array.from({ length: 5 }, () => complete('bob', large)));
      for (const { status } of all) expect(status).to.equal(200);
      await Promise.all(all.map((answer) => answer.text()));
      // A client that disconnects pays for the tokens used until then, and no more.
      const gone = new AbortController();
      const long = { prompt: 'a '.repeat(450), maxTokens: 1000 };
      const abandoned = await complete('eve', long, { signal: gone.signal });
      gone.abort();
      await abandoned.text().catch(() => undefined);
      for (let i = 0; i < 4; i++) expect((await complete('eve', small)).status).to.equal(200);
    });
  }

  it('token-budget-hour: docs/token-budgets.md quotes the output, and no budget is exceeded', async () => {
    const { ended, output } = await run('token-budget-hour');
    expect(await ended).to.equal(0);
    const lines = output().trim().split('\n');
    expect(lines).to.have.length(3);
    for (const line of lines) expect(line).to.match(/, above a budget: 0$/);
    const page = readFileSync(new URL('../docs/token-budgets.md', examples), 'utf8');
    const parts =
      /^reserved: (.*), complete: (\d+), cut off: (\d+), .*, idle on average: (.*), at most: (.*), above/;
    const quoted = lines.map((line) => {
      const [, reserved, complete, cutOff, average, most] = parts.exec(line)!;
      const way = reserved === 'all' ? 'all at once' : `${reserved} tokens`;
      return `- reserved ${way}: ${average} on average, ${most} at most; ${cutOff} of ${complete} answers cut off\n`;
    });
    expect(page).to.contain(quoted.join(''));
  });

  it('graphql-cost', async () => {
    const { url } = await serve('graphql-cost');
    const ask = async (query: string) => json(await fetch(`${url}/graphql`, post({ query })));
    expect(await ask('{ books(first: 3) { title author { name } } }')).to.deep.equal({
      data: { books: [{ title: 'Notes', author: { name: 'Ada' } }] },
      extensions: { cost: { requested: 10, remaining: 90 } },
    });
    expect(await ask('{ books(first: 100) { title } }')).to.have.nested.property(
      'errors[0].message',
      'Ask for less',
    );
    expect(await ask('{ books(first: 85) { title } }')).to.have.nested.property(
      'extensions.cost.remaining',
      4,
    );
    expect(await ask('{ books { title } }')).to.have.nested.property(
      'errors[0].message',
      'Too many requests',
    );
    expect(await ask('{ nonsense'))
      .to.have.nested.property('errors[0].message')
      .that.contains('Syntax Error');
  });

  it('websocket', async () => {
    const { url } = await serve('websocket');
    const socket = new WebSocket(`${url.replace('http', 'ws')}/?user=ada`);
    const answers: Body[] = [];
    socket.on('message', (data: Buffer) => answers.push(JSON.parse(data.toString()) as Body));
    await new Promise((resolve) => socket.once('open', resolve));
    const closed = new Promise<number>((resolve) => socket.once('close', resolve));
    for (let i = 0; i < 100; i++) socket.send(`message ${i}`);
    expect(await closed).to.equal(1008);
    expect(answers.slice(0, 5).map(({ echo }) => echo)).to.deep.equal(
      [0, 1, 2, 3, 4].map((i) => `message ${i}`),
    );
    expect(answers.filter(({ denied }) => denied === 'quota-exceeded')).to.not.have.length(0);
  });

  it('webhooks: spaced, none lost', async () => {
    let arrived = 0;
    const receiver: Server = createServer((_req, res) => {
      arrived += 1;
      res.end();
    });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    const { port } = receiver.address() as AddressInfo;
    const { ended, output } = await run('webhooks', { WEBHOOK_URL: `http://127.0.0.1:${port}/hook` });
    const status = await ended;
    await new Promise((resolve) => receiver.close(resolve));
    expect(status, output()).to.equal(0);
    expect(arrived).to.equal(6);
    // The sixth delivery left five intervals of 200 ms after the first.
    const after = output()
      .match(/(?<=after )\d+/g)
      ?.map(Number);
    expect(Math.max(...(after ?? []))).to.be.at.least(1000);
  });

  it('upstash', async () => {
    const rest = await startRest(clients.redis);
    try {
      const env = { UPSTASH_REDIS_REST_URL: rest.url, UPSTASH_REDIS_REST_TOKEN: rest.token };
      const processes = [await serve('upstash', env), await serve('upstash', env)];
      const from = (ip: string, i: number) => fetch(processes[i % 2]!.url, { headers: { 'x-real-ip': ip } });
      const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => from('192.0.2.1', i)));
      expect(answers.filter(({ status }) => status === 200)).to.have.length(5);
      expect(answers.filter(({ status }) => status === 429)).to.have.length(7);
      expect((await from('192.0.2.2', 0)).headers.get('RateLimit')).to.match(/^"api";r=4;t=\d+$/);
    } finally {
      await rest.close();
    }
  });

  for (const name of ['koa', 'hono', 'web', 'node-http']) {
    it(name, async () => {
      const { url } = await serve(name);
      expect(await statuses(5, url)).to.deep.equal(times(5, 200));
      const denied = await fetch(url);
      expect(denied.status).to.equal(429);
      expect(denied.headers.get('Content-Type')).to.equal('application/problem+json');
      expect(denied.headers.get('Retry-After')).to.match(/^\d+$/);
      expect(denied.headers.get('RateLimit')).to.match(/^"default";r=0;t=\d+$/);
      expect(await json(denied)).to.deep.include({ status: 429, 'violated-policies': ['default'] });
      // A header that earlier middleware has set stays.
      if (name === 'hono') expect(denied.headers.get('Access-Control-Allow-Origin')).to.equal('*');
    });
  }
});
