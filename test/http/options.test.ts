// Wrong options are reported when the limiter is created: the option, the value, and the fix.
import { expect } from 'chai';
import Fastify from 'fastify';
import { createLimiter, memoryStore, type HeadgateError } from 'headgate';
import { rateLimit, type RateLimitOptions } from 'headgate/express';
import { rateLimitPlugin, type RateLimitPluginOptions } from 'headgate/fastify';
import { compileOptions } from '../../src/http/compile-options.js';
import { codeThrownBy } from '../support/errors.js';

const fine = { limit: 5, window: '1m' };

/** Options, the option that the error names, and the values in its message. */
const wrong: [options: object, option: string, says?: RegExp][] = [
  [{ limit: undefined }, 'limit'],
  [{ window: '1m' }, 'limit'],
  [{ limit: 5 }, 'window'],
  [{ ...fine, limit: NaN }, 'limit', /NaN/],
  [{ ...fine, limit: '5' }, 'limit', /"5"/],
  [{ ...fine, window: 'soon' }, 'window', /"soon".*'10s'/],
  [{ ...fine, policies: [fine] }, 'limit, window', /policies/],
  [{ policies: [] }, 'policies'],
  [{ policies: [fine, { ...fine, limit: -1 }] }, 'policies[1].limit', /-1/],
  [{ policies: 'strict' }, 'policies'],
  [{ ...fine, name: '' }, 'name'],
  [{ ...fine, name: 5 }, 'name'],
  [{ ...fine, keyGenerator: 'ip' }, 'keyGenerator', /"ip".*function/],
  [{ ...fine, keys: {} }, 'keys', /account: \(req\)/],
  [{ ...fine, keys: 'account' }, 'keys'],
  [{ ...fine, keys: null }, 'keys'],
  [{ ...fine, keys: [() => 'ada'] }, 'keys', /account: \(req\)/],
  [{ ...fine, by: 'account', keys: { account: 'id' } }, 'keys.account', /"id".*function/],
  [{ ...fine, by: 'account', keys: { account: undefined } }, 'keys.account'],
  [{ ...fine, keys: { 'the org': () => 'x' } }, 'keys', /the org/],
  [{ ...fine, keys: { key: () => 'x' } }, 'keys.key', /keyGenerator/],
  [{ ...fine, by: '' }, 'policy.by'],
  [{ ...fine, acrossSlots: 'yes' }, 'acrossSlots'],
  [{ ...fine, ipv6Subnet: 0 }, 'ipv6Subnet', /\b1 .*\b128\b/],
  [{ ...fine, ipv6Subnet: 129 }, 'ipv6Subnet'],
  [{ ...fine, ipv6Subnet: 55.5 }, 'ipv6Subnet'],
  [{ ...fine, ipv6Subnet: false }, 'ipv6Subnet'],
  [{ ...fine, cost: -1 }, 'cost', /-1/],
  [{ ...fine, cost: 1.5 }, 'cost'],
  [{ ...fine, cost: Infinity }, 'cost'],
  [{ ...fine, cost: '1' }, 'cost'],
  [{ ...fine, skip: true }, 'skip'],
  [{ ...fine, allowList: '10.0.0.1' }, 'allowList'],
  [{ ...fine, allowList: '' }, 'allowList'],
  [{ ...fine, denyList: ['10.0.0.0/33'] }, 'denyList[0]', /10\.0\.0\.0\/33/],
  [{ ...fine, denyList: null }, 'denyList'],
  [{ ...fine, headers: true }, 'headers', /true.*'draft-6'/],
  [{ ...fine, headers: 'draft-8' }, 'headers', /"draft-8"/],
  [{ ...fine, headers: ['draft-6', 'draft-12'] }, 'headers'],
  [{ ...fine, headers: [] }, 'headers', /false/],
  [{ ...fine, headers: ['legacy', 'legacy-seconds'] }, 'headers', /same fields/],
  [{ ...fine, statusCode: 200 }, 'statusCode', /\b400 .*\b599\b/],
  [{ ...fine, statusCode: '429' }, 'statusCode'],
  [{ ...fine, jitter: 10 }, 'jitter', /\b1000 /],
  [{ ...fine, jitter: true }, 'jitter'],
  [{ ...fine, handler: 'Too many requests' }, 'handler'],
  [{ ...fine, requestId: 'id' }, 'requestId', /function/],
  [{ ...fine, idsFor: '1ms' }, 'idsFor'],
  [{ ...fine, skipSuccessfulRequests: 1 }, 'skipSuccessfulRequests'],
  [{ ...fine, skipFailedRequests: 'yes' }, 'skipFailedRequests'],
  [{ ...fine, refundAborted: 1 }, 'refundAborted'],
  [{ ...fine, renewFor: null }, 'renewFor'],
  [{ ...fine, renewFor: 'long' }, 'renewFor', /'1h'/],
  [{ ...fine, requestWasSuccessful: 200 }, 'requestWasSuccessful'],
  [{ ...fine, onDecision: console }, 'onDecision'],
  [{ ...fine, maxWaiting: 0 }, 'maxWaiting'],
  [{ ...fine, maxWaitingPerKey: 0 }, 'maxWaitingPerKey'],
  [{ ...fine, maxWaiting: 50, maxWaitingPerKey: 51 }, 'maxWaitingPerKey', /\b1 .*\b50\b/],
  [{ ...fine, shadow: 'yes' }, 'shadow'],
  [{ ...fine, enabled: 'yes' }, 'enabled'],
  [{ ...fine, enabled: 0 }, 'enabled'],
  [{ ...fine, ban: true }, 'ban'],
  [{ ...fine, ban: { after: 0 } }, 'ban.after'],
  [{ ...fine, onStoreError: 'ignore' }, 'onStoreError', /'local'/],
  [{ ...fine, timeout: '2m' }, 'timeout'],
  [{ ...fine, connectTimeout: '2m' }, 'connectTimeout'],
  [{ ...fine, localShare: 2 }, 'localShare'],
  [{ limiter: {} }, 'limiter', /createLimiter/],
  [{ limiter: createLimiter({ limit: 1, window: '1s' }), ...fine }, 'limit, window', /limiter/],
  [{ limiter: createLimiter({ limit: 1, window: '1s' }), store: memoryStore() }, 'store', /limiter/],
];

