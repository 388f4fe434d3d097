import type { Policy } from 'headgate';
import { expectEqual } from '../expect.js';
import { problemOf } from './client.js';
import { begun, minute, answerDecision, type AdapterSuite, type Options } from './lab.js';

const slots: Policy = { name: 'slots', algorithm: 'concurrency', limit: 1, lease: '1m' };

const [draft6, draft7, all] = [
  ['draft-6', 'draft-7'],
  ['draft-7', 'legacy'],
  ['draft-6', 'draft-11', 'legacy'],
] as const;

/** The header fields of an answer after `before` others. */
const FIELDS: readonly (readonly [title: string, limiters: Options[], fields: object, before?: number])[] = [
  [
    'they append to lists, and single fields keep the tightest quota',
    [
      { policies: [minute(2, 'a')], headers: all },
      { policies: [minute(9, 'b')], headers: all },
    ],
    {
      ...{ 'ratelimit-policy': '"a";q=2;w=60, "b";q=9;w=60', ratelimit: '"a";r=1;t=60, "b";r=8;t=60' },
      ...{ 'ratelimit-limit': '2', 'ratelimit-remaining': '1', 'x-ratelimit-limit': '2' },
    },
  ],
  [
    'single fields keep the tightest quota, whichever limiter comes first',
    [
      { policies: [minute(9, 'b')], headers: draft7 },
      { policies: [minute(2, 'a')], headers: draft7 },
    ],
    {
      ...{ 'ratelimit-policy': '9;w=60, 2;w=60', ratelimit: 'limit=2, remaining=1, reset=60' },
      'x-ratelimit-limit': '2',
    },
  ],
  [
    'if one denies, single fields are about it, even if another has less left',
    [
      { policies: [minute(2, 'small')], headers: draft6 },
      { policies: ['bucket=gcra 10/10s'], headers: draft6, cost: () => 6 },
    ],
    {
      ...{ 'ratelimit-limit': '10', 'ratelimit-remaining': '4', 'ratelimit-reset': '2' },
      ...{ ratelimit: 'limit=10, remaining=4, reset=2', 'retry-after': '2' },
    },
    1,
  ],
];

export function stackedLimiters(suite: AdapterSuite): void {
  for (const [title, limiters, headers, before = 0] of FIELDS)
    suite.add(title, async (lab) => {
      await lab.serve(limiters);
      await lab.statuses(before);
      await lab.expect('a request', { headers });
    });

  suite.add(
    'if two dialects share a field, the newer dialect sets it, whichever comes first',
    async (lab) => {
      const [older, newer] = [
        { policies: [minute(2, 'a')], headers: 'draft-7' },
        { policies: [minute(9, 'b')], headers: 'draft-11' },
      ] as const;
      for (const order of [
        [older, newer],
        [newer, older],
      ]) {
        await lab.renew();
        await lab.serve(order);
        const headers = { 'ratelimit-policy': '"b";q=9;w=60', ratelimit: '"b";r=8;t=60' };
        await lab.expect('a request', { headers });
      }
    },
  );

  suite.add('policies of the same name are distinguished by numbers, also in a denial', async (lab) => {
    await lab.serve([
      { policies: [minute(9)] },
      { policies: [minute(8), minute(7, 'minute-3')] },
      { policies: [minute(6, 'hidden')], shadow: true },
      { policies: [minute(5), minute(4, 'minute-4')] },
      { policies: [minute(1), minute(3, 'hidden')] },
    ]);
    const policy =
      '"minute";q=9;w=60, "minute-2";q=8;w=60, "minute-3";q=7;w=60, "minute-5";q=5;w=60, "minute-4";q=4;w=60, ' +
      '"minute-6";q=1;w=60, "hidden";q=3;w=60';
    const rest =
      '"minute";r=8;t=60, "minute-2";r=7;t=60, "minute-3";r=6;t=60, "minute-5";r=4;t=60, "minute-4";r=3;t=60, ' +
      '"minute-6";r=0;t=60, "hidden";r=2;t=60';
    await lab.expect('a request', { headers: { 'ratelimit-policy': policy, ratelimit: rest } });
    const problem = { 'violated-policies': ['minute-6'] };
    await lab.expect('another', { headers: { 'ratelimit-policy': policy }, problem });
  });

  suite.add('if one denies by slots, the older fields stay about the quota', async (lab) => {
    const headers = ['draft-6', 'legacy'] as const;
    const body = begun();
    const limiters = [minute(9), slots].map((policy) => ({ policies: [policy], headers }));
    await lab.serve(limiters, () => ({ body }));
    const response = await lab.begin();
    const fields = { 'retry-after': '60', 'ratelimit-limit': '9', 'x-ratelimit-limit': '9' };
    const left = { 'ratelimit-remaining': '7', 'ratelimit-reset': '60', 'x-ratelimit-remaining': '7' };
    await lab.expect('a request meanwhile', { headers: { ...fields, ...left } });
    body.end();
    await response.text();
  });

  suite.add(
    'they charge nothing for a request that one of them denies, whatever their order',
    async (lab) => {
      const account = { policies: [minute(1, 'account')], keyGenerator: lab.keyBy('x-account') };
      const address = { policies: [minute(3, 'address')], keyGenerator: lab.keyBy('x-address') };
      for (const order of [
        [address, account],
        [account, address],
      ]) {
        await lab.renew();
        await lab.serve(order);
        const as = (user: string) => ({ headers: { 'x-account': user, 'x-address': 'same' } });
        await lab.expectStatuses('ada', [200, 429, 429, 429, 429], as('ada'));
        for (const user of ['bob', 'cy']) await lab.expectStatuses(user, [200], as(user));
        const denied = await lab.get(as('dee'));
        expectEqual('the policy that denies the 4th account', problemOf(denied)['violated-policies'], [
          'address',
        ]);
        lab.clock.now += 60_000;
        await lab.expectStatuses('the denied client, a window later', [200], as('dee'));
      }
    },
  );

  suite.add('they give slots back if one of them denies the request', async (lab) => {
    await lab.serve([
      { policies: [slots], keyGenerator: () => 'all' },
      { policies: [minute(1)], keyGenerator: lab.keyBy('x-user') },
    ]);
    await lab.expectStatuses('a', [200, 429], { headers: { 'x-user': 'a' } });
    await lab.expectStatuses('b', [200], { headers: { 'x-user': 'b' } });
  });

  suite.add('all of them learn that the response has ended', async (lab) => {
    await lab.serve(['a', 'b', 'c'].map((name) => ({ policies: [{ ...slots, name }] })));
    await lab.expectStatuses('the first request', [200]);
    await lab.until('all slots are free again', async () => (await lab.get()).status === 200);
  });

  suite.add('the decision of the latest one is on the request', async (lab) => {
    const policies = [minute(9, 'a'), minute(2, 'b'), minute(5, 'c')];
    await lab.serve(
      policies.map((policy) => ({ policies: [policy] })),
      answerDecision(lab),
    );
    await lab.expect('the answer', { text: 'c 4' });
  });
}
