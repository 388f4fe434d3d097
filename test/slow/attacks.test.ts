// Attacks every sample of the docs: forged fields, missing fields, bodies of any shape, handlers that throw. A sample holds its limit, and
// never answers 500.
import { expect } from 'chai';
import sinon from 'sinon';
import { fieldsOf, samples, type Sample } from './attacks/samples.js';
import { compileSamples, runSample } from './attacks/stand-ins.js';
import { CLIENT, Handlers, targetsOf, type Received, type Sent, type Target } from './attacks/targets.js';

/** Samples that the test cannot attack, each with a part of its code and the reason. */
const NOT_ATTACKED: readonly { page: string; code: string; reason: string }[] = [
  {
    page: 'examples/cluster-sqlite.ts',
    code: 'cluster.fork()',
    reason: 'starts processes; examples.test.ts runs it',
  },
  {
    page: 'docs/dashboard.md',
    code: 'headgate-dashboard',
    reason: 'no limiter: the dashboard, behind a login',
  },
  {
    page: 'packages/dashboard/README.md',
    code: 'headgate-dashboard',
    reason: 'no limiter: the dashboard, behind a login',
  },
  { page: 'docs/extending.md', code: 'createFlow', reason: 'an adapter, whose options a program chooses' },
  { page: 'docs/extending.md', code: 'adapterChecks', reason: 'a test of an adapter' },
  {
    page: 'docs/agents.md',
    code: 'env: Env',
    reason: 'a Worker, which makes its limiter at the first request; serverless.md has the same limiter',
  },
  {
    page: 'docs/nestjs.md',
    code: 'class ShopController',
    reason: 'a controller without its module: nest tests run it',
  },
  {
    page: 'docs/serverless.md',
    code: 'requestContext',
    reason: 'a function of Lambda, whose event has the address',
  },
  {
    page: 'docs/testing-your-app.md',
    code: 'exports.createApp',
    reason: 'a function that the programs in test/slow/runners call',
  },
  {
    page: 'examples/frameworks/grpc.mjs',
    code: '@grpc/grpc-js',
    reason: 'gRPC without fields: the key is the connection, see frameworks.test.ts',
  },
  { page: 'examples/mcp.ts', code: 'McpServer', reason: 'calls of MCP: examples.test.ts sends them' },
  {
    page: 'examples/trpc.ts',
    code: 'createHTTPServer',
    reason: 'calls of tRPC: examples.test.ts sends them',
  },
  {
    page: 'examples/socket-io.ts',
    code: 'io.use',
    reason: 'events of socket.io: examples.test.ts sends them',
  },
  {
    page: 'examples/websocket.ts',
    code: 'WebSocketServer',
    reason: 'messages of WebSockets: examples.test.ts sends them',
  },
];

/** Routes without a limit, each with the reason. */
const OPEN: Readonly<Record<string, string>> = {
  'docs/kubernetes.md /livez': 'a probe',
  'docs/kubernetes.md /readyz': 'a probe',
  'examples/usage.ts /usage': 'a customer whose quota is spent can still look',
  'examples/usage-fastify.ts /usage': 'a customer whose quota is spent can still look',
  'examples/per-route.ts /health': 'a probe',
  'examples/prometheus.ts /metrics': 'metrics for Prometheus',
  'examples/threshold-mails.ts /mails': 'shows what was sent',
  'examples/compared/customer-headgate.ts /customers/1/limit': 'for operators',
};

/** Requests that a sample holds, and sends later instead of denying them. */
const HELD: Readonly<Record<string, number>> = { 'docs/migrating/express-slow-down.md': 5 };

/** Programs that refuse visitors without a login with 401. In other programs, 401 is a wrong password. */
const LOGIN_FIRST = ['examples/token-budget.ts'];

/** Statuses of requests that are not admitted. */
const REFUSED = new Set([400, 403, 413, 415, 422, 429, 503]);

/** The largest quota that is spent entirely. A policy with a larger one is not the one that a sample is about. */
const LARGEST_QUOTA = 1500;