/** Unknown options, and the values in the error's message. */
const unknown: [options: object, says: RegExp][] = [
  [{ max: 5, window: '1m' }, /'max'.*limit/],
  [{ limit: 5, windowMs: 60_000 }, /'windowMs'.*window/],
  [{ limit: 5, timeWindow: '1m' }, /'timeWindow'.*window/],
  [{ ...fine, standardHeaders: true }, /'standardHeaders'.*headers/],
  [{ ...fine, message: 'no' }, /'message'.*handler/],
  [{ ...fine, passOnStoreError: true }, /'passOnStoreError'.*onStoreError: 'allow'/],
  [{ ...fine, whitelist: [] }, /'whitelist'.*allowList/],
  [{ ...fine, keygenerator: () => '' }, /'keygenerator'.*keyGenerator/],
  [{ ...fine, statuscode: 420 }, /'statuscode'.*statusCode/],
  [{ limit: 5, windw: '1m' }, /'windw'.*window/],
];

function thrownBy(action: () => unknown): HeadgateError {
  try {
    action();
  } catch (error) {
    return error as HeadgateError;
  }
  throw new Error('No error was thrown.');
}

async function rejectionOf(options: object): Promise<HeadgateError> {
  const app = Fastify();
  void app.register(rateLimitPlugin, options as RateLimitPluginOptions);
  const error = await app.ready().then(
    () => undefined,
    (reason: HeadgateError) => reason,
  );
  await app.close();
  return error!;
}

const make: Readonly<Record<string, (options: object) => HeadgateError | Promise<HeadgateError>>> = {
  Express: (options) => thrownBy(() => rateLimit(options as typeof fine)),
  Fastify: rejectionOf,
};

for (const [adapter, errorOf] of Object.entries(make)) {
  describe(`bad options on ${adapter}`, () => {
    for (const [options, option, values = /./] of wrong) {
      it(`${option}: ${JSON.stringify(options)}`, async () => {
        const { code, message } = await errorOf(options);
        expect(code).to.equal('HEADGATE_INVALID_OPTION');
        expect(message).to.match(
          new RegExp(`^(policy\\.)?${option.replace(/[[\].]/g, '\\$&')}: .+\\. .+\\.`),
        );
        expect(message).to.match(values);
      });
    }
    for (const [options, values] of unknown) {
      it(`${Object.keys(options).join(', ')}: not known`, async () => {
        const { code, message } = await errorOf(options);
        expect(code).to.equal('HEADGATE_UNKNOWN_OPTION');
        expect(message).to.match(values);
      });
    }

    it('no options at all', async () => {
      for (const options of [null, 5, 'x', []]) {
        if (adapter === 'Express') {
          expect((await errorOf(options as never)).code).to.equal('HEADGATE_INVALID_OPTION');
        }
      }
    });
  });
}

it('a limiter that could not be created claims no name', () => {
  const store = memoryStore();
  for (const bad of [{ cost: -1 }, { headers: 'draft-1' }, { statusCode: 1 }, { maxWaiting: 0 }]) {
    thrownBy(() => rateLimit({ ...fine, ...bad, store } as unknown as typeof fine));
  }
  rateLimit({ ...fine, store });
});

