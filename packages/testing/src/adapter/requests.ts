import { createLimiter, type Decision, type Policy } from 'headgate';
import { expectEqual, expectFields } from '../expect.js';
import { problemOf } from './client.js';
import { LATER, minute, answerDecision, type AdapterSuite, type Options } from './lab.js';

/** Options that derive the limit from a request. */
export function requestsOf(suite: AdapterSuite): void {
  addresses(suite);
  for (const [title, wrap] of Object.entries(LATER)) functions(suite, title, wrap);
  failures(suite);
  lists(suite);
  answers(suite);
  dimensions(suite);
}

const ADDRESSES: readonly (readonly [first: string, second: string, same: boolean, why: string])[] = [
  ['192.0.2.1', '::ffff:192.0.2.1', true, 'IPv4 and the same mapped into IPv6'],
  ['192.0.2.1', '::ffff:c000:201', true, 'mapped, in hexadecimal'],
  ['2001:db8:1:200::1', '2001:db8:1:2ff:ffff::2', true, 'IPv6 of one /56'],
  ['2001:DB8:0:0::1', '2001:db8::1', true, 'IPv6 in other forms'],
  ['fe80::1%eth0', 'fe80::1%eth1', true, 'IPv6 with a zone'],
  ['192.0.2.1', '192.0.2.2', false, 'IPv4 addresses'],
  ['::ffff:192.0.2.1', '::ffff:192.0.2.2', false, 'mapped addresses'],
  ['2001:db8:1:200::1', '2001:db8:1:300::1', false, 'IPv6 networks'],
];

function addresses(suite: AdapterSuite): void {
  for (const [first, second, same, why] of ADDRESSES)
    suite.add(`the key ${same ? 'is one for' : 'differs between'} ${why}`, async (lab) => {
      await lab.serve({ policies: [minute(1)] });
      await lab.expectStatuses(`a request from ${first}`, [200], { from: first });
      await lab.expectStatuses(`a request from ${second}`, [same ? 429 : 200], { from: second });
    });

  suite.add('the key is the network of the length ipv6Subnet', async (lab) => {
    await lab.serve([
      { policies: [minute(1)], ipv6Subnet: 128 },
      { policies: [minute(2)], ipv6Subnet: 32 },
    ]);
    await lab.expectStatuses('an address', [200, 429], { from: '2001:db8::1' });
    await lab.expectStatuses('another of its /32', [200], { from: '2001:db8::2' });
    await lab.expectStatuses('a third of its /32', [429], { from: '2001:db8:ffff::3' });
  });

  suite.add('a client address that is not an address fails the request', async (lab) => {
    await lab.serve({ policies: [minute(1)] });
    for (const from of ['unknown', '1.2.3', '192.0.2.1:80', '010.0.0.1', "'; DROP"])
      expectFields(`from ${from}`, await lab.get({ from }), { status: 500, text: 'HEADGATE_NO_CLIENT_IP' });
  });
}

const as = (user: string) => ({ headers: { 'x-user': user } });

