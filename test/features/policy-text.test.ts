// Policies as text, in every place for a policy.
import { expect } from 'chai';
import express from 'express';
import fc from 'fast-check';
import Fastify from 'fastify';
import {
  createLimiter,
  HeadgateError,
  memoryStore,
  parsePolicy,
  policyText,
  type Limiter,
  type Policy,
} from 'headgate';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { rateLimited, RateLimited } from 'headgate/decorators';
import request from 'supertest';
import { CliError } from '../../packages/cli/src/errors.js';
import { parsePolicies } from '../../packages/cli/src/policy-text.js';
import { zoneName } from '../../src/algorithms/zone-name.js';
import { compilePolicies } from '../../src/contract/compile-policies.js';
import { POLICY_GRAMMAR } from '../../src/contract/policy-text.js';
import { algorithms, policyOf } from '../support/policies.js';
import { runs } from '../support/random.js';

describe('a policy as text', () => {
  const right: [text: string, policy: Policy][] = [
    ['100/1m', { limit: 100, window: '1m' }],
    ['100/m', { limit: 100, window: '1m' }],
    ['  1,000 / 1h ', { limit: 1000, window: '1h' }],
    ['1_000_000/30d', { limit: 1_000_000, window: '30d' }],
    [
      'burst=token-bucket 20/1s burst 40',
      { name: 'burst', algorithm: 'token-bucket', limit: 20, window: '1s', burst: 40 },
    ],
    [
      'b= TOKEN_BUCKET 20/1s burst=40',
      { name: 'b', algorithm: 'token-bucket', limit: 20, window: '1s', burst: 40 },
    ],
    ['5/1.5s segments 3 shadow', { limit: 5, window: '1.5s', segments: 3, shadow: true }],
    ['5/1s unit tokens', { limit: 5, window: '1s', unit: 'tokens' }],
    ['5/1s attempts', { limit: 5, window: '1s', count: 'attempts' }],
    [
      'leaky-bucket 5/1s max-delay 500ms',
      { algorithm: 'leaky-bucket', limit: 5, window: '1s', maxDelay: '500ms' },
    ],
    ['slots=concurrency 10/30s', { name: 'slots', algorithm: 'concurrency', limit: 10, lease: '30s' }],
    ['"per \\"hour\\" = 1"=3/1h', { name: 'per "hour" = 1', limit: 3, window: '1h' }],
    [' "per hour" = 3/1h', { name: 'per hour', limit: 3, window: '1h' }],
    ['a/b=100/1m', { name: 'a/b', limit: 100, window: '1m' }],
  ];
  for (const [text, policy] of right) {
    it(text, () => expect(parsePolicy(text)).to.deep.equal(policy));
  }

  const wrong: [text: string, ...says: string[]][] = [
    ['', 'quota', "'100/1m'"],
    ['name=', 'quota'],
    ['100', 'at character 1: "100" ', "'100/1m'"],
    ['100/1m/2', '"100/1m/2" '],
    ['x/1m', 'at character 1: "x/1m" ', 'sliding-window'],
    ['a=-5/1m', 'at character 3: "-5" '],
    ['100/1x', 'at character 5: "1x" ', "'15m'"],
    ['a=b=100/1m', 'at character 3: "b=100/1m" ', 'sliding-window'],
    ['100/1m burst=', 'at character 8: "burst=" '],
    ['100 / 1x', 'at character 7: "1x" '],
    ['100/60', 'at character 5: "60" '],
    ['5/400d', 'at character 3: "400d" ', '366 days'],
    ['token-buket 100/1m', 'at character 1: "token-buket" ', 'token-bucket'],
    ['token-bucket 20/1s burst', 'at character 20: "burst" ', "'burst 40'"],
    ['token-bucket 20/1s burst many', 'at character 26: "many" '],
    ['b=token-bucket 20/1s burst=many', 'at character 28: "many" '],
    ['token-bucket 20/1s burst 1 burst 2', 'at character 28: "burst" ', 'twice'],
    ['100/1m brust 2', 'at character 8: "brust" ', 'unit, attempts, shadow, thresholds. See'],
    [
      '100/1m burst 4',
      'at character 8: "burst" ',
      'sliding-window',
      'unit, attempts, shadow, thresholds. See',
    ],
    ['concurrency 5/1s attempts', 'at character 18: "attempts" ', 'concurrency'],
    ['0/1m', '.limit: 0 ', '"0" at character 1 of "0/1m"'],
    ['a=1/1s segments 0', '.segments: 0 ', '"segments" at character 8'],
    ['"é"=1/1s', '.name: "é" ', '"é" at character 1'],
    ['  "é"=1/1s', '.name: "é" ', '"é" at character 3'],
    ['  é=1/1s', '.name: "é" ', '"é" at character 3'],
  ];
  for (const [text, ...says] of wrong) {
    it(`refuses ${JSON.stringify(text)}`, () => {
      for (const read of [() => parsePolicy(text), () => createLimiter({ policies: ['1/1s', text] })]) {
        expect(read).to.throw(HeadgateError).with.property('code', 'HEADGATE_INVALID_OPTION');
        for (const words of says) expect(read).to.throw(words);
      }
    });
  }

  it('has its grammar in one line', () => {
    expect(POLICY_GRAMMAR).to.equal(
      '[name=][algorithm ]limit/window [time-zone name] [anchor day] [by name] [share name] [weight n] [burst n] [segments n] ' +
        '[max-delay time] [unit name] [attempts] [shadow] [thresholds n% ...]',
    );
  });

  it('refuses a value that is not text', () => {
    for (const wrong of [undefined, 5, null, ['1/1s']])
      expect(() => parsePolicy(wrong as never)).to.throw('1m');
  });

  it('an error names the position among several', () => {
    expect(() => createLimiter({ policies: ['1/1s', '2/1x'] })).to.throw(
      'policies[1]: "2/1x", at character 3',
    );
    expect(() => createLimiter('2/1x')).to.throw('policies: "2/1x", at character 3');
  });
});

