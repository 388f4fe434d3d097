// All adapters, in memory and on Redis: the checks of headgate-testing, and tests that need more than HTTP. express.test.ts and fastify.test.ts have the
// features of a single framework.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createLimiter, type Decision, type HeadgateError, type Policy, type Store } from 'headgate';
import { adapterChecks } from 'headgate-testing';
import { describeChecks } from '../support/kit.js';
import { stores, TestClock, type CreateStore } from '../support/stores.js';
import {
  adapters,
  type Adapter,
  type Scenario,
  type Served,
  type TestOptions,
  type TestRequest,
} from './apps.js';
import { ask, type Answer, type Ask } from './client.js';
import { dialects } from './dialects.js';
import { around } from '../support/around.js';

/** A policy with simple times: all units are back at the end of the window. */
const minute = (limit: number, name = 'minute'): Policy => ({
  name,
  algorithm: 'fixed-window',
  limit,
  window: '1m',
});

function suite({ serve: serveScenario, sendsBefore }: Adapter, createStore: CreateStore) {
  let clock: TestClock;
  let store: Store;
  let served: Served | undefined;

  beforeEach(() => {
    clock = new TestClock();
    store = createStore(clock.read);
  });
  afterEach(async () => {
    await served?.close();
    served = undefined;
  });

  /** Serves limiters on the test's store. They report every failure of the store, however slow the machine is. */
  async function serve(limiters: TestOptions | TestOptions[], rest: Omit<Scenario, 'limiters'> = {}) {
    const complete = [limiters].flat().map((options: TestOptions, i): TestOptions => {
      if ('limiter' in options) return options;
      return { store, name: `limiter-${i}`, timeout: '1m', onStoreError: 'throw', ...options };
    });
    served = await serveScenario({ limiters: complete, ...rest });
    return served;
  }

  const get = (options?: Ask) => ask(served!.url, options);

  async function statuses(n: number, options?: Ask) {
    const result: number[] = [];
    for (let i = 0; i < n; i++) result.push((await get(options)).status);
    return result;
  }

  describe('policies by several keys', () => {
    const policies = [
      { ...minute(4, 'address') },
      { ...minute(2, 'account'), by: 'account' },
      { ...minute(3, 'org'), by: 'org' },
    ];
    const header = (name: string) => (request: TestRequest) => request.headers[name] as string | undefined;
    const keyGenerator = header('x-key');
    const keys = {
      account: header('x-account'),
      org: async (request: TestRequest) => header('x-org')(request),
    };
    const as = (key: string, account?: string, org?: string): Ask => ({
      headers: { 'x-key': key, ...(account && { 'x-account': account }), ...(org && { 'x-org': org }) },
    });

    it('are one limiter: a denial by one key charges none of the others', async () => {
      await serve({ policies, keyGenerator, keys });
      expect(await statuses(3, as('a', 'ada', 'acme'))).to.deep.equal([200, 200, 429]);
      const denied = await get(as('b', 'ada', 'acme'));
      expect(denied.status).to.equal(429);
      expect(JSON.parse(denied.text)).to.deep.include({ 'violated-policies': ['account'] });
      expect(pick(denied.headers, /^ratelimit$/)).to.deep.equal({
        ratelimit: '"address";r=4;t=60, "account";r=0;t=60, "org";r=1;t=60',
      });
      expect(await statuses(2, as('b', 'bob', 'acme'))).to.deep.equal([200, 429]);
    });

    it('the last charged attempt violates only the policy that denied it', async () => {
      const decisions: Decision[] = [];
      await serve({
        policies: [
          'attempts=fixed-window 4/2m attempts',
          'watch=fixed-window 3/1m attempts shadow',
          'account=fixed-window 2/1m by account',
        ],
        headers: ['draft-6', 'draft-11'],
        keyGenerator,
        keys: { account: keys.account },
        onDecision: (decision) => void decisions.push(decision),
      });
      const answers: Answer[] = [];
      for (let i = 0; i < 5; i++) answers.push(await get(as('a', 'ada')));
      expect(
        decisions.map(({ policy, policies }) => [policy, ...policies.map(({ allowed }) => allowed)]),
      ).to.deep.equal([
        ['account', true, true, true],
        ['account', true, true, true],
        ['account', true, true, false],
        ['account', true, false, false],
        ['attempts', false, false, false],
      ]);
      const violated = answers
        .slice(2)
        .map(({ text }) => (JSON.parse(text) as { 'violated-policies': string[] })['violated-policies']);
      expect(violated).to.deep.equal([['account'], ['account'], ['attempts', 'account']]);
      // A client that returns when the account has units again is denied by the attempts.
      expect(pick(answers[3]!.headers, /^retry-after$|^ratelimit(-limit|-reset)?$/)).to.deep.equal({
        'retry-after': '120',
        'ratelimit-limit': '2',
        'ratelimit-reset': '120',
        ratelimit: '"attempts";r=0;t=120, "account";r=0;t=60',
      });
    });

    it('policies by a key that a request does not have neither apply nor are shown', async () => {
      await serve({ policies, keyGenerator, keys });
      const { headers } = await get(as('a'));
      expect(pick(headers, /^ratelimit-policy$/)).to.deep.equal({ 'ratelimit-policy': '"address";q=4;w=60' });
      expect(await statuses(4, as('a'))).to.deep.equal([200, 200, 200, 429]);
    });

    it('per address, per page and per account, each 300 in 60 s and 100 in 5 s, are one limiter', async () => {
      const both = (name: string, by?: string): Policy[] => [
        { name: `${name}-minute`, limit: 300, window: '60s', ...(by && { by }) },
        { name: `${name}-burst`, limit: 100, window: '5s', ...(by && { by }) },
      ];
      await serve({
        policies: [...both('address'), ...both('page', 'page'), ...both('account', 'account')],
        keyGenerator,
        keys: { page: header('x-page'), account: header('x-account') },
        cost: ({ headers }) => Number(headers['x-cost'] ?? 1),
      });
      const visit = async (key: string, page: string, account: string, cost = '1') => {
        const answer = await get({
          headers: { 'x-key': key, 'x-page': page, 'x-account': account, 'x-cost': cost },
        });
        const violated = answer.status === 429 && (JSON.parse(answer.text) as object);
        return violated ? (violated as Record<string, unknown>)['violated-policies'] : answer.status;
      };
      expect(await visit('a', '/a', 'ada', '99')).to.equal(200);
      expect(await visit('a', '/a', 'ada')).to.equal(200);
      // One of three keys is enough for a denial, at any position. The remaining keys are not charged.
      expect(await visit('a', '/b', 'bob')).to.deep.equal(['address-burst']);
      expect(await visit('b', '/a', 'bob')).to.deep.equal(['page-burst']);
      expect(await visit('b', '/b', 'ada')).to.deep.equal(['account-burst']);
      expect(await visit('b', '/b', 'bob', '100')).to.equal(200);
      for (let i = 0; i < 2; i++) {
        clock.now += 5_500;
        expect(await visit('a', '/a', 'ada', '100')).to.equal(200);
      }
      clock.now += 5_500;
      expect(await visit('a', '/c', 'eve')).to.deep.equal(['address-minute']);
      expect(await visit('c', '/c', 'ada')).to.deep.equal(['account-minute']);
      expect(await visit('c', '/c', 'eve', '100')).to.equal(200);
    });

    it("partitionKey shows a hash of each policy's own key, the same in both lists", async () => {
      const secret = 'a secret of the tests';
      await serve({ policies, keyGenerator, keys, partitionKey: secret });
      /** The keys by policy. Each item is read according to RFC 9651. */
      const keysOf = async (options: Ask) => {
        const { headers } = await get(options);
        const [told, spent] = [headers['ratelimit-policy'], headers.ratelimit].map((list) =>
          Object.fromEntries(
            String(list)
              .split(', ')
              .map((item) => {
                const found = item.match(
                  /^"(\w+)"(?:;[a-z]+=\d+)+;pk=:((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==)?):$/,
                )!;
                expect(Buffer.from(found[2]!, 'base64')).to.have.length(16);
                return [found[1]!, found[2]!] as const;
              }),
          ),
        );
        expect(told).to.deep.equal(spent);
        return told as { address: string; account: string; org: string };
      };
      const first = await keysOf(as('ada', 'ada', 'ada'));
      expect(new Set(Object.values(first)).size).to.equal(3);
      const second = await keysOf(as('ada', 'bob', 'ada'));
      expect(second).to.include({ address: first.address, org: first.org });
      expect(second.account).not.to.equal(first.account);
      expect(await keysOf(as('ada'))).to.deep.equal({ address: first.address });
      // Denied and banned clients get the value, too, and it does not depend on the process.
      const ban = { after: 1, for: '1h' } as const;
      await served!.close();
      await serve({ policies: [minute(1)], name: 'other', keyGenerator, ban, partitionKey: secret });
      for (const status of [200, 429, 429]) {
        const { headers, status: its } = await get(as('ada'));
        expect([its, /pk=:(.*):/.exec(String(headers.ratelimit))?.[1]]).to.deep.equal([
          status,
          first.address,
        ]);
      }
    });

    it('a request without a key is not limited', async () => {
      await serve({ policies: policies.slice(1), keys, keyGenerator: () => undefined });
      const { status, headers } = await get();
      expect([status, pick(headers, /ratelimit/)]).to.deep.equal([200, {}]);
    });

    it('a key function that throws, rejects, or returns no key fails the request', async () => {
      const failed: HeadgateError[] = [];
      const wrong = [
        () => {
          throw new Error('no session');
        },
        () => Promise.reject(new Error('no database')),
        () => 5 as never,
        () => null as never,
      ];
      for (const account of wrong) {
        await serve(
          { policies, name: `wrong-${failed.length}`, keyGenerator, keys: { ...keys, account } },
          { failed: (error) => failed.push(error) },
        );
        expect((await get(as('a'))).status).to.equal(500);
        await served!.close();
      }
      expect(failed.map(({ code }) => code)).to.deep.equal(wrong.map(() => 'HEADGATE_INVALID_KEY'));
      expect(failed.map(({ cause }) => (cause as Error).message.slice(0, 12))).to.deep.equal(
        wrong.map(() => 'keys.account'),
      );
    });

    it('named tiers may have different keys, and a fixed tier needs only its own', async () => {
      const tiers = { free: policies.slice(0, 1), team: policies };
      const tier = ({ headers }: TestRequest) => (headers['x-org'] ? 'team' : 'free');
      await serve({ tiers, tier, name: 'named', keyGenerator, keys });
      expect(await statuses(3, as('a', 'ada', 'acme'))).to.deep.equal([200, 200, 429]);
      expect(await statuses(3, as('a', 'ada'))).to.deep.equal([200, 200, 429]);
      await served!.close();
      await serve({ tiers, tier: 'free', name: 'fixed', keyGenerator });
      expect(await statuses(5, as('a', 'ada', 'acme'))).to.deep.equal([200, 200, 200, 200, 429]);
    });

    it('tiers may have different keys, and bans one of them', async () => {
      await serve({
        policies: ({ headers }) => (headers['x-org'] ? policies : policies.slice(0, 2)),
        ban: { after: 1, for: '1h', by: 'account' },
        keyGenerator,
        keys,
      });
      expect(await statuses(4, as('a', 'ada', 'acme'))).to.deep.equal([200, 200, 429, 429]);
      const banned = await get(as('b', 'ada'));
      expect(JSON.parse(banned.text)).to.have.property('title', 'Abnormal Usage Detected');
      expect(await statuses(1, as('b', 'bob'))).to.deep.equal([200]);
    });
  });

  describe('request callbacks', () => {
    for (const { title, headers, policies, cost = 1, requests = 1, fields } of dialects) {
      it(title, async () => {
        await serve({ policies, cost: () => cost, ...(headers === undefined ? {} : { headers }) });
        await statuses(requests - 1);
        const answer = await get();
        expect(pick(answer.headers, /ratelimit|retry-after/)).to.deep.equal(fields);
      });
    }

    const ifBegun = sendsBefore ? it : () => undefined;
    ifBegun('nothing once headers are sent, and lets nobody pass', async () => {
      const log: string[] = [];
      await serve(
        {
          policies: [minute(1)],
          onDecision: ({ allowed }) => void log.push(allowed ? 'admitted' : 'denied'),
        },
        {
          before: (response) =>
            void response.writeHead(202, { 'content-length': 5, connection: 'close' }).write('early'),
          answer: () => (log.push('passed'), {}),
        },
      );
      for (const last of ['passed', 'denied']) {
        const { status, text, headers } = await get();
        expect({ status, text }).to.deep.equal({ status: 202, text: 'early' });
        expect(headers).not.to.have.any.keys('ratelimit', 'retry-after');
        await until(() => log.at(-1) === last);
      }
      expect(log).to.deep.equal(['admitted', 'passed', 'denied']);
    });
  });

  describe('options', () => {
    it('cost 0: only looks, and is always admitted', async () => {
      const look = { policies: [minute(2)], name: 'shared', cost: 0 };
      const decisions: Decision[] = [];
      await serve([
        { ...look, onDecision: (decision) => void decisions.push(decision) },
        { ...look, cost: ({ headers }) => Number(headers['x-cost'] ?? 0), headers: false },
      ]);
      const remaining = async (cost = '0') => remainingOf(await get({ headers: { 'x-cost': cost } }));
      expect([await remaining(), await remaining('1'), await remaining('1')]).to.deep.equal([2, 2, 1]);
      expect(await statuses(3)).to.deep.equal([200, 200, 200]);
      const answer = await get();
      expect(answer.headers).to.include({ ratelimit: '"minute";r=0;t=60', 'ratelimit-remaining': '0' });
      expect(answer.headers).to.not.have.property('retry-after');
      expect((await get({ headers: { 'x-cost': '1' } })).status).to.equal(429);
      for (const decision of decisions) expect(decision).to.include({ allowed: true, cost: 0, charged: 0 });
    });

    it('onDecision receives every decision and its request; its errors have no effect', async () => {
      const calls: [boolean, string, string][] = [];
      const warnings: string[] = [];
      const emitWarning = process.emitWarning.bind(process);
      process.emitWarning = (warning: string | Error) => void warnings.push(String(warning));
      await serve({
        policies: [minute(1)],
        onDecision: ({ allowed, key }, { url }) => {
          calls.push([allowed, key, url]);
          throw new Error('broken log');
        },
      });
      expect(await statuses(2)).to.deep.equal([200, 429]);
      process.emitWarning = emitWarning;
      expect(calls).to.deep.equal([
        [true, '127.0.0.1', '/'],
        [false, '127.0.0.1', '/'],
      ]);
      expect(warnings).to.have.length(2);
      expect(warnings[0]).to.include('broken log');
    });
  });

  describe('concurrency', () => {
    const slot: Policy = { name: 'slots', algorithm: 'concurrency', limit: 1, lease: '1m' };

    it('gives back the slot of a client that disconnected before the decision', async () => {
      const inner = store;
      let decide = () => {};
      const decided = new Promise<void>((resolve) => (decide = resolve));
      let isAsked = false;
      const slow = around(inner, {
        decide: async (query) => {
          isAsked = true;
          await decided;
          return inner.decide(query);
        },
      });
      let hasLeft = false;
      await serve(
        { policies: [slot], store: slow },
        { before: (response) => void response.once('close', () => (hasLeft = true)) },
      );
      const leave = new AbortController();
      const gone = get({ signal: leave.signal }).catch(() => {});
      await until(() => isAsked);
      leave.abort();
      await gone;
      await until(() => hasLeft);
      decide();
      await until(async () => (await get()).status === 200);
    });
  });

  describe('fairness of held requests', () => {
    it('in a full queue, the key with most requests makes room for another key', async () => {
      const policy: Policy = { algorithm: 'leaky-bucket', limit: 1, window: '1m', burst: 1, maxDelay: '5m' };
      await serve({
        policies: [policy],
        maxWaiting: 2,
        maxWaitingPerKey: 2,
        keyGenerator: byHeader('x-user'),
      });
      const as = (user: string) => ({ headers: { 'x-user': user } });
      const limiter = createLimiter({ name: 'limiter-0', store, timeout: '1m', policies: [policy] });
      const ahead = async (user: string) => (await limiter.peek(user)).resetAfterMs / 60_000;
      const leave = new AbortController();
      const hold = async (user: string, minutes: number) => {
        const answer = get({ ...as(user), signal: leave.signal }).catch(() => undefined);
        await until(async () => (await ahead(user)) === minutes);
        return { answer };
      };
      for (const user of ['greedy', 'modest']) expect(await statuses(1, as(user))).to.deep.equal([200]);
      const first = await hold('greedy', 2);
      const last = await hold('greedy', 3);
      const modest = await hold('modest', 2);
      expect(await last.answer).to.include({ status: 503 });
      expect(await ahead('greedy')).to.equal(2);
      leave.abort();
      expect(await Promise.all([first.answer, modest.answer])).to.deep.equal([undefined, undefined]);
      await limiter.close();
    });
  });
}