function functions(suite: AdapterSuite, title: string, wrap: <T>(value: T) => T | Promise<T>): void {
  suite.add(
    `keyGenerator (${title}): undefined does not limit, another value than a string fails`,
    async (lab) => {
      await lab.serve({
        policies: [minute(1)],
        keyGenerator: (request) => {
          const user = lab.headerOf(request, 'x-user');
          return wrap(user === 'number' ? (42 as unknown as string) : user);
        },
      });
      await lab.expectStatuses('a user', [200, 429], as('a'));
      await lab.expectStatuses('another', [200], as('b'));
      await lab.expectStatuses('a client without a key', [200, 200, 200]);
      expectFields('a client without a key', (await lab.get()).headers, { ratelimit: undefined });
      expectFields('a number', await lab.get(as('number')), { status: 500, text: 'HEADGATE_INVALID_KEY' });
    },
  );

  suite.add(`cost (${title}): 0 looks, and an invalid cost fails`, async (lab) => {
    const cost = (request: unknown) => wrap(Number(lab.headerOf(request, 'x-cost')));
    await lab.serve({ policies: [minute(5)], cost });
    const costing = (cost: string) => ({ headers: { 'x-cost': cost } });
    await lab.expectRemaining('after 3 of 5', 2, costing('3'));
    await lab.expectStatuses('3 of 2', [429], costing('3'));
    await lab.expectRemaining('after a look', 2, costing('0'));
    expectFields('1.5', await lab.get(costing('1.5')), { status: 500, text: 'HEADGATE_INVALID_COST' });
    await lab.expectRemaining('after 2 of 2', 0, costing('2'));
    await lab.expectStatuses('a look at nothing left', [200], costing('0'));
  });

  suite.add(`cost (${title}): by policy name, and an unknown name fails`, async (lab) => {
    await lab.serve({
      policies: [minute(5, 'requests'), 'tokens=fixed-window 1000/1m unit tokens'],
      cost: (request) =>
        wrap({ [lab.headerOf(request, 'x-name') ?? 'tokens']: Number(lab.headerOf(request, 'x-cost')) }),
    });
    const costing = (cost: string, name = 'tokens') => ({ headers: { 'x-cost': cost, 'x-name': name } });
    const ratelimit = '"requests";r=4;t=60, "tokens";r=200;t=60';
    const policy = '"requests";q=5;w=60, "tokens";q=1000;w=60;qu="tokens"';
    await lab.expect('800', { headers: { ratelimit, 'ratelimit-policy': policy } }, costing('800'));
    await lab.expect(
      '300 more',
      { status: 429, problem: { 'violated-policies': ['tokens'] } },
      costing('300'),
    );
    await lab.expectStatuses('200 more', [200], costing('200'));
    const unknown = { status: 500, text: 'HEADGATE_UNKNOWN_POLICY' };
    await lab.expect('another name', unknown, costing('1', 'token'));
  });

  suite.add(`skip (${title})`, async (lab) => {
    const skip = (request: unknown) => wrap(lab.headerOf(request, 'x-user') === 'skipped');
    await lab.serve({ policies: [minute(1)], skip });
    await lab.expectStatuses('a skipped client', [200, 200, 200], as('skipped'));
    await lab.expectStatuses('another client', [200, 429]);
  });

  suite.add(`policies (${title}): a change of the tier keeps the charges`, async (lab) => {
    const tiers: Record<string, Policy[]> = { free: [minute(2)], pro: [minute(4)] };
    await lab.serve({ policies: (request) => wrap(tiers[lab.headerOf(request, 'x-user')!]!) });
    await lab.expectStatuses('the small tier', [200, 200, 429], as('free'));
    await lab.expectStatuses('the large tier', [200, 200, 429], as('pro'));
    expectFields('no tier', await lab.get(as('none')), { status: 500, text: 'HEADGATE_INVALID_OPTION' });
    tiers['pro']![0]!.limit = 5;
    await lab.expectStatuses('a limit that was raised in place', [200, 429], as('pro'));
  });

  suite.add(`tiers by a function of the request (${title})`, async (lab) => {
    const tiers = { free: [minute(2)], pro: [minute(4)] };
    await lab.serve({ tiers, tier: (request) => wrap(lab.headerOf(request, 'x-user')) });
    await lab.expectStatuses('the small tier', [200, 200, 429], as('free'));
    await lab.expectStatuses('the large tier', [200, 200, 429], as('pro'));
    expectFields('no tier', await lab.get(as('none')), { status: 500, text: 'HEADGATE_UNKNOWN_TIER' });
  });

  suite.add(`a limiter with tiers, and policies for requests without one (${title})`, async (lab) => {
    const limiter = createLimiter({ limit: 1, window: '1m', tiers: { pro: '3/1m' } });
    const tier = (request: unknown) => wrap(lab.headerOf(request, 'x-user') === 'pro' ? 'pro' : undefined);
    await lab.serve({ limiter, tier });
    await lab.expectStatuses('no tier', [200, 429], as('ada'));
    await lab.expectStatuses('a tier', [200, 200, 429], as('pro'));
    await limiter.close();
  });

  suite.add(`allowList and denyList by keys and by function (${title})`, async (lab) => {
    const seen: string[] = [];
    await lab.serve({
      policies: [minute(1)],
      keyGenerator: lab.keyBy('x-user'),
      allowList: ['friend'],
      denyList: (_request, key) => wrap(key === 'foe'),
      onDecision: ({ key, reason }) => void seen.push(`${key} ${reason}`),
    });
    await lab.expectStatuses('an allowed client', [200, 200], as('friend'));
    await lab.expectStatuses('a denied client', [403], as('foe'));
    await lab.expectStatuses('a client in neither list', [200, 429], as('other'));
    const expected =
      'friend allow-listed,friend allow-listed,foe deny-listed,other undefined,other quota-exceeded';
    expectEqual('the decisions', String(seen), expected);
  });
}