/** The compiled meaning of a policy, in text or as data. */
const meaningOf = (policy: Policy | string) => {
  const [{ source: _, sent: _sent, traits, ...meaning }] = compilePolicies('policy', [policy]) as [
    ReturnType<typeof compilePolicies>[0],
  ];
  return { ...meaning, capacity: traits.capacity };
};

const named = fc
  .tuple(
    fc.constantFrom(...algorithms).chain((algorithm) => policyOf(algorithm)),
    fc.option(fc.string({ minLength: 1, maxLength: 64, unit: 'grapheme-ascii' }), { nil: undefined }),
    fc.record(
      {
        shadow: fc.boolean(),
        count: fc.constantFrom('admitted', 'attempts'),
        by: fc.oneof(
          fc.constantFrom('key', 'by', 'shadow', 'account'),
          fc.stringMatching(/^[A-Za-z][\w-]{0,31}$/),
        ),
      },
      { requiredKeys: [] },
    ),
  )
  .map(([policy, name, { shadow, count, by }]) => ({
    ...policy,
    ...(by !== undefined && { by }),
    ...(name !== undefined && { name }),
    ...(shadow !== undefined && { shadow }),
    ...(count && policy.algorithm !== 'concurrency' && !('maxDelay' in policy) && { count }),
  })) as fc.Arbitrary<Policy>;

