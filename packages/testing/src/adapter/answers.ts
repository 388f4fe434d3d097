import type { Policy } from 'headgate';
import { expectEqual, expectWithin } from '../expect.js';
import { fieldsOf, problemOf, remainingOf } from './client.js';
import { AWAY, minute, type AdapterSuite, type Options } from './lab.js';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
const PROBLEMS = 'https://iana.org/assignments/http-problem-types#';

/** The number of admitted requests, and the header fields and bodies that clients receive. */
export function answersOf(suite: AdapterSuite): void {
  admissions(suite);
  dialects(suite);
  denials(suite);
}

function admissions(suite: AdapterSuite): void {
  suite.add(
    'requests in one packet: exactly the limit goes on, and each gets its own remaining',
    async (lab) => {
      await lab.serve({ policies: [minute(5)] });
      const answers = await lab.pipeline(12);
      const admitted = answers.filter((answer) => answer.startsWith('HTTP/1.1 200 '));
      const remaining = admitted.map((answer) => Number(/^ratelimit-remaining: (\d+)/im.exec(answer)?.[1]));
      expectEqual('RateLimit-Remaining of those', remaining.sort(), [0, 1, 2, 3, 4]);
      const denied = answers.filter((answer) => answer.startsWith('HTTP/1.1 429 '));
      expectEqual('answers with 429', denied.length, 7);
    },
  );

  suite.add('requests on several connections: exactly the limit goes on', async (lab) => {
    await lab.serve({ policies: [minute(5)] });
    const answers = await Promise.all(Array.from({ length: 12 }, () => lab.get()));
    const having = (status: number) => answers.filter((answer) => answer.status === status);
    expectEqual('RateLimit-Remaining of those', having(200).map(remainingOf).sort(), [0, 1, 2, 3, 4]);
    expectEqual('answers with 429', having(429).length, 7);
  });

  suite.add('after a denial, requests go on at the second of Retry-After, and not before', async (lab) => {
    await lab.serve({ policies: [{ algorithm: 'token-bucket', limit: 1, window: '10s' }] });
    await lab.expectStatuses('two requests', [200, 429]);
    await lab.expect('a third', { headers: { 'retry-after': '10' } });
    lab.clock.now += 9_999;
    await lab.expectStatuses('a request 1 ms before', [429]);
    lab.clock.now += 1;
    await lab.expectStatuses('a request at that second', [200]);
  });
}

const burst: Policy = { name: 'burst', algorithm: 'token-bucket', limit: 20, window: '1s', burst: 40 };
const DRAFT_6 = { 'ratelimit-limit': '9', 'ratelimit-remaining': '8', 'ratelimit-reset': '60' };

const FIELDS: readonly (readonly [
  title: string,
  headers: Options['headers'],
  fields: Record<string, string>,
])[] = [
  [
    'by default, draft-6 and draft-11',
    undefined,
    {
      ...DRAFT_6,
      'ratelimit-policy': '"burst";q=20;w=1, "minute";q=9;w=60',
      ratelimit: '"burst";r=39;t=2, "minute";r=8;t=60',
    },
  ],
  ['draft-6', 'draft-6', { ...DRAFT_6, 'ratelimit-policy': '20;w=1, 9;w=60' }],
  [
    'draft-7',
    'draft-7',
    { ratelimit: 'limit=9, remaining=8, reset=60', 'ratelimit-policy': '20;w=1, 9;w=60' },
  ],
  ['none', false, {}],
];

function dialects(suite: AdapterSuite): void {
  for (const [title, headers, fields] of FIELDS)
    suite.add(`header fields: ${title}`, async (lab) => {
      await lab.serve({ policies: [burst, minute(9)], ...(headers === undefined ? {} : { headers }) });
      expectEqual('the header fields', fieldsOf(await lab.get()), fields);
    });

  suite.add('header fields: legacy, with the date of the reset', async (lab) => {
    await lab.serve({ policies: [minute(3)], headers: 'legacy' });
    const least = Math.ceil(Date.now() / 1000) + 60;
    const fields = fieldsOf(await lab.get());
    const most = Math.ceil(Date.now() / 1000) + 60;
    const names = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'];
    expectEqual('their names', Object.keys(fields).sort(), names);
    expectWithin('X-RateLimit-Reset', Number(fields['x-ratelimit-reset']), least, most);
  });
}