/** Fields that applications often trust. */
const FIELDS = [
  ...['forwarded', 'x-real-ip', 'x-client-ip', 'true-client-ip', 'cf-connecting-ip', 'fly-client-ip'],
  ...['authorization', 'x-api-key', 'x-user', 'x-tenant', 'x-plan', 'idempotency-key', 'user-agent'],
];

const QUERIES = [
  'sid=1',
  'x=sid=',
  'items=0',
  'items=x',
  'cost=0',
  'cost=-1',
  'key=user:monitoring',
  'items=1&items=2',
];

const BODY_FIELDS = [
  'user',
  'email',
  'name',
  'password',
  'prompt',
  'maxTokens',
  'tokens',
  'cost',
  'query',
  'id',
];
const VALUES = [
  undefined,
  null,
  0,
  -1,
  1e300,
  true,
  [],
  ['ada'],
  {},
  { length: -500 },
  '',
  'ada',
  'x'.repeat(3000),
];
const BODIES: readonly string[] = [
  ...['{}', '[]', 'null', '"text"', '{', '{"__proto__":{"user":"ada"}}', '{"constructor":{"prototype":{}}}'],
  ...VALUES.map((value) => JSON.stringify(Object.fromEntries(BODY_FIELDS.map((field) => [field, value])))),
];

/** The value of a field that a proxy or a gateway sets, the same for all requests of the client. */
const statedValue = (field: string): string => (/ip|forwarded|addr/.test(field) ? CLIENT : 'ada');

/** The requests of one client, who tries to get a fresh quota with each. The first two are as a browser sends them. */
function* requestsTo({ method, path }: Target, sample: Sample): Generator<Sent> {
  const fields = fieldsOf(sample);
  const stated = [...fields].filter(([, isStated]) => isStated).map(([name]) => name);
  const chosen = [...fields.keys(), ...FIELDS].filter((name) => !stated.includes(name));
  const behindProxy: Record<string, string> = { 'x-forwarded-for': CLIENT };
  for (const name of stated) behindProxy[name] = statedValue(name);
  for (let i = 0; ; i++) {
    const forged = `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`;
    const headers = { ...behindProxy };
    const hasBody = method !== 'GET' && i >= 2;
    const attack = i < 2 ? 0 : i % 4;
    if (hasBody) headers['content-type'] = 'application/json';
    if (attack === 1 || attack === 3) {
      headers['x-forwarded-for'] = `${forged}, ${CLIENT}`;
      const value =
        attack === 1 ? `${forged}` : ['pro', 'enterprise', 'admin', 'user:monitoring', 'x\u00e9'][i % 5]!;
      for (const name of chosen) if (name !== 'x-forwarded-for') headers[name] = value;
    }
    const query =
      attack === 2 ? `${path.includes('?') ? '&' : '?'}${QUERIES[(i >> 2) % QUERIES.length]}` : '';
    const body = hasBody && i % 3 !== 0 ? BODIES[i % BODIES.length] : undefined;
    yield { method, path: path + query, headers, body };
  }
}

/** The units left by a response's fields, by policy. Slots of a concurrency policy are not counted, because they are free again. */
function remainingOf({ headers }: Received): ReadonlyMap<string, number> {
  const left = new Map<string, number>();
  for (const [, name, units] of (headers['ratelimit'] ?? '').matchAll(/"([^"]*)"; ?r=(\d+)/g))
    if (new RegExp(`"${name}"; ?q=\\d+[^,]*; ?w=`).test(headers['ratelimit-policy'] ?? ''))
      left.set(name!, Number(units));
  if (!headers['ratelimit']) {
    const units = headers['ratelimit-remaining'] ?? headers['x-ratelimit-remaining'];
    if (units !== undefined) left.set('', Number(units));
  }
  return left;
}

/** The most requests that the client may send, by its first two responses. */
function boundOf(first: Received, second: Received): number | undefined {
  const [before, after] = [remainingOf(first), remainingOf(second)];
  const bounds = [...before].map(([name, units]) => {
    const cost = Math.max(1, units - (after.get(name) ?? units));
    return Math.ceil(units / cost) + 1;
  });
  if (bounds.length === 0) return undefined;
  const largest = Math.max(...bounds);
  return largest <= LARGEST_QUOTA ? largest : Math.min(...bounds);
}