describe('the canonical text of a policy', () => {
  it('is read as the same policy, and written as the same text', () =>
    fc.assert(
      fc.property(named, (policy) => {
        const text = policyText(policy);
        const read = parsePolicy(text);
        expect(meaningOf(read)).to.deep.equal(meaningOf(policy));
        expect(policyText(read)).to.equal(text);
        expect(parsePolicy(policyText(read))).to.deep.equal(read);
      }),
      runs('memory', 500, 0),
    ));

  it('spells a zone as IANA does, including aliases, whatever this Node’s own spelling', () => {
    const aliases = [
      'Asia/Kolkata',
      'US/East-Indiana',
      'Australia/NSW',
      'GB-Eire',
      'EST5EDT',
      'Etc/GMT+5',
      'PRC',
      'Japan',
    ];
    const odd = ['America/Argentina/ComodRivadavia', 'Asia/Ho_Chi_Minh', 'Etc/Zulu', 'W-SU', '+05:45'];
    for (const zone of [...Intl.supportedValuesOf('timeZone'), ...aliases, ...odd])
      for (const text of [zone, zone.toLowerCase(), zone.toUpperCase()])
        expect(zoneName(text)).to.equal(zone);
  });

  it('is unique for each state: zones are distinguished by their names, in upper or lower case', () => {
    const of = (timeZone: string): Policy => ({ algorithm: 'calendar', limit: 5, period: 'day', timeZone });
    const idOf = (policy: Policy) => compilePolicies('policies', [policy])[0]!.id;
    const zones = ['asia/kolkata', 'Asia/Kolkata', 'ASIA/CALCUTTA', 'Asia/Calcutta', 'utc', 'UTC', 'GMT'];
    const texts = new Map(zones.map((zone) => [idOf(of(zone)), policyText(of(zone))]));
    for (const zone of zones) expect(policyText(of(zone))).to.equal(texts.get(idOf(of(zone))));
    expect([...texts.values()]).to.deep.equal([
      'calendar 5/day Asia/Kolkata',
      'calendar 5/day Asia/Calcutta',
      'calendar 5/day',
      'calendar 5/day time-zone GMT',
    ]);
  });

  it('is the same for all policies with the same meaning', () => {
    const same: [text: string, ...others: (Policy | string)[]][] = [
      [
        '100/1m',
        'sliding_window 100/60s segments 10',
        { limit: 100, window: 60_000, name: 'default', shadow: false, count: 'admitted' },
      ],
      ['token-bucket 5/1s', { algorithm: 'token-bucket', limit: 5, window: '1000ms', burst: 5 }],
      ['5/1m by org', { limit: 5, window: '1m', by: 'org' }, '5/1m by=org'],
      ['5/1m', '5/1m by key', { limit: 5, window: '1m', by: 'key' }],
      ['leaky-bucket 5/1s', 'leaky-bucket 5/1s max-delay 0s'],
      ['concurrency 5/1d', { algorithm: 'concurrency', limit: 5, lease: '24h' }],
      ['"a b"=1/1500ms', '"a b"=1/1.5s'],
      ['calendar 5/week', 'calendar 5/week anchor Monday', 'calendar 5/week anchor 2026-01-05'],
      ['calendar 5/month anchor 31', 'calendar 5/month anchor 2026-01-31'],
      ['calendar 5/month', 'calendar 5/month anchor 1', 'calendar 5/month anchor 2026-01-01'],
      ['calendar 5/year anchor 07-01', 'calendar 5/year anchor 2026-07-01'],
    ];
    for (const [text, ...others] of same)
      for (const other of [text, ...others]) expect(policyText(other)).to.equal(text);
  });
});