const byHeader =
  (name: string): NonNullable<TestOptions['keyGenerator']> =>
  ({ headers }) =>
    headers[name] as string;

function pick(headers: Answer['headers'], names: RegExp) {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => names.test(name)));
}

function remainingOf({ headers }: Answer): number {
  return Number(headers['ratelimit-remaining']);
}

/** Waits until an effect of started work has happened. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(1);
}

for (const [name, adapter] of Object.entries(adapters)) {
  for (const [kind, createStore] of Object.entries(stores)) {
    // Adapters depend on whether a store answers at once, and not on the store: one adapter alone uses a server instead of a map.
    if (kind === 'valkey' || kind === (name === 'Express 5' ? 'map' : 'redis')) continue;
    // The others differ only with a store that answers later: Express 4 has the adapter of Express 5, Koa and Hono await each decision, and Web
    // on Node is Web.
    if (kind === 'memory' && !['Express 5', 'Fastify 5', 'Web'].includes(name)) continue;
    const { serve } = adapter;
    describeChecks(
      `${name} on ${kind}`,
      adapterChecks({
        start: ({ limiters, answer, headers = {} }) =>
          serve({
            ...{ limiters, answer },
            before: (response) => {
              for (const [field, value] of Object.entries(headers)) response.setHeader(field, value);
            },
          }),
        setsHeaders: true,
        createStore,
      }),
    );
    describe(`${name} on ${kind}`, () => suite(adapter, createStore));
  }
}