const isConcurrency = ({ headers }: Received): boolean =>
  /; ?q=\d+/.test(headers['ratelimit-policy'] ?? '') && !/; ?w=/.test(headers['ratelimit-policy']!);

describe('attacks on the samples of the docs', function () {
  this.timeout(20_000);
  const found = samples();
  let files: readonly string[];
  let clock: sinon.SinonFakeTimers;

  before(async () => {
    files = await compileSamples(found);
    clock = sinon.useFakeTimers({ now: Date.UTC(2026, 0, 1), toFake: ['Date'] });
  });
  after(() => clock.restore());

  for (const [i, sample] of found.entries()) {
    const { reason } =
      NOT_ATTACKED.find(({ page, code }) => page === sample.page && sample.code.includes(code)) ?? {};
    if (reason !== undefined) continue;
    it(sample.name, async () => {
      const ends: (() => unknown)[] = [];
      const handlers = new Handlers();
      const listeners = process.listeners('SIGTERM');
      try {
        const { created } = await runSample(files[i]!);
        const targets = await targetsOf(sample, created, handlers, (end) => ends.push(end));
        expect(targets, 'routes').not.to.deep.equal([]);
        for (const target of targets) {
          if (`${sample.page} ${target.path}` in OPEN) continue;
          for (const throws of [false, true]) {
            // All quotas are whole again.
            clock.tick(400 * 86_400_000);
            handlers.throws = throws;
            await attack(sample, target, handlers);
          }
        }
      } finally {
        for (const end of ends) await end();
        for (const listener of process.listeners('SIGTERM'))
          if (!listeners.includes(listener)) process.off('SIGTERM', listener);
      }
    });
  }

  it('leaves out only samples that exist', () => {
    const missing = NOT_ATTACKED.filter(
      ({ page, code }) => !found.some((sample) => sample.page === page && sample.code.includes(code)),
    );
    expect(missing).to.deep.equal([]);
  });
});

/** Sends the requests of a client until its quota must be spent. */
async function attack(sample: Sample, target: Target, handlers: Handlers): Promise<void> {
  const what = `${target.method} ${target.path}`;
  const requests = requestsTo(target, sample);
  const answers: { request: Sent; answer: Received }[] = [];
  const send = async (): Promise<Received> => {
    const request = requests.next().value as Sent;
    const answer = await target.send(request);
    answers.push({ request, answer });
    if (!handlers.throws && answer.status >= 500 && answer.status !== 503)
      throw new Error(`${what} answered ${answer.status} to ${JSON.stringify(request)}`);
    return answer;
  };
  const isLoginFirst = LOGIN_FIRST.includes(sample.page);
  const isAdmitted = ({ answer: { status } }: { answer: Received }): boolean =>
    !REFUSED.has(status) && !(isLoginFirst && status === 401);
  const [first, second] = [await send(), await send()];
  if (isConcurrency(first)) {
    for (let i = 0; i < 5; i++) await send();
    const denied = answers.filter(({ answer }) => answer.status === 429 || answer.status === 503);
    expect(denied, `${what}: slots of ended requests are free again`).to.deep.equal([]);
    return;
  }
  const bound = boundOf(first, second);
  if (bound === undefined) {
    // The handler itself asks the limiter, so it answers no fields.
    if (handlers.throws) return;
    for (let i = 0; i < 300; i++) await send();
    const admitted = answers.filter(isAdmitted);
    expect(admitted.length, `${what}: admitted of 300, without fields`).to.be.at.most(100);
    return;
  }
  // A large quota is spent once: an error of a handler changes nothing that a small quota would not show.
  if (handlers.throws && bound > 100) return;
  for (let i = 0; i < bound + 40; i++) await send();
  const admitted = answers.filter(isAdmitted).length;
  expect(admitted, `${what}: admitted, of ${answers.length}, at a limit of ${bound}`).to.be.at.most(
    bound + (HELD[sample.page] ?? 0),
  );
}
