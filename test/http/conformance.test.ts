// One suite for all adapters, in memory and on Redis. What only one framework has is in express.test.ts and fastify.test.ts.
import { once } from 'node:events';
import { connect } from 'node:net';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createLimiter, type Decision, type Policy, type Store } from 'headgate';
import { stores, TestClock, type CreateStore } from '../support/stores.js';
import { adapters, type Adapter, type Scenario, type Served, type TestOptions } from './apps.js';
import { ask, pipelined, type Answer, type Ask } from './client.js';
import { dialects } from './dialects.js';

/** A policy whose times are easy to tell: all is back at the window's end. */
const minute = (limit: number, name = 'minute'): Policy => ({
  name,
  algorithm: 'fixed-window',
  limit,
  window: '1m',
});

const HANDLED = 'https://iana.org/assignments/http-problem-types#';

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

  /** Limiters of the test's store; its failures are the test's, however slow this machine is. */
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

  describe('admits', () => {
    it('exactly as many of simultaneous requests as the limit says, each told its own remaining', async () => {
      const { port } = await serve({ policies: [minute(5)] });
      const answers = await pipelined(port, 12);
      const admitted = answers.filter(({ status }) => status === 200);
      expect(answers).to.have.length(12);
      expect(admitted.map(({ headers }) => headers['ratelimit-remaining']).sort()).to.deep.equal([
        '0',
        '1',
        '2',
        '3',
        '4',
      ]);
      expect(answers.filter(({ status }) => status === 429)).to.have.length(7);
    });

    it('the same across connections', async () => {
      await serve({ policies: [minute(5)] });
      const answers = await Promise.all(Array.from({ length: 12 }, () => get()));
      const remaining = answers.filter(({ status }) => status === 200).map(remainingOf);
      expect(remaining.sort()).to.deep.equal([0, 1, 2, 3, 4]);
    });

    it('again at the second that Retry-After says, and not before', async () => {
      await serve({ policies: [{ algorithm: 'token-bucket', limit: 1, window: '10s' }], cost: 1 });
      expect(await statuses(2)).to.deep.equal([200, 429]);
      const wait = Number((await get()).headers['retry-after']);
      expect(wait).to.equal(10);
      clock.now += wait * 1000 - 1;
      expect((await get()).status).to.equal(429);
      clock.now += 1;
      expect((await get()).status).to.equal(200);
    });
  });

  describe('says', () => {
    for (const { title, headers, policies, cost = 1, requests = 1, fields } of dialects) {
      it(title, async () => {
        await serve({ policies, cost, ...(headers === undefined ? {} : { headers }) });
        await statuses(requests - 1);
        const answer = await get();
        expect(pick(answer.headers, /ratelimit|retry-after/)).to.deep.equal(fields);
      });
    }

    it('in legacy fields, the date of the reset', async () => {
      await serve({ policies: [minute(3)], headers: 'legacy' });
      const least = Math.ceil(Date.now() / 1000) + 60;
      const { headers } = await get();
      const most = Math.ceil(Date.now() / 1000) + 60;
      expect(headers).to.include({ 'x-ratelimit-limit': '3', 'x-ratelimit-remaining': '2' });
      expect(Number(headers['x-ratelimit-reset'])).to.be.within(least, most);
      expect(headers).not.to.have.any.keys('ratelimit', 'ratelimit-policy', 'ratelimit-limit');
    });

    it('with a denial: Retry-After, problem details, and that it is not to be stored', async () => {
      await serve({ policies: [minute(1), minute(5, 'other')], headers: false });
      const answer = (await statuses(1), await get());
      expect(answer.status).to.equal(429);
      expect(answer.headers).to.include({
        'retry-after': '60',
        'content-type': 'application/problem+json',
        'cache-control': 'no-store',
        'content-length': String(answer.text.length),
      });
      expect(answer.headers).not.to.have.any.keys('ratelimit', 'ratelimit-policy', 'etag');
      expect(problem(answer)).to.deep.equal({
        type: `${HANDLED}quota-exceeded`,
        title: 'Quota Exceeded',
        status: 429,
        'violated-policies': ['minute'],
      });
    });

    it('of a cost that can never be admitted, that it cannot', async () => {
      await serve({ policies: [minute(5)], cost: 6 });
      const answer = await get();
      expect(answer.status).to.equal(429);
      expect(answer.headers).not.to.have.property('retry-after');
      expect(answer.headers['ratelimit']).to.equal('"minute";r=5;t=60');
      expect(problem(answer)).to.have.property('detail');
    });

    it('of such a cost nothing else where another policy denies for a time', async () => {
      await serve({
        policies: [minute(1, 'small'), minute(9)],
        cost: ({ headers }) => Number(headers['x-cost'] ?? 1),
      });
      await statuses(9);
      const answer = await get({ headers: { 'x-cost': '2' } });
      expect(answer.headers).not.to.have.property('retry-after');
      expect(problem(answer)).to.have.property('detail');
      expect((await get()).headers).to.include({ 'retry-after': '60' });
    });

    it('to HEAD the same without a body', async () => {
      await serve({ policies: [minute(1)] });
      expect((await get({ method: 'HEAD' })).status).to.equal(200);
      const answer = await get({ method: 'HEAD' });
      expect(answer.status).to.equal(429);
      expect(answer.text).to.equal('');
      expect((await get()).status).to.equal(429);
    });

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

  describe('the key', () => {
    const sameClient: [first: string, second: string, why: string][] = [
      ['192.0.2.1', '::ffff:192.0.2.1', 'IPv4 and the same mapped into IPv6'],
      ['192.0.2.1', '::ffff:c000:201', 'mapped, in hexadecimal'],
      ['2001:db8:1:200::1', '2001:db8:1:2ff:ffff::2', 'IPv6 of one /56'],
      ['2001:DB8:0:0::1', '2001:db8::1', 'IPv6 in other forms'],
      ['fe80::1%eth0', 'fe80::1%eth1', 'IPv6 with a zone'],
    ];
    for (const [first, second, why] of sameClient) {
      it(`is one for ${why}`, async () => {
        await serve({ policies: [minute(1)] });
        expect((await get({ from: first })).status).to.equal(200);
        expect((await get({ from: second })).status).to.equal(429);
      });
    }

    const others: [first: string, second: string, why: string][] = [
      ['192.0.2.1', '192.0.2.2', 'IPv4 addresses'],
      ['::ffff:192.0.2.1', '::ffff:192.0.2.2', 'mapped addresses'],
      ['2001:db8:1:200::1', '2001:db8:1:300::1', 'IPv6 networks'],
    ];
    for (const [first, second, why] of others) {
      it(`differs between ${why}`, async () => {
        await serve({ policies: [minute(1)] });
        expect((await get({ from: first })).status).to.equal(200);
        expect((await get({ from: second })).status).to.equal(200);
      });
    }

    it('is of the network that ipv6Subnet says', async () => {
      await serve([
        { policies: [minute(1)], ipv6Subnet: 128 },
        { policies: [minute(2)], ipv6Subnet: 32 },
      ]);
      const from = (address: string) => get({ from: address });
      expect((await from('2001:db8::1')).status).to.equal(200);
      expect((await from('2001:db8::1')).status).to.equal(429);
      expect((await from('2001:db8::2')).status).to.equal(200);
      expect((await from('2001:db8:ffff::3')).status).to.equal(429);
    });

    it('is not made of what is no address: the request fails, with what to do about it', async () => {
      await serve({ policies: [minute(1)] });
      for (const from of ['unknown', '1.2.3', '192.0.2.1:80', '010.0.0.1', "'; DROP"]) {
        expect(await get({ from })).to.include({ status: 500, text: 'HEADGATE_NO_CLIENT_IP' });
      }
    });

    for (const [title, wrap] of Object.entries({ sync: now, async: later })) {
      it(`is what keyGenerator returns (${title}); undefined does not limit`, async () => {
        await serve({
          policies: [minute(1)],
          keyGenerator: ({ headers }) => wrap(headers['x-user'] as string),
        });
        const as = (user: string) => ({ headers: { 'x-user': user } });
        expect(await statuses(2, as('a'))).to.deep.equal([200, 429]);
        expect(await statuses(1, as('b'))).to.deep.equal([200]);
        const unlimited = await get();
        expect(unlimited.status).to.equal(200);
        expect(unlimited.headers).not.to.have.property('ratelimit');
        expect(await statuses(2)).to.deep.equal([200, 200]);
      });

      it(`fails the request if it is not a string (${title})`, async () => {
        await serve({ policies: [minute(1)], keyGenerator: () => wrap(42 as unknown as string) });
        expect(await get()).to.include({ status: 500, text: 'HEADGATE_INVALID_KEY' });
      });
    }
  });

  describe('options', () => {
    for (const [title, wrap] of Object.entries({ sync: now, async: later })) {
      it(`cost by function (${title})`, async () => {
        await serve({ policies: [minute(5)], cost: ({ headers }) => wrap(Number(headers['x-cost'])) });
        const costing = (cost: string) => get({ headers: { 'x-cost': cost } });
        expect(remainingOf(await costing('3'))).to.equal(2);
        expect((await costing('3')).status).to.equal(429);
        expect(remainingOf(await costing('0'))).to.equal(2);
        expect(await costing('1.5')).to.include({ status: 500, text: 'HEADGATE_INVALID_COST' });
        expect(remainingOf(await costing('2'))).to.equal(0);
      });

      it(`skip (${title})`, async () => {
        await serve({ policies: [minute(1)], skip: ({ headers }) => wrap(headers['x-skip'] === 'yes') });
        expect(await statuses(3, { headers: { 'x-skip': 'yes' } })).to.deep.equal([200, 200, 200]);
        expect(await statuses(2)).to.deep.equal([200, 429]);
      });

      it(`tiers (${title}): a change of the tier keeps what was charged`, async () => {
        const tiers: Record<string, Policy[]> = { free: [minute(2)], pro: [minute(4)] };
        await serve({ policies: ({ headers }) => wrap(tiers[headers['x-tier'] as string]!) });
        const as = (tier: string) => ({ headers: { 'x-tier': tier } });
        expect(await statuses(3, as('free'))).to.deep.equal([200, 200, 429]);
        expect(await statuses(3, as('pro'))).to.deep.equal([200, 200, 429]);
        expect(await get(as('none'))).to.include({ status: 500, text: 'HEADGATE_INVALID_OPTION' });
        // A limit that is changed in place holds from now on.
        tiers['pro']![0]!.limit = 5;
        expect(await statuses(2, as('pro'))).to.deep.equal([200, 429]);
      });
    }

    const failures = {
      sync: () => {
        throw new Error('thrown');
      },
      async: () => Promise.reject(new Error('thrown')),
    };
    for (const [title, failing] of Object.entries(failures)) {
      for (const option of ['skip', 'keyGenerator', 'cost', 'policies', 'allowList', 'denyList'] as const) {
        it(`${option} that fails, fails the request (${title})`, async () => {
          await serve({ policies: [minute(1)], [option]: failing });
          expect(await get()).to.include({ status: 500, text: 'thrown' });
        });
      }
    }

    it('limiter: one made by createLimiter, which both routes and code can use', async () => {
      const limiter = createLimiter({ name: 'own', store, timeout: '1m', policies: [minute(3)] });
      await serve({ limiter, keyGenerator: () => 'k' });
      await limiter.consume('k');
      expect(await statuses(3)).to.deep.equal([200, 200, 429]);
      await limiter.reset('k');
      expect((await get()).status).to.equal(200);
    });

    it('statusCode', async () => {
      await serve({ policies: [minute(1)], statusCode: 420 });
      await get();
      const answer = await get();
      expect(answer.status).to.equal(420);
      expect(problem(answer)).to.include({ status: 420 });
    });

    it('handler answers instead, with status and headers set', async () => {
      await serve({
        policies: [minute(1)],
        handler: (_request, response, { policy }) => response.send(`denied by ${policy}`),
      });
      await get();
      const answer = await get();
      expect(answer).to.include({ status: 429, text: 'denied by minute' });
      expect(answer.headers).to.include({ 'retry-after': '60', ratelimit: '"minute";r=0;t=60' });
    });

    it('handler that fails, fails the request', async () => {
      await serve({ policies: [minute(1)], handler: () => Promise.reject(new Error('late')) });
      await get();
      expect(await get()).to.include({ status: 500, text: 'late' });
    });

    it('onDecision is told of every decision and its request; what it throws breaks nothing', async () => {
      const seen: [boolean, string, string][] = [];
      const warnings: string[] = [];
      const emitWarning = process.emitWarning.bind(process);
      process.emitWarning = (warning: string | Error) => void warnings.push(String(warning));
      await serve({
        policies: [minute(1)],
        onDecision: ({ allowed, key }, { url }) => {
          seen.push([allowed, key, url]);
          throw new Error('broken log');
        },
      });
      expect(await statuses(2)).to.deep.equal([200, 429]);
      process.emitWarning = emitWarning;
      expect(seen).to.deep.equal([
        [true, '127.0.0.1', '/'],
        [false, '127.0.0.1', '/'],
      ]);
      expect(warnings).to.have.length(2);
      expect(warnings[0]).to.include('broken log');
    });

    it('shadow decides and reports, and tells the client nothing', async () => {
      const seen: Decision[] = [];
      await serve({ policies: [minute(1)], shadow: true, onDecision: (decision) => seen.push(decision) });
      expect(await statuses(2)).to.deep.equal([200, 200]);
      expect((await get()).headers).not.to.have.any.keys('ratelimit', 'ratelimit-limit', 'retry-after');
      expect(seen.map(({ reason }) => reason)).to.deep.equal([undefined, 'quota-exceeded', 'quota-exceeded']);
    });

    it('a shadow policy is not enforced, and not told of', async () => {
      await serve({ policies: [{ ...minute(1, 'strict'), shadow: true }, minute(2)] });
      expect((await get()).headers).to.include({
        'ratelimit-policy': '"minute";q=2;w=60',
        ratelimit: '"minute";r=1;t=60',
        'ratelimit-limit': '2',
      });
      expect(await statuses(2)).to.deep.equal([200, 429]);
    });

    it('the decision is on the request', async () => {
      await serve(
        { policies: [minute(2)] },
        { answer: ({ rateLimit }) => ({ body: `${rateLimit?.policy} ${rateLimit?.remaining}` }) },
      );
      expect((await get()).text).to.equal('minute 1');
    });
  });

  describe('several limiters on one route', () => {
    it('append to lists, and keep the tightest where there is room for one', async () => {
      const headers = ['draft-6', 'draft-11', 'legacy'] as const;
      await serve([
        { policies: [minute(2, 'a')], headers },
        { policies: [minute(9, 'b')], headers },
      ]);
      expect((await get()).headers).to.include({
        'ratelimit-policy': '"a";q=2;w=60, "b";q=9;w=60',
        ratelimit: '"a";r=1;t=60, "b";r=8;t=60',
        'ratelimit-limit': '2',
        'ratelimit-remaining': '1',
        'x-ratelimit-limit': '2',
      });
    });

    it('whichever comes first', async () => {
      await serve([
        { policies: [minute(9, 'b')], headers: ['draft-7', 'legacy'] },
        { policies: [minute(2, 'a')], headers: ['draft-7', 'legacy'] },
      ]);
      expect((await get()).headers).to.include({
        'ratelimit-policy': '9;w=60, 2;w=60',
        ratelimit: 'limit=2, remaining=1, reset=60',
        'x-ratelimit-limit': '2',
      });
    });

    it('of which one denies: single fields are its own, though another has less left', async () => {
      const bucket: Policy = { name: 'bucket', algorithm: 'gcra', limit: 10, window: '10s' };
      await serve([
        { policies: [minute(2, 'small')], headers: ['draft-6', 'draft-7'] },
        { policies: [bucket], headers: ['draft-6', 'draft-7'], cost: 6 },
      ]);
      await get();
      expect((await get()).headers).to.include({
        'ratelimit-limit': '10',
        'ratelimit-remaining': '4',
        'ratelimit-reset': '2',
        ratelimit: 'limit=10, remaining=4, reset=2',
        'retry-after': '2',
      });
    });

    it('of different dialects: the newer one has the field', async () => {
      await serve([
        { policies: [minute(9, 'b')], headers: 'draft-11' },
        { policies: [minute(2, 'a')], headers: 'draft-7' },
      ]);
      const newer = { 'ratelimit-policy': '"b";q=9;w=60', ratelimit: '"b";r=8;t=60' };
      expect((await get()).headers).to.include(newer);
      await served!.close();
      store = createStore(clock.read);
      await serve([
        { policies: [minute(2, 'a')], headers: 'draft-7' },
        { policies: [minute(9, 'b')], headers: 'draft-11', keyGenerator: () => 'another' },
      ]);
      expect((await get()).headers).to.include(newer);
    });

    it('whose policies have one name are told apart by numbers, in the denial, too', async () => {
      await serve([
        { policies: [minute(9)] },
        { policies: [minute(8), minute(7, 'minute-3')] },
        { policies: [minute(6, 'hidden')], shadow: true },
        { policies: [minute(5), minute(4, 'minute-4')] },
        { policies: [minute(1), minute(3, 'hidden')] },
      ]);
      const policy =
        '"minute";q=9;w=60, "minute-2";q=8;w=60, "minute-3";q=7;w=60, "minute-5";q=5;w=60, "minute-4";q=4;w=60, ' +
        '"minute-6";q=1;w=60, "hidden";q=3;w=60';
      expect((await get()).headers).to.include({
        'ratelimit-policy': policy,
        ratelimit:
          '"minute";r=8;t=60, "minute-2";r=7;t=60, "minute-3";r=6;t=60, "minute-5";r=4;t=60, "minute-4";r=3;t=60, ' +
          '"minute-6";r=0;t=60, "hidden";r=2;t=60',
      });
      const denied = await get();
      expect(denied.headers['ratelimit-policy']).to.equal(policy);
      expect(denied.headers['ratelimit']).to.match(/, "minute-6";r=0;t=60, "hidden";r=2;t=60$/);
      expect(problem(denied)['violated-policies']).to.deep.equal(['minute-6']);
    });

    it('of which one denies by concurrency: the older fields stay the quota’s', async () => {
      const headers = ['draft-6', 'legacy'] as const;
      const body = begun();
      await serve(
        [
          { policies: [minute(9)], headers },
          { policies: [{ name: 'slots', algorithm: 'concurrency', limit: 1, lease: '5s' }], headers },
        ],
        { answer: () => ({ body }) },
      );
      const response = await fetch(served!.url);
      const denied = await get();
      expect(denied.headers).to.include({
        'retry-after': '5',
        'ratelimit-limit': '9',
        'ratelimit-remaining': '7',
        'ratelimit-reset': '60',
        'x-ratelimit-limit': '9',
        'x-ratelimit-remaining': '7',
      });
      body.end();
      await response.text();
    });

    it('charge nothing for what one of them denies, whatever their order', async () => {
      const account: TestOptions = { policies: [minute(1, 'account')], keyGenerator: byHeader('x-account') };
      const address: TestOptions = { policies: [minute(3, 'address')], keyGenerator: byHeader('x-address') };
      for (const [i, order] of [
        [address, account],
        [account, address],
      ].entries()) {
        store = createStore(clock.read);
        await serve(order);
        const as = (user: string) => get({ headers: { 'x-account': user, 'x-address': `same ${i}` } });
        expect((await as('ada')).status).to.equal(200);
        for (let n = 0; n < 5; n++) {
          const denied = await as('ada');
          expect(denied.status).to.equal(429);
          expect(problem(denied)['violated-policies']).to.deep.equal(['account']);
        }
        expect((await as('bob')).status).to.equal(200);
        expect((await as('cy')).status).to.equal(200);
        const exhausted = await as('dee');
        expect(problem(exhausted)['violated-policies']).to.deep.equal(['address']);
        clock.now += 60_000;
        // What `address` denied, `account` was not charged for.
        expect((await as('dee')).status).to.equal(200);
        await served!.close();
      }
    });

    it('give slots back, too', async () => {
      await serve([
        { policies: [{ algorithm: 'concurrency', limit: 1, lease: '1m' }], keyGenerator: () => 'all' },
        { policies: [minute(1)], keyGenerator: byHeader('x-user') },
      ]);
      const as = (user: string) => get({ headers: { 'x-user': user } });
      expect((await as('a')).status).to.equal(200);
      expect((await as('a')).status).to.equal(429);
      expect((await as('b')).status).to.equal(200);
    });
  });

  describe('lists and bans', () => {
    it('deny with 403, before the allow list, and charge nothing', async () => {
      await serve({
        policies: [minute(1)],
        denyList: ['192.0.2.0/24', '2001:db8:bad::/48'],
        allowList: ['192.0.2.1', '198.51.100.7'],
      });
      for (const from of ['192.0.2.1', '::ffff:192.0.2.9', '2001:db8:bad::1']) {
        const answer = await get({ from });
        expect(answer.status).to.equal(403);
        expect(problem(answer)).to.deep.equal({
          type: 'about:blank',
          title: 'Forbidden',
          status: 403,
        });
        expect(answer.headers).not.to.have.any.keys('retry-after', 'ratelimit');
        expect(answer.headers).to.include({ 'cache-control': 'no-store' });
      }
      expect(await statuses(3, { from: '198.51.100.7' })).to.deep.equal([200, 200, 200]);
      expect(await statuses(2, { from: '203.0.113.1' })).to.deep.equal([200, 429]);
    });

    for (const [title, wrap] of Object.entries({ sync: now, async: later })) {
      it(`by keys and by function (${title})`, async () => {
        const seen: Decision[] = [];
        await serve({
          policies: [minute(1)],
          keyGenerator: byHeader('x-user'),
          allowList: ['friend'],
          denyList: (_request, key) => wrap(key === 'foe'),
          onDecision: (decision) => seen.push(decision),
        });
        const as = (user: string) => ({ headers: { 'x-user': user } });
        expect(await statuses(2, as('friend'))).to.deep.equal([200, 200]);
        expect(await statuses(1, as('foe'))).to.deep.equal([403]);
        expect(await statuses(2, as('other'))).to.deep.equal([200, 429]);
        expect(seen.map(({ reason, key }) => `${key}: ${reason}`)).to.deep.equal([
          'friend: allow-listed',
          'friend: allow-listed',
          'foe: deny-listed',
          'other: undefined',
          'other: quota-exceeded',
        ]);
      });
    }

    it('decide where policies come with each request, too', async () => {
      await serve({
        policies: () => [minute(1)],
        keyGenerator: byHeader('x-user'),
        allowList: ['friend'],
        denyList: ['foe'],
      });
      const as = (user: string) => ({ headers: { 'x-user': user } });
      expect(await statuses(2, as('friend'))).to.deep.equal([200, 200]);
      expect(await statuses(1, as('foe'))).to.deep.equal([403]);
      expect(await statuses(2, as('other'))).to.deep.equal([200, 429]);
    });

    it('ban after repeated denials', async () => {
      await serve({ policies: [minute(1)], ban: { after: 2, within: '10m', for: '1h' } });
      expect(await statuses(2)).to.deep.equal([200, 429]);
      for (const violated of [['minute'], []]) {
        const banned = await get();
        expect(banned.status).to.equal(429);
        expect(banned.headers).to.include({ 'retry-after': '3600', ratelimit: '"minute";r=0;t=3600' });
        expect(problem(banned)).to.deep.equal({
          type: `${HANDLED}abnormal-usage-detected`,
          title: 'Abnormal Usage Detected',
          status: 429,
          'violated-policies': violated,
        });
      }
      clock.now += 3_600_000;
      expect((await get()).status).to.equal(200);
    });
  });

  describe('costs that depend on the outcome', () => {
    const answer: Scenario['answer'] = ({ headers }) => ({ status: Number(headers['x-status'] ?? 200) });
    const answered = (status: number) => get({ headers: { 'x-status': String(status) } });

    it('skipFailedRequests', async () => {
      await serve({ policies: [minute(2)], skipFailedRequests: true }, { answer });
      for (let i = 0; i < 4; i++) expect((await answered(500)).status).to.equal(500);
      await untilRemaining(2);
      expect(await statuses(3)).to.deep.equal([200, 200, 429]);
    });

    it('skipSuccessfulRequests', async () => {
      await serve({ policies: [minute(2)], skipSuccessfulRequests: true }, { answer });
      for (let i = 0; i < 4; i++) expect((await answered(302)).status).to.equal(302);
      expect((await answered(401)).status).to.equal(401);
      expect((await answered(401)).status).to.equal(401);
      expect((await answered(401)).status).to.equal(429);
    });

    for (const [title, wrap] of Object.entries({ sync: now, async: later })) {
      it(`requestWasSuccessful (${title})`, async () => {
        await serve(
          {
            policies: [minute(1)],
            skipFailedRequests: true,
            requestWasSuccessful: (_request, { statusCode }) => wrap(statusCode === 404),
          },
          { answer },
        );
        expect((await answered(200)).status).to.equal(200);
        await untilRemaining(1);
        expect((await answered(404)).status).to.equal(404);
        expect((await answered(404)).status).to.equal(429);
      });
    }

    it('refundAborted, for a response that is cut off', async () => {
      const body = begun();
      await serve({ policies: [minute(1)], refundAborted: true }, { answer: () => ({ body }) });
      const leave = new AbortController();
      const response = await fetch(served!.url, { signal: leave.signal });
      leave.abort();
      await response.text().catch(() => {});
      await untilRemaining(1);
      body.destroy();
    });

    it('settled by the handler', async () => {
      await serve(
        { policies: [minute(10)], cost: 5 },
        {
          answer: async ({ rateLimit, headers }) => {
            await rateLimit?.settle(Number(headers['x-actual']));
            return {};
          },
        },
      );
      expect(remainingOf(await get({ headers: { 'x-actual': '1' } }))).to.equal(5);
      expect(remainingOf(await get({ headers: { 'x-actual': '9' } }))).to.equal(4);
      expect((await get()).status).to.equal(429);
    });

    /** Gives the answer's outcome time to arrive at the store. */
    async function untilRemaining(expected: number) {
      const limiter = createLimiter({
        name: 'limiter-0',
        store,
        timeout: '1m',
        policies: [minute(expected)],
      });
      const limit = (await limiter.peek('127.0.0.1')).limit;
      while ((await limiter.peek('127.0.0.1')).remaining < limit) await sleep(1);
      await limiter.close();
    }
  });

  describe('concurrency', () => {
    const slot: Policy = { name: 'slots', algorithm: 'concurrency', limit: 1, lease: '1m' };

    it('holds a slot until the response is finished', async () => {
      const body = begun();
      let first = true;
      await serve({ policies: [slot] }, { answer: () => (first ? ((first = false), { body }) : {}) });
      const response = await fetch(served!.url);
      expect(response.headers.get('ratelimit')).to.equal('"slots";r=0');
      expect(response.headers.get('ratelimit-policy')).to.equal('"slots";q=1;qu="concurrent-requests"');
      const denied = await get();
      expect(denied.headers).to.include({ 'retry-after': '60', ratelimit: '"slots";r=0;t=60' });
      expect(denied.status).to.equal(429);
      body.end('done');
      await response.text();
      await until(async () => (await get()).status === 200);
    });

    it('until the connection is closed', async () => {
      const body = begun();
      let first = true;
      await serve({ policies: [slot] }, { answer: () => (first ? ((first = false), { body }) : {}) });
      const socket = connect(served!.port, '127.0.0.1');
      socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
      await once(socket, 'data');
      expect((await get()).status).to.equal(429);
      socket.destroy();
      await until(async () => (await get()).status === 200);
      body.destroy();
    });

    it('gives the slot of a client back that left before the decision', async () => {
      const inner = store;
      let decide = () => {};
      const decided = new Promise<void>((resolve) => (decide = resolve));
      let asked = false;
      const slow: Store = {
        decide: async (query) => {
          asked = true;
          await decided;
          return inner.decide(query);
        },
        adjust: (change) => inner.adjust(change),
        lease: (change) => inner.lease(change),
        reset: (subject) => inner.reset(subject),
        ban: (subject, duration) => inner.ban(subject, duration),
      };
      let left = false;
      await serve(
        { policies: [slot], store: slow },
        { before: (response) => void response.once('close', () => (left = true)) },
      );
      const leave = new AbortController();
      const gone = get({ signal: leave.signal }).catch(() => {});
      await until(() => asked);
      leave.abort();
      await gone;
      await until(() => left);
      decide();
      await until(async () => (await get()).status === 200);
    });

    it('gives it back exactly once', async () => {
      await serve({ policies: [{ ...slot, limit: 2 }] });
      for (let i = 0; i < 5; i++) expect((await get()).status).to.equal(200);
      const limiter = createLimiter({
        name: 'limiter-0',
        store,
        timeout: '1m',
        policies: [{ ...slot, limit: 2 }],
      });
      await until(async () => (await limiter.peek('127.0.0.1')).remaining === 2);
      await limiter.close();
    });

    it('renews the slot of a response that takes longer than the lease', async () => {
      const lease = 90;
      const body = begun();
      let first = true;
      let renewals = 0;
      const counting: Store = {
        decide: (query) => store.decide(query),
        adjust: (change) => store.adjust(change),
        lease: async (change) => {
          const held = await store.lease(change);
          renewals += 1;
          return held;
        },
        reset: (subject) => store.reset(subject),
        ban: (subject, duration) => store.ban(subject, duration),
      };
      await serve(
        { policies: [{ ...slot, lease }], store: counting },
        { answer: () => (first ? ((first = false), { body }) : {}) },
      );
      const response = await fetch(served!.url);
      // The store's time passes as the test says; of two renewals that end since, one has begun since.
      for (let i = 0; i < 6; i++) {
        clock.now += lease / 2;
        const before = renewals;
        await until(() => renewals >= before + 2);
      }
      expect((await get()).status).to.equal(429);
      body.end();
      await response.text();
      await until(async () => (await get()).status === 200);
    });
  });

  describe('a leaky bucket with maxDelay', () => {
    const paced: Policy = { algorithm: 'leaky-bucket', limit: 20, window: '1s', burst: 1, maxDelay: '150ms' };

    it('holds requests for their turn, each for its own, and denies those that would wait too long', async () => {
      const arrived: number[] = [];
      await serve({ policies: [paced] }, { answer: () => (arrived.push(performance.now()), {}) });
      const start = performance.now();
      // To the store they come at once: its time stands still.
      const answers = await Promise.all(Array.from({ length: 8 }, () => get()));
      expect(answers.filter(({ status }) => status === 200)).to.have.length(4);
      expect(answers.filter(({ status }) => status === 429)).to.have.length(4);
      arrived.forEach((at, i) => expect(at - start).to.be.at.least(50 * i));
    });

    it('gives the slot of a client that leaves back', async () => {
      const policy: Policy = { algorithm: 'leaky-bucket', limit: 1, window: '1m', burst: 1, maxDelay: '1m' };
      const log: string[] = [];
      await serve(
        { policies: [policy] },
        { answer: () => (log.push('answered'), {}), failed: ({ code }) => void log.push(code) },
      );
      expect((await get()).status).to.equal(200);
      const leave = new AbortController();
      const held = get({ signal: leave.signal });
      const limiter = createLimiter({ name: 'limiter-0', store, timeout: '1m', policies: [policy] });
      await until(async () => (await limiter.peek('127.0.0.1')).resetAfterMs === 120_000);
      leave.abort();
      await held.then(
        () => expect.fail('answered'),
        () => {},
      );
      await until(async () => (await limiter.peek('127.0.0.1')).resetAfterMs === 60_000);
      expect(log).to.deep.equal(['answered']);
      await limiter.close();
    });

    it('holds no more than maxWaiting: 503', async () => {
      const policy: Policy = { algorithm: 'leaky-bucket', limit: 1, window: '1m', burst: 1, maxDelay: '5m' };
      await serve({ policies: [policy], maxWaiting: 1 });
      expect((await get()).status).to.equal(200);
      const leave = new AbortController();
      const held = get({ signal: leave.signal }).catch(() => {});
      const limiter = createLimiter({ name: 'limiter-0', store, timeout: '1m', policies: [policy] });
      await until(async () => (await limiter.peek('127.0.0.1')).resetAfterMs === 120_000);
      const full = await get();
      expect(full.status).to.equal(503);
      expect(full.headers).to.include({ 'retry-after': '120', 'cache-control': 'no-store' });
      expect(problem(full)).to.include({ type: `${HANDLED}temporary-reduced-capacity`, status: 503 });
      expect((await limiter.peek('127.0.0.1')).resetAfterMs).to.equal(120_000);
      leave.abort();
      await held;
      await limiter.close();
    });
  });

  describe('fairness of who is held', () => {
    it('of a full queue, the key that holds most gives way to another', async () => {
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

  describe('when the store fails', () => {
    const failing = (): Store => ({
      decide: () => Promise.reject(new Error('away')),
      adjust: () => Promise.reject(new Error('away')),
      lease: () => Promise.reject(new Error('away')),
      reset: () => Promise.reject(new Error('away')),
      ban: () => Promise.reject(new Error('away')),
    });

    const modes = { throw: 500, deny: 503, allow: 200, local: 200 } as const;
    for (const [onStoreError, status] of Object.entries(modes) as [keyof typeof modes, number][]) {
      it(`${onStoreError}: ${status}`, async () => {
        await serve({ policies: [minute(1)], store: failing(), onStoreError });
        const answer = await get();
        expect(answer.status).to.equal(status);
        if (status === 503) {
          expect(answer.headers).to.include({ 'retry-after': '1', 'cache-control': 'no-store' });
          expect(problem(answer)).to.deep.equal({
            type: `${HANDLED}temporary-reduced-capacity`,
            title: 'Temporary Reduced Capacity',
            status: 503,
          });
        }
        if (onStoreError === 'local') expect((await get()).status).to.equal(429);
      });
    }

    it('what cannot be given back fails nothing', async () => {
      const inner = createStore(clock.read);
      const half: Store = { ...failing(), decide: (query) => inner.decide(query) };
      await serve({
        policies: [minute(9), { name: 'slots', algorithm: 'concurrency', limit: 9, lease: '1m' }],
        store: half,
        skipSuccessfulRequests: true,
      });
      expect(await statuses(3)).to.deep.equal([200, 200, 200]);
    });
  });
}

const now = <T>(value: T): T => value;
const later = <T>(value: T): Promise<T> => Promise.resolve(value);

const byHeader =
  (name: string): NonNullable<TestOptions['keyGenerator']> =>
  ({ headers }) =>
    headers[name] as string;

/** A response that goes on. */
function begun() {
  const body = new PassThrough();
  body.write('begun');
  return body;
}

function pick(headers: Answer['headers'], names: RegExp) {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => names.test(name)));
}

function problem({ text }: Answer) {
  return JSON.parse(text) as Record<string, unknown>;
}

function remainingOf({ headers }: Answer): number {
  return Number(headers['ratelimit-remaining']);
}

/** What has been started but not waited for, arrives. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(1);
}

for (const [name, adapter] of Object.entries(adapters)) {
  for (const [kind, createStore] of Object.entries(stores)) {
    // What the adapters do does not depend on which of the two servers it is.
    if (kind === 'valkey') continue;
    describe(`${name} on ${kind}`, () => suite(adapter, createStore));
  }
}