function failures(suite: AdapterSuite): void {
  const fails = () => {
    throw new Error('thrown');
  };
  for (const [title, fail] of Object.entries({ throws: fails, rejects: () => Promise.resolve().then(fails) }))
    for (const option of ['skip', 'keyGenerator', 'cost', 'policies', 'allowList', 'denyList'] as const)
      suite.add(`${option} that ${title}, fails the request`, async (lab) => {
        await lab.serve({ policies: [minute(1)], [option]: fail });
        expectFields('the answer', await lab.get(), { status: 500, text: 'thrown' });
      });
}

function lists(suite: AdapterSuite): void {
  suite.add('denyList answers 403, before allowList, and charges nothing', async (lab) => {
    await lab.serve({
      policies: [minute(1)],
      denyList: ['192.0.2.0/24', '2001:db8:bad::/48'],
      allowList: ['192.0.2.1', '198.51.100.7'],
    });
    const headers = { 'cache-control': 'no-store', 'retry-after': undefined, ratelimit: undefined };
    for (const from of ['192.0.2.1', '::ffff:192.0.2.9', '2001:db8:bad::1']) {
      const answer = await lab.expect(from, { status: 403, headers }, { from });
      expectEqual('the body', problemOf(answer), { type: 'about:blank', title: 'Forbidden', status: 403 });
    }
    await lab.expectStatuses('an allowed client', [200, 200, 200], { from: '198.51.100.7' });
    await lab.expectStatuses('a client in neither list', [200, 429], { from: '203.0.113.1' });
  });

  suite.add('lists also decide if the policies depend on the request', async (lab) => {
    const [allowList, denyList] = [['friend'], ['foe']];
    await lab.serve({ policies: () => [minute(1)], keyGenerator: lab.keyBy('x-user'), allowList, denyList });
    await lab.expectStatuses('an allowed client', [200, 200], as('friend'));
    await lab.expectStatuses('a denied client', [403], as('foe'));
    await lab.expectStatuses('a client in neither list', [200, 429], as('other'));
  });
}

function answers(suite: AdapterSuite): void {
  suite.add('statusCode', async (lab) => {
    await lab.serve({ policies: [minute(1)], statusCode: 420 });
    await lab.get();
    await lab.expect('a denial', { status: 420, problem: { status: 420 } });
  });

  suite.add('handler answers instead, with status and header fields set', async (lab) => {
    const handler: Options['handler'] = (_request, response, { policy }) =>
      lab.respond(response, `denied by ${policy}`);
    await lab.serve({ policies: [minute(1)], handler });
    await lab.get();
    const headers = { 'retry-after': '60', ratelimit: '"minute";r=0;t=60' };
    await lab.expect('a denial', { status: 429, text: 'denied by minute', headers });
  });

  suite.add('a handler that fails makes the request fail', async (lab) => {
    await lab.serve({ policies: [minute(1)], handler: () => Promise.reject(new Error('late')) });
    await lab.get();
    expectFields('the answer', await lab.get(), { status: 500, text: 'late' });
  });

  suite.add('onDecision receives every decision and its request', async (lab) => {
    const seen: unknown[] = [];
    const onDecision: Options['onDecision'] = ({ allowed, key }, request) =>
      void seen.push([allowed, key, lab.headerOf(request, 'x-user')]);
    await lab.serve({ policies: [minute(1)], keyGenerator: () => 'all', onDecision });
    await lab.statuses(2, { headers: { 'x-user': 'ada' } });
    expectEqual('the decisions that it received', seen.map(String), ['true,all,ada', 'false,all,ada']);
  });

  suite.add('a shadow decides and reports, and shows the client nothing', async (lab) => {
    const reasons: Decision['reason'][] = [];
    const onDecision: Options['onDecision'] = ({ reason }) => void reasons.push(reason);
    await lab.serve({ policies: [minute(1)], shadow: true, onDecision });
    await lab.expectStatuses('two requests', [200, 200]);
    await lab.expect('a third', { headers: { ratelimit: undefined, 'retry-after': undefined } });
    expectEqual('the reasons', reasons, [undefined, 'quota-exceeded', 'quota-exceeded']);
  });

  suite.add('a shadow policy is not enforced, and not shown to the client', async (lab) => {
    await lab.serve({ policies: [{ ...minute(1, 'strict'), shadow: true }, minute(2)] });
    const fields = { 'ratelimit-policy': '"minute";q=2;w=60', ratelimit: '"minute";r=1;t=60' };
    await lab.expect('a request', { headers: { ...fields, 'ratelimit-limit': '2' } });
    await lab.expectStatuses('two more', [200, 429]);
  });

  suite.add('limiter: a limiter of createLimiter can be shared by routes and code', async (lab) => {
    const limiter = lab.limiter({ name: 'own', policies: [minute(3)] });
    await lab.serve({ limiter, keyGenerator: () => 'k' });
    await limiter.consume('k');
    await lab.expectStatuses('the units left by the code', [200, 200, 429]);
    await limiter.reset('k');
    await lab.expectStatuses('a request after a reset', [200]);
  });

  suite.add('the decision is on the request', async (lab) => {
    await lab.serve({ policies: [minute(2)] }, answerDecision(lab));
    await lab.expect('the answer', { text: 'minute 1' });
  });

  suite.add('enabled: a request is limited if it is true at that moment', async (lab) => {
    let enabled = false;
    await lab.serve({ policies: [minute(1)], enabled: () => enabled });
    await lab.expectStatuses('requests while it is off', [200, 200, 200]);
    enabled = true;
    await lab.expectStatuses('requests while it is on', [200, 429]);
  });
}