it('the defaults are those of the docs', async () => {
  const { limiter, ...defaults } = compileOptions({});
  expect(limiter.policies[0]).to.include({ name: 'default', limit: 1000, window: 60_000 });
  const { cost, statusCode, jitter, renewFor, enabled } = defaults;
  expect({ cost, statusCode, jitter, renewFor, enabled }).to.deep.equal({
    cost: 1,
    statusCode: 429,
    jitter: undefined,
    renewFor: 24 * 3_600_000,
    enabled: true,
  });
  const { skipSuccessfulRequests, skipFailedRequests, refundAborted } = defaults;
  expect([skipSuccessfulRequests, skipFailedRequests, refundAborted]).to.deep.equal([false, false, false]);
  await limiter.close();
});

it('numbers are accepted up to their bounds, and no further', () => {
  for (const [option, least, most] of [
    ['cost', 0, 1e12],
    ['statusCode', 400, 599],
    ['ipv6Subnet', 1, 128],
    ['maxWaiting', 1, 1e6],
    ['renewFor', 1, 366 * 86_400_000],
    ['jitter', 1000, 366 * 86_400_000],
  ] as const) {
    const optionsWith = (value: number) => ({ limit: 1e12, window: '1m', wait: '1s', [option]: value });
    for (const value of [least, most]) rateLimit(optionsWith(value));
    for (const value of [least - 1, most + 1])
      expect(thrownBy(() => rateLimit(optionsWith(value))).message).to.include(`${option}: ${value} `);
  }
});

describe('options of several keys', () => {
  const byAccount = { ...fine, by: 'account' };
  const id = () => 'ada';
  it('with tiers: each tier that may decide needs its keys, and each key needs a policy of one of them', () => {
    const tiers = { free: '1/1m', team: '1/1m by account', big: '1/1m by org' };
    const tier = () => 'free';
    const code = (options: object) => codeThrownBy(() => rateLimit({ tiers, tier, ...options }));
    expect(code({ keys: { account: id, org: id } })).to.equal('none');
    expect(code({ keys: { account: id } })).to.equal('HEADGATE_UNKNOWN_DIMENSION');
    expect(code({ keys: { account: id, org: id, planet: id } })).to.equal('HEADGATE_UNKNOWN_DIMENSION');
    expect(code({ tier: 'team', keys: { account: id } })).to.equal('none');
    expect(code({ tier: 'team', keys: { org: id } })).to.equal('HEADGATE_UNKNOWN_DIMENSION');
    expect(code({ tier: 'free' })).to.equal('none');
  });

  it('tiers cannot be combined with a function for the policies', () => {
    const policies = () => '1/1m';
    const code = (options: object) =>
      codeThrownBy(() => rateLimit({ policies, ...options } as RateLimitOptions));
    expect(code({})).to.equal('none');
    for (const tier of [undefined, 'free', () => 'free'])
      expect(code({ tier, tiers: { free: '1/1m' } })).to.equal('HEADGATE_INVALID_OPTION');
  });

  it('must match the dimensions of the policies', () => {
    expect(codeThrownBy(() => rateLimit({ ...byAccount, keys: { account: id } }))).to.equal('none');
    expect(codeThrownBy(() => rateLimit({ ...byAccount }))).to.equal('HEADGATE_UNKNOWN_DIMENSION');
    expect(codeThrownBy(() => rateLimit({ ...byAccount, keys: { account: id, org: id } }))).to.equal(
      'HEADGATE_UNKNOWN_DIMENSION',
    );
    expect(codeThrownBy(() => rateLimit({ ...fine, ban: { by: 'account' } }))).to.equal(
      'HEADGATE_UNKNOWN_DIMENSION',
    );
    expect(
      codeThrownBy(() => rateLimit({ ...fine, ban: { by: 'account' }, keys: { account: id } })),
    ).to.equal('none');
    const limiter = createLimiter(byAccount);
    expect(codeThrownBy(() => rateLimit({ limiter }))).to.equal('HEADGATE_UNKNOWN_DIMENSION');
    expect(codeThrownBy(() => rateLimit({ limiter, keys: { account: id } }))).to.equal('none');
  });

  it('of the Fastify plugin are defaults, of which a route may use some', async () => {
    const fastify = Fastify();
    await fastify.register(rateLimitPlugin, { ...byAccount, limit: 1, keys: { account: id } });
    fastify.get('/', { config: { rateLimit: { limit: 2, window: '1m' } } }, () => 'ok');
    fastify.get('/own', () => 'ok');
    const statuses = [];
    for (const url of ['/', '/', '/', '/own', '/own']) statuses.push((await fastify.inject(url)).statusCode);
    expect(statuses).to.deep.equal([200, 200, 429, 200, 429]);
    await fastify.close();
  });

  it('no address is needed without a policy by address', async () => {
    const fastify = Fastify();
    await fastify.register(rateLimitPlugin, { ...byAccount, keys: { account: id } });
    fastify.addHook('onRequest', async (request) =>
      Object.defineProperty(request, 'ip', { value: undefined }),
    );
    fastify.get('/', () => 'ok');
    expect((await fastify.inject({ url: '/', remoteAddress: '' })).statusCode).to.equal(200);
    await fastify.close();
  });
});