function denials(suite: AdapterSuite): void {
  if (suite.setsHeaders) {
    suite.add('a denial has the header fields that were set before the limiter', async (lab) => {
      const headers = { 'access-control-allow-origin': '*', 'x-request-id': '7' };
      await lab.serve({ policies: [minute(1)] }, undefined, headers);
      await lab.expect('an admission', { headers });
      await lab.expectStatuses('a second request', [429]);
      await lab.expect('a denial', { headers });
    });
  }
  suite.add('a denial has Retry-After, problem details, and must not be cached', async (lab) => {
    await lab.serve({ policies: [minute(1), minute(5, 'other')], headers: false });
    await lab.get();
    const fields = { 'content-type': 'application/problem+json', 'cache-control': 'no-store' };
    const headers = { 'retry-after': '60', ...fields, ratelimit: undefined, etag: undefined };
    const answer = await lab.expect('a denial', { status: 429, headers });
    // A server may omit it and send the body in chunks.
    const { 'content-length': length = String(answer.text.length) } = answer.headers;
    expectEqual('Content-Length', length, String(answer.text.length));
    expectEqual('the body', problemOf(answer), {
      type: `${PROBLEMS}quota-exceeded`,
      title: 'Quota Exceeded',
      status: 429,
      'violated-policies': ['minute'],
    });
  });

  suite.add('a cost that can never be admitted: no Retry-After, but the reason', async (lab) => {
    await lab.serve({ policies: [minute(5)], cost: () => 6 });
    const headers = { 'retry-after': undefined, ratelimit: '"minute";r=5;t=60' };
    const answer = await lab.expect('a cost of 6', { status: 429, headers });
    expectEqual('the type of the detail', typeof problemOf(answer)['detail'], 'string');
  });

  suite.add(
    'a cost that one policy can never admit, and another denies for a time: no Retry-After',
    async (lab) => {
      const cost = (request: unknown) => Number(lab.headerOf(request, 'x-cost') ?? 1);
      await lab.serve({ policies: [minute(1, 'small'), minute(9)], cost });
      await lab.statuses(9);
      const two = { headers: { 'x-cost': '2' } };
      const answer = await lab.expect('a cost of 2', { headers: { 'retry-after': undefined } }, two);
      expectEqual('the type of the detail', typeof problemOf(answer)['detail'], 'string');
      await lab.expect('a cost of 1', { headers: { 'retry-after': '60' } });
    },
  );

  suite.add('HEAD is answered like GET, without a body, and shares its quota', async (lab) => {
    await lab.serve({ policies: [minute(1)] });
    const head = { method: 'HEAD' };
    await lab.expectStatuses('two HEAD requests', [200, 429], head);
    await lab.expect('a denied HEAD', { text: '' }, head);
    await lab.expectStatuses('a GET', [429]);
  });

  suite.add('all methods are limited, and share the quota', async (lab) => {
    await lab.serve({ policies: [minute(METHODS.length)] });
    for (const [i, method] of METHODS.entries())
      await lab.expectRemaining(`after a ${method}`, METHODS.length - 1 - i, { method });
    for (const method of METHODS) await lab.expectStatuses(`a ${method} too many`, [429], { method });
  });

  suite.add('a ban: 429 with its problem type, as long as it lasts', async (lab) => {
    await lab.serve({ policies: [minute(1)], ban: { after: 2, within: '10m', for: '1h' } });
    await lab.expectStatuses('two requests', [200, 429]);
    for (const violated of [['minute'], []]) {
      const headers = { 'retry-after': '3600', ratelimit: '"minute";r=0;t=3600' };
      const banned = await lab.expect('a banned client', { status: 429, headers });
      expectEqual('the body', problemOf(banned), {
        type: `${PROBLEMS}abnormal-usage-detected`,
        title: 'Abnormal Usage Detected',
        status: 429,
        'violated-policies': violated,
      });
    }
    lab.clock.now += 3_600_000;
    await lab.expectStatuses('a request at its end', [200]);
  });

  suite.add('a store that fails: onStoreError decides between 503, 500 and going on', async (lab) => {
    const store = { ...AWAY, decide: AWAY.reset };
    const statuses = { throw: [500], deny: [503], allow: [200, 200], local: [200, 429] } as const;
    for (const [onStoreError, expected] of Object.entries(statuses)) {
      await lab.renew();
      await lab.serve({ policies: [minute(1)], store, onStoreError: onStoreError as keyof typeof statuses });
      await lab.expectStatuses(`onStoreError: '${onStoreError}'`, expected);
      if (onStoreError !== 'deny') continue;
      const headers = { 'retry-after': '1', 'cache-control': 'no-store' };
      const answer = await lab.expect('a denial', { headers });
      expectEqual('the body', problemOf(answer), {
        type: `${PROBLEMS}temporary-reduced-capacity`,
        title: 'Temporary Reduced Capacity',
        status: 503,
      });
    }
  });
}