/** Policies by several keys. */
function dimensions(suite: AdapterSuite): void {
  const account = 'account=1/1m by account';
  const from = (from: string, name: string) => ({ from, headers: { 'x-account': name } });

  for (const [title, wrap] of Object.entries(LATER))
    suite.add(
      `keys (${title}): policies count the key of their dimension, if the request has one`,
      async (lab) => {
        const keys = { account: (request: unknown) => wrap(lab.headerOf(request, 'x-account')) };
        await lab.serve({ policies: [minute(3), account], keys });
        await lab.expectStatuses('an account', [200, 429], from('192.0.2.1', 'a'));
        await lab.expectStatuses('the account, from elsewhere', [429], from('192.0.2.2', 'a'));
        await lab.expectStatuses('another account', [200], from('192.0.2.1', 'b'));
        await lab.expectStatuses('no account', [200, 429], { from: '192.0.2.1' });
      },
    );

  suite.add('partitionKey: the header fields distinguish clients without naming them', async (lab) => {
    const partitionKey = 'a secret of sixteen or more';
    await lab.serve({ policies: [minute(9)], keyGenerator: lab.keyBy('x-user'), partitionKey });
    const keyOf = async (user: string): Promise<string | undefined> =>
      /;pk=(:[\w+/]+=*:)/.exec((await lab.get(as(user))).headers['ratelimit'] ?? '')?.[1];
    const [ada, again, bob] = [await keyOf('ada'), await keyOf('ada'), await keyOf('bob')];
    expectEqual('whether there is a key', ada !== undefined, true);
    expectEqual('the key of the same client', again, ada);
    expectEqual('whether another client has the same', bob === ada, false);
  });

  suite.add(
    'jitter: Retry-After is later by up to that much, never earlier; no other field is',
    async (lab) => {
      await lab.serve({ policies: ['hour=fixed-window 1/1h'], jitter: '1h' });
      await lab.expectStatuses('the first request', [200]);
      const waits: number[] = [];
      const denied = { status: 429, headers: { ratelimit: '"hour";r=0;t=3600', 'ratelimit-reset': '3600' } };
      for (let i = 0; i < 4; i++)
        waits.push(Number((await lab.expect('a denial', denied)).headers['retry-after']));
      expectEqual(
        'waits of one to two hours',
        waits.filter((wait) => wait >= 3600 && wait <= 7200).length,
        4,
      );
      expectEqual('whether all waits are the same', new Set(waits).size === 1, false);
      lab.clock.now += Math.min(...waits) * 1000;
      await lab.expectStatuses('a request at the earliest of these', [200]);
    },
  );
}