describe('text is accepted in every place for a policy', () => {
  const textsOf = ({ policies }: Limiter) => policies.map(({ source }) => policyText(source));
  const open: Limiter[] = [];
  const kept = (limiter: Limiter) => {
    open.push(limiter);
    return limiter;
  };
  afterEach(() => Promise.all(open.splice(0).map((limiter) => limiter.close())));

  it('createLimiter, its policies, and sets', async () => {
    expect(textsOf(kept(createLimiter('3/1m')))).to.deep.equal(['3/1m']);
    expect(textsOf(kept(createLimiter({ policies: '3/1m' })))).to.deep.equal(['3/1m']);
    const limiter = kept(createLimiter({ policies: ['a=3/1m', { name: 'b', limit: 1, window: '1s' }] }));
    expect(textsOf(limiter)).to.deep.equal(['a=3/1m', 'b=1/1s']);
    expect(await limiter.decide('k', 1, limiter.compile('9/1m'))).to.include({ remaining: 8 });
  });

  it('a name is shared by text and data that mean the same', () => {
    const store = memoryStore();
    kept(createLimiter({ name: 'x', store, policies: ['100/60s'] }));
    kept(createLimiter({ name: 'x', store, limit: 100, window: '1m' }));
    expect(() => createLimiter({ name: 'x', store, policies: '101/1m' })).to.throw(
      HeadgateError,
      /100\/1m.*101\/1m/,
    );
  });

  it('the unit is in the headers', async () => {
    const app = express();
    const units = [
      'a=9/1m unit content-bytes',
      'b=8/1m unit requests',
      { name: 'c', limit: 7, window: '1m', unit: 'gpu.s' },
    ];
    app.get('/', rateLimit({ policies: units }), (_req, res) => void res.send('ok'));
    expect((await request(app).get('/')).headers['ratelimit-policy']).to.equal(
      '"a";q=9;w=60;qu="content-bytes", "b";q=8;w=60, "c";q=7;w=60;qu="gpu.s"',
    );
    expect(() => createLimiter('9/1m unit ü')).to.throw('.unit: "ü"');
    expect(policyText('8/1m unit requests')).to.equal('8/1m');
  });

  it('Express', async () => {
    const app = express();
    app.get('/one', rateLimit('1/1m'), (_req, res) => void res.send('ok'));
    app.get('/fn', rateLimit({ policies: (req) => [req.query['limit'] as string] }), (_req, res) => {
      res.send('ok');
    });
    expect((await request(app).get('/one')).headers['ratelimit-policy']).to.equal('"default";q=1;w=60');
    expect((await request(app).get('/one')).status).to.equal(429);
    expect((await request(app).get('/fn?limit=7/1h')).headers['ratelimit-limit']).to.equal('7');
    expect(() => rateLimit('1/1x')).to.throw('at character 3');
  });

  it('Fastify: the plugin, routes, hooks', async () => {
    const app = Fastify();
    await app.register(rateLimitPlugin, { policies: '9/1m' });
    app.get('/global', () => 'ok');
    app.get('/route', { config: { rateLimit: '5/10s' } }, () => 'ok');
    app.get('/two', { config: { rateLimit: ['a=5/10s', { policies: ['b=50/1m'] }] } }, () => 'ok');
    app.get('/hook', { config: { rateLimit: false }, onRequest: app.rateLimit('4/1s') }, () => 'ok');
    const policyOf = async (url: string) => (await app.inject(url)).headers['ratelimit-policy'];
    expect(await policyOf('/global')).to.equal('"global";q=9;w=60');
    expect(await policyOf('/route')).to.equal('"/route";q=5;w=10');
    expect(await policyOf('/two')).to.equal('"a";q=5;w=10, "b";q=50;w=60');
    expect(await policyOf('/hook')).to.equal('"default";q=4;w=1');
    await app.close();
  });

  it('functions and methods', async () => {
    class Mailer {
      @RateLimited('1/1m')
      async send(to: string): Promise<string> {
        return Promise.resolve(to);
      }
    }
    const mailer = new Mailer();
    expect(await mailer.send('ada')).to.equal('ada');
    const code = await mailer.send('bob').catch((error: HeadgateError) => error.code);
    expect(code).to.equal('HEADGATE_DENIED');
    const twice = rateLimited((n: number) => 2 * n, '5/1m');
    kept(twice.limiter);
    expect(await twice(4)).to.equal(8);
    expect(textsOf(twice.limiter)).to.deep.equal(['5/1m']);
  });

  it('the command line, where JSON may be beside it', () => {
    const json = '[{"name":"a","limit":1,"window":"1s"},"b=2/1m"]';
    expect(parsePolicies([json, 'c=3/1h', '{"name":"d","limit":3,"window":1500}'])).to.deep.equal([
      { name: 'a', limit: 1, window: '1s' },
      { name: 'b', limit: 2, window: '1m' },
      { name: 'c', limit: 3, window: '1h' },
      { name: 'd', limit: 3, window: 1500 },
    ]);
    for (const [texts, values] of [
      [['{"limit":'], '--policy: '],
      [['100/1m brust 2'], '--policy: "100/1m brust 2", at character 8'],
      [['a=1/1s', 'a=1/1s'], '"a"'],
    ] as const) {
      expect(() => parsePolicies(texts))
        .to.throw(CliError, values)
        .with.property('code', 'USAGE');
    }
  });
});

describe('fields of another algorithm', () => {
  it('a month of the calendar, and the lease of slots', () => {
    expect(() => createLimiter('10000/month')).to.throw(/'calendar 10000\/month'/);
    expect(() => createLimiter({ algorithm: 'concurrency', limit: 5, window: '1m' } as never)).to.throw(
      /concurrency .*'window'.*lease/,
    );
  });
});
