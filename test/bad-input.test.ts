// Errors for bad input: each option that is out of range, of the wrong type or misspelt gets an error with a code, the option's name, its value and a fix.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { createLimiter, HeadgateError, memoryStore, type CreateLimiterOptions, type Store } from 'headgate';
import { rateLimited } from 'headgate/decorators';
import { rateLimit } from 'headgate/express';
import { limitFetch } from 'headgate/fetch';
import { clientKey, denial, rateLimitHeaders } from 'headgate/http';
import { redisStore } from 'headgate/redis';

const limit = 5;
const window = '1m';
/** A client that never connects. */
const client = new Redis({ lazyConnect: true });

const make = (options: unknown) => () => createLimiter(options as CreateLimiterOptions);
const inline = (options: object) => make({ limit, window, ...options });
const inList = (policy: unknown) => make({ policies: [policy, { name: 'other', limit, window }] });

/** Values that are not a whole number of at least 1. */
const NOT_COUNTS = [
  0,
  -1,
  1.5,
  NaN,
  Infinity,
  -Infinity,
  2 ** 60,
  '5',
  '',
  null,
  true,
  [],
  {},
  5n,
  () => 5,
  Symbol('5'),
];
const NOT_DURATIONS = [
  ...[0, -1, 1.5, NaN, Infinity, 367 * 24 * 3_600_000, 2 ** 60, null, true, [], {}, 5n, () => 5],
  ...[
    '',
    ' ',
    '5',
    '-5s',
    '5 parsecs',
    '5ss',
    's',
    '0s',
    '0.5ms',
    '1.0001s',
    '400d',
    '1e3s',
    '5s5s',
    '٣s',
    `${'9'.repeat(200)}s`,
  ],
];
const NOT_BOOLEANS = [0, 1, 'true', '', null, NaN, [], {}];
const NOT_FUNCTIONS = [0, 1, 'f', null, true, {}, []];
const tiersOf = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`t${i}`, '1/1m']));
const policiesBy = (count: number) => Array.from({ length: count }, (_, i) => `1/1m by d${i}`);
const NOT_NAMES = ['', 'é', 'a\nb', '\0', 'x'.repeat(65), 5, null, true, [], {}];

interface Row {
  /** The option as the message names it. */
  readonly option: string;
  /** Default: `inline`, or the store that the option names, with this option alone. */
  readonly with?: (value: never) => () => unknown;
  readonly wrong: readonly unknown[];
  /** The first and the last valid values, next to the wrong ones. */
  readonly right?: readonly unknown[];
  /** The values that the fix names. */
  readonly fix: RegExp;
}

/** The call with an option, by the name that the message has. */
function callWith(option: string): (value: unknown) => () => unknown {
  const [first, last] = option.split('.') as [string, string | undefined];
  return (value) => {
    if (first === 'memoryStore') return () => memoryStore({ [last!]: value });
    if (first === 'redisStore') return () => redisStore(client, { [last!]: value });
    if (first === 'ban' && last) return inline({ ban: { [last]: value } });
    return inline({ [last ?? first]: value });
  };
}

const rows: readonly Row[] = [
  {
    option: 'policy.limit',
    with: (value) => make({ limit: value, window }),
    wrong: [...NOT_COUNTS, undefined],
    right: [1, 1e12],
    fix: /whole number .*\b1\b/,
  },
  {
    option: 'policy.window',
    with: (value) => make({ limit, window: value }),
    wrong: [...NOT_DURATIONS, undefined],
    right: [1, '1ms', '366d', 366 * 24 * 3_600_000],
    fix: /'10s'/,
  },
  { option: 'policy.segments', wrong: [...NOT_COUNTS, 101], right: [1, 100], fix: /\b1 .*\b100\b/ },
  {
    option: 'policy.algorithm',
    wrong: ['', 'fixed', 'Fixed-Window', 'constructor', 5, null, {}, true],
    fix: /'sliding-window'/,
  },
  {
    option: 'policy.burst',
    with: (value) => inline({ algorithm: 'gcra', burst: value }),
    wrong: NOT_COUNTS,
    right: [1],
    fix: /whole number .*\b1\b/,
  },
  {
    option: 'policy.burst',
    with: (value) => inline({ algorithm: 'token-bucket', burst: value }),
    wrong: NOT_COUNTS,
    fix: /whole number .*\b1\b/,
  },
  {
    option: 'policy.maxDelay',
    with: (value) => inline({ algorithm: 'leaky-bucket', maxDelay: value }),
    wrong: NOT_DURATIONS.filter((each) => each !== 0 && each !== '0s'),
    right: [0, '0s', '366d'],
    fix: /\b0\b/,
  },
  {
    option: 'policy.lease',
    with: (value) => make({ limit, algorithm: 'concurrency', lease: value }),
    wrong: [...NOT_DURATIONS, undefined],
    right: [1, '366d'],
    fix: /'10s'/,
  },
  {
    option: 'policy.limit',
    with: (value) => make({ limit: value, algorithm: 'concurrency', lease: window }),
    wrong: [1e5 + 1],
    right: [1, 1e5],
    fix: /\b100000\b/,
  },
  {
    option: 'policy.limit',
    with: (value) => make({ limit: value, algorithm: 'sliding-log', window }),
    wrong: [1e6 + 1],
    right: [1, 1e6],
    fix: /\b1000000\b/,
  },
  {
    option: 'policy.limit',
    with: (value) => make({ limit: value, algorithm: 'gcra', window: 1_000 }),
    wrong: [999_999_999_989],
    fix: /units/,
  },
  {
    // The bucket would need more than 8,000 years to fill.
    option: 'policy.limit',
    with: (value) => make({ limit: value, algorithm: 'gcra', window: '30d', burst: 1e6 }),
    wrong: [1, 9],
    right: [10],
    fix: /units/,
  },
  {
    option: 'policy.window',
    with: (value) => make({ limit, window: value, segments: 1 }),
    wrong: ['50d', 2 ** 32],
    right: [2 ** 32 - 1],
    fix: /segments/,
  },
  {
    option: 'policies',
    with: (value) => make({ policies: value }),
    wrong: [[], {}, 5, null, true, Array.from({ length: 33 }, () => ({ limit, window }))],
    right: [Array.from({ length: 32 }, (_, i) => ({ name: `p${i}`, limit, window })), '100/1m'],
    fix: /\b1 .*\b32\b/,
  },
  {
    option: 'policies',
    with: (value) => make({ policies: [value] }),
    wrong: [null, 5, undefined, [], true],
    fix: /object/,
  },
  {
    option: 'policies[0].name',
    with: (value) => inList({ name: value, limit, window }),
    wrong: NOT_NAMES,
    right: [' ', '~', 'x'.repeat(64)],
    fix: /ASCII/,
  },
  {
    option: 'policies[0].limit',
    with: (value) => inList({ limit: value, window }),
    wrong: NOT_COUNTS,
    fix: /whole number/,
  },
  {
    option: 'policies[0].shadow',
    with: (value) => inList({ limit, window, shadow: value }),
    wrong: NOT_BOOLEANS,
    fix: /true.*false/,
  },
  { option: 'name', with: (value) => inList({ name: value, limit, window }), wrong: ['other'], fix: /name/ },
  {
    option: 'name',
    wrong: ['', 5, null, true, [], {}, 'x'.repeat(257)],
    right: ['x', 'x'.repeat(256)],
    fix: /\b1 .*\b256\b/,
  },
  { option: 'shadow', wrong: NOT_BOOLEANS, fix: /true.*false/ },
  { option: 'enabled', wrong: [0, 1, 'true', '', null, {}], fix: /function/ },
  { option: 'timeout', wrong: [...NOT_DURATIONS, 60_001, '2m'], right: [1, 60_000], fix: /\b1/ },
  { option: 'connectTimeout', wrong: [...NOT_DURATIONS, 60_001, '2m'], right: [1, 60_000], fix: /\b1/ },
  { option: 'onStoreError', wrong: ['', 'open', 'Allow', 5, null, true, {}], fix: /'local'/ },
  {
    option: 'localShare',
    wrong: [0, -0.5, 1.01, NaN, Infinity, '1', null, true],
    right: [0.001, 1],
    fix: /\b0\b.*\b1\b/,
  },
  { option: 'onDecision', wrong: NOT_FUNCTIONS, fix: /function/ },
  { option: 'onHealth', wrong: NOT_FUNCTIONS, fix: /function/ },
  { option: 'ban', wrong: [null, 5, '1h', true, []], fix: /object/ },
  { option: 'ban.after', wrong: [...NOT_COUNTS, 1e6 + 1], right: [1, 1e6], fix: /whole number/ },
  { option: 'ban.within', wrong: NOT_DURATIONS, right: [1, '366d'], fix: /'10s'/ },
  { option: 'ban.for', wrong: NOT_DURATIONS, fix: /'10s'/ },
  { option: 'ban.max', wrong: [...NOT_DURATIONS, '59m'], right: ['1h', '366d'], fix: /`for`|'10s'/ },
  {
    option: 'ban.factor',
    wrong: [0, 0.999, 100.001, NaN, Infinity, '2', null, true],
    right: [1, 1.5, 100],
    fix: /\b1 .*\b100\b/,
  },
  { option: 'store', wrong: [null, 5, 'redis', true, {}, [], { decide: () => {} }], fix: /redisStore/ },
  { option: 'maxWaiting', wrong: [...NOT_COUNTS, 1e6 + 1], right: [1, 1e6], fix: /\b1 .*\b1000000\b/ },
  {
    option: 'maxWaitingPerKey',
    with: (value) => inline({ maxWaiting: 5, maxWaitingPerKey: value }),
    wrong: [...NOT_COUNTS, 6],
    right: [1, 5],
    fix: /\b1 .*\b5\b/,
  },
  {
    option: 'policy.by',
    wrong: ['', '1', '-', '_', 'a b', 'é', 'x'.repeat(33), 5, null, true, [], {}],
    right: ['a', 'A-_9', 'x'.repeat(32), 'key'],
    fix: /\b31\b/,
  },
  {
    option: 'policy.unit',
    wrong: ['', 'a b', 'é', 'x'.repeat(65), 5, null, true, [], {}],
    right: ['requests', '.-_9', 'x'.repeat(64)],
    fix: /\b1 .*\b64\b/,
  },
  {
    option: 'policy.count',
    wrong: ['', 'all', 5, true, [], {}],
    right: ['admitted', 'attempts'],
    fix: /'attempts'/,
  },
  {
    option: 'tiers',
    with: (value) => make({ tiers: value }),
    wrong: [{}, [], null, 5, 'x', { '': '1/1m' }, { ['x'.repeat(65)]: '1/1m' }, tiersOf(101)],
    right: [{ x: '1/1m' }, { ['x'.repeat(64)]: '1/1m' }, tiersOf(100)],
    fix: /\b1 /,
  },
  {
    option: 'by',
    with: (value) => make({ policies: value }),
    wrong: [policiesBy(8)],
    right: [policiesBy(7)],
    fix: /\b7\b/,
  },
  { option: 'memoryStore.maxKeys', wrong: [...NOT_COUNTS, 99, 16e6 + 1], right: [100, 16e6], fix: /\b100\b/ },
  { option: 'memoryStore.clock', wrong: NOT_FUNCTIONS, fix: /function/ },
  { option: 'memoryStore.onFull', wrong: ['', 'allow', 'Deny', 5, true, null, {}], fix: /'admit'.*'deny'/ },
  {
    option: 'memoryStore',
    with: (value) => () => memoryStore(value),
    wrong: [null, 5, 'x', true, []],
    fix: /object/,
  },
  {
    option: 'redisStore.prefix',
    wrong: ['', 'a b', '{', 'a}', 'é', '\0', 'x'.repeat(65), 5, null, true, {}],
    right: ['x', 'x'.repeat(64)],
    fix: /braces/,
  },
  { option: 'redisStore.clock', wrong: NOT_FUNCTIONS, fix: /function/ },
  {
    option: 'redisStore',
    with: (value) => () => redisStore(client, value),
    wrong: [null, 5, 'x', true, []],
    fix: /object/,
  },
  {
    option: 'redisStore: client',
    with: (value) => () => redisStore(value),
    wrong: [undefined, null, 5, 'redis://localhost', {}, [], true],
    fix: /ioredis/,
  },
  {
    option: 'createLimiter',
    with: (value) => make(value),
    wrong: [undefined, null, 5, true, []],
    fix: /object/,
  },
];

function errorOf(call: () => unknown): HeadgateError {
  try {
    call();
  } catch (error) {
    expect(error).to.be.instanceOf(HeadgateError);
    return error as HeadgateError;
  }
  throw new Error('Nothing was thrown');
}

const asText = (value: unknown) =>
  typeof value === 'bigint' ? `${value}n` : typeof value === 'function' ? 'a function' : String(value);

describe('bad input', () => {
  for (const { option, with: call = callWith(option), wrong, right = [], fix } of rows) {
    it(`${option}: ${wrong.length} wrong values (${fix.source})`, () => {
      for (const value of wrong) {
        const label = typeof value === 'string' ? JSON.stringify(value.slice(0, 20)) : asText(value);
        let error: HeadgateError;
        try {
          error = errorOf(call(value as never));
        } catch (reason) {
          throw new Error(`${option} = ${label}: ${(reason as Error).message}`, { cause: reason });
        }
        expect(error.code, label).to.equal('HEADGATE_INVALID_OPTION');
        expect(error.message, label).to.include(`${option}: `).and.to.match(fix);
        if (typeof value === 'number' || typeof value === 'bigint')
          expect(error.message).to.include(asText(value));
      }
      for (const value of right) call(value as never)();
    });
  }

  for (const [call, name, hint] of [
    [inline({ windowMs: 1_000 }), 'windowMs', '`window`'],
    [inline({ max: 5 }), 'max', '`limit`'],
    [inline({ points: 5 }), 'points', '`limit`'],
    [inline({ hits: 5 }), 'hits', '`limit`'],
    [inline({ duration: 5 }), 'duration', '`window`'],
    [inline({ timeWindow: 5 }), 'timeWindow', '`window`'],
    [inline({ maxBurst: 5 }), 'maxBurst', '`burst`'],
    [inline({ blockDuration: 5 }), 'blockDuration', '`ban: { for }`'],
    [inline({ insuranceLimiter: 5 }), 'insuranceLimiter', "`onStoreError: 'local'`"],
    [inline({ passOnStoreError: true }), 'passOnStoreError', "`onStoreError: 'allow'`"],
    [inline({ skipOnError: true }), 'skipOnError', "`onStoreError: 'allow'`"],
    [inline({ failOpen: true }), 'failOpen', "`onStoreError: 'allow'`"],
    [inline({ failClosed: true }), 'failClosed', "`onStoreError: 'deny'`"],
    [inline({ concurrency: 5 }), 'concurrency', "`algorithm: 'concurrency'`"],
    [inline({ maxConcurrent: 5 }), 'maxConcurrent', "`algorithm: 'concurrency'`"],
    [inline({ clock: () => 0 }), 'clock', '`store: memoryStore({ clock })`'],
    [() => rateLimit({ requestPropertyName: 'quota' } as never), 'requestPropertyName', 'docs/options.md'],
    [inline({ redis: client }), 'redis', '`store: redisStore(redis)`'],
    [inline({ keyPrefix: 'x' }), 'keyPrefix', '`name`'],
    [() => redisStore(client, { keyPrefix: 'x' } as never), 'keyPrefix', '`prefix`'],
    [() => memoryStore({ max: 5 } as never), 'max', 'clock, maxKeys'],
    [inline({ windowed: 5 }), 'windowed', '`window`'],
    [inline({ windowing: 5 }), 'windowing', 'docs/options.md'],
    [inline({ windows: 5 }), 'windows', '`window`'],
    [inline({ Limit: 5 }), 'Limit', '`limit`'],
    [inline({ wait: '1s' }), 'wait', 'docs/options.md'],
    [inline({ polices: [] }), 'polices', '`policies`'],
    [inline({ onstoreerror: 'allow' }), 'onstoreerror', '`onStoreError`'],
    [inline({ ban: { duration: '1h' } }), 'duration', '`for`'],
    [inline({ ban: { maximum: '1h' } }), 'maximum', 'after, within, for, factor, max'],
    [inline({ burst: 5 }), 'burst', "algorithm: 'token-bucket'"],
    [inline({ algorithm: 'fixed-window', segments: 5 }), 'segments', 'sliding-window'],
    [inline({ algorithm: 'gcra', maxDelay: 5 }), 'maxDelay', 'leaky-bucket'],
    [inline({ algorithm: 'concurrency', lease: 5 }), 'window', 'lease'],
    [inList({ limit, windowMs: 5 }), 'windowMs', '`window`'],
    [inline({ constructor: 5 }), 'constructor', 'docs/options.md'],
    [inline({ toString: 5 }), 'toString', 'docs/options.md'],
    [inline({ hasOwnProperty: 5 }), 'hasOwnProperty', 'docs/options.md'],
    [inline({ '': 5 }), '', 'docs/options.md'],
  ] as const) {
    it(`unknown option '${name}': ${hint}`, () => {
      const error = errorOf(call);
      expect(error.code).to.equal('HEADGATE_UNKNOWN_OPTION');
      expect(error.message).to.include(`'${name}'`).and.to.include(hint);
    });
  }

  it('options that are missing are shown as a short example', () => {
    for (const call of [createLimiter, (options?: never) => limitFetch(fetch, options as never)]) {
      const error = errorOf(() => call(undefined as never));
      expect(error.code).to.equal('HEADGATE_INVALID_OPTION');
      expect(error.message).to.include(
        "Pass an object, such as { limit: 100, window: '1m' }, or the text '100/1m'.",
      );
    }
  });

  it('a function as a limit leads to the function of policies', () => {
    const error = errorOf(() => rateLimit({ limit: () => 5, window } as never));
    expect(error.code).to.equal('HEADGATE_INVALID_OPTION');
    expect(error.message).to.include("`policies: (req) => '100/1m'`");
  });

  it('a policy inline beside policies', () => {
    const error = errorOf(make({ limit, policies: [{ limit, window }] }));
    expect(error.code).to.equal('HEADGATE_INVALID_OPTION');
    expect(error.message).to.match(/^limit: .*\bpolicies\b/);
  });

  it('valid options are accepted', () => {
    for (const options of [
      { limit: 1, window: 1 },
      { limit: 1e12, window: '366d' },
      { limit, window: '1.5h' },
      // In floating point, these products are not whole numbers.
      { limit, window: '1.1h' },
      { limit, window: '1.001s' },
      { limit, window: '15 m' },
      { limit, window: '500ms', segments: undefined, name: undefined, ban: undefined, shadow: undefined },
      { limit, window, algorithm: 'leaky-bucket', maxDelay: 0 },
      { limit, window, algorithm: 'leaky-bucket', maxDelay: '0s' },
      { limit: 999_999_937, window: '1s', algorithm: 'gcra' },
      { limit: 1, window: '30d', algorithm: 'gcra', burst: 100_000 },
      { policies: JSON.parse('[{ "limit": 5, "window": "1m" }, { "limit": 5, "window": 60000 }]') as [] },
      { limit, window, ban: { after: 1, within: 1, for: 1, factor: 1, max: 1 } },
    ])
      make(options)();
  });

  it('an option whose value is undefined counts as omitted', () => {
    const undefinedFor = (names: string) =>
      Object.fromEntries(names.split(' ').map((name) => [name, undefined]));
    const noField = undefinedFor(
      'limit window algorithm burst segments maxDelay lease unit count by period timeZone anchor',
    );
    const noOption = {
      ...noField,
      ...undefinedFor('name store policies tiers ban slotBy acrossSlots shadow enabled warnings onDecision'),
      ...undefinedFor('onStoreError localShare timeout connectTimeout onHealth maxWaiting maxWaitingPerKey'),
    };
    make({ ...noOption, limit, window })();
    make({ ...noOption, policies: [{ ...noField, name: undefined, limit, window }] })();
    make({ ...noOption, algorithm: 'token-bucket', limit, window, burst: 9 })();
    const limiter = createLimiter({ limit, window });
    rateLimit({ ...noOption, limiter });
    rateLimited(() => 'called', { ...noOption, limiter });
    // A setting without a value does not select the default quota.
    const missing = errorOf(() => rateLimit({ limit: undefined } as object));
    expect(missing.message).to.match(/^policy\.limit: /);
    expect(errorOf(make({ limit, window, limti: undefined })).code).to.equal('HEADGATE_UNKNOWN_OPTION');
  });

  it('a change to a policy object after compilation has no effect', async () => {
    const policy = { limit: 1, window: '1h' };
    const limiter = createLimiter({ policies: [policy] });
    policy.limit = 100;
    await limiter.consume('key');
    expect((await limiter.consume('key')).allowed).to.be.false;
  });
});

/** Values without a text form, or whose conversion to text throws. */
const ODD: readonly unknown[] = [
  ...[null, 5, 5n, NaN, Symbol('x'), () => 'x', {}, Object.create(null) as unknown, new Map(), new Date(NaN)],
  {
    toString: () => {
      throw new Error('x');
    },
    toJSON: () => {
      throw new Error('x');
    },
  },
];

describe('bad arguments', () => {
  const storeCalls: string[] = [];
  const spied = (method: string) => () => {
    storeCalls.push(method);
    throw new Error('The store must not be asked');
  };
  const store = Object.fromEntries(
    ['decide', 'adjust', 'lease', 'reset', 'ban'].map((method) => [method, spied(method)]),
  ) as unknown as Store;
  const limiter = createLimiter({ limit, window, ban: {}, store, onStoreError: 'throw' });

  async function expectRefused(code: string, value: unknown, call: () => unknown) {
    const label = typeof value === 'symbol' ? 'symbol' : asText(value);
    const called = new Promise((resolve) => resolve(call()));
    const error = await called.then(
      () => undefined,
      (reason: unknown) => reason as HeadgateError,
    );
    expect(error, label).to.be.instanceOf(HeadgateError);
    expect(error!.code, label).to.equal(code);
    expect(storeCalls, `${label} reached the store`).to.deep.equal([]);
  }

  it('a cost that is not a whole number of at least 0 is refused before anything is charged', async () => {
    for (const cost of [
      -1,
      0.5,
      NaN,
      Infinity,
      -Infinity,
      2 ** 60,
      1e12 + 1,
      '1',
      '',
      null,
      true,
      [],
      {},
      5n,
    ]) {
      await expectRefused('HEADGATE_INVALID_COST', cost, () =>
        limiter.consume('key', { cost: cost as number }),
      );
      await expectRefused('HEADGATE_INVALID_COST', cost, () => limiter.peek('key', { cost: cost as number }));
      await expectRefused('HEADGATE_INVALID_COST', cost, () => limiter.refund('key', cost as number));
    }
  });

  it('the largest cost is 1e12', async () => {
    const huge = createLimiter({ limit: 1e12, window });
    expect(await huge.consume('key', { cost: 1e12 })).to.include({ allowed: true, remaining: 0 });
  });

  it('a key that is not a string is refused', async () => {
    for (const key of [undefined, null, 5, NaN, true, [], {}, 5n, Symbol('key'), () => 'key']) {
      for (const method of ['consume', 'peek', 'refund', 'reset', 'unban'] as const)
        await expectRefused('HEADGATE_INVALID_KEY', key, () => limiter[method](key as string));
      await expectRefused('HEADGATE_INVALID_KEY', key, () => limiter.ban(key as string, 5));
    }
  });

  it('an invalid duration of a ban is refused', async () => {
    for (const duration of [...NOT_DURATIONS, undefined])
      await expectRefused('HEADGATE_INVALID_OPTION', duration, () => limiter.ban('key', duration as number));
  });

  it('invalid options of a call are refused', async () => {
    for (const options of [5, 'x', null, true, []])
      await expectRefused('HEADGATE_INVALID_OPTION', options, () => limiter.consume('key', options as never));
    await expectRefused('HEADGATE_UNKNOWN_OPTION', 'points', () =>
      limiter.consume('key', { points: 1 } as never),
    );
  });

  it('an invalid cost for settle is refused', async () => {
    const decision = await createLimiter({ limit, window }).consume('key');
    for (const cost of [-1, 0.5, NaN, '1', undefined])
      await expectRefused('HEADGATE_INVALID_COST', cost, () => decision.settle(cost as number));
  });

  it('refuses a ban on a limiter without bans, and any call on a closed limiter', async () => {
    const without = createLimiter({ limit, window });
    await expectRefused('HEADGATE_INVALID_OPTION', 'ban', () => without.ban('key', 5));
    await without.close();
    await expectRefused('HEADGATE_CLOSED', 'closed', () => without.consume('key'));
  });

  it('invalid arguments of the helpers of headgate/http are refused', async () => {
    const decision = await createLimiter({ limit, window }).consume('key');
    const promise = createLimiter({ limit, window }).consume('key');
    const copies: unknown[] = [
      { ...decision },
      Object.create(decision),
      structuredClone({ ...decision }),
      promise,
    ];
    const odd = [...ODD, { set: null }, { set: { policies: 5 } }];
    for (const other of [...odd, 'draft-6', true, false, undefined, [], ...copies])
      for (const helper of [rateLimitHeaders, denial])
        await expectRefused('HEADGATE_INVALID_ARGUMENT', 'decision', () => helper(other as never));
    await promise;
    const cyclic: unknown[] = [];
    cyclic.push(cyclic);
    for (const dialects of [
      ...ODD,
      'draft-8',
      true,
      [],
      ['draft-6', Symbol('x')],
      [null],
      cyclic,
      ['draft-6', []],
      ['draft-6', cyclic],
      ['draft-6', 5n],
    ])
      for (const helper of [rateLimitHeaders, denial])
        await expectRefused('HEADGATE_INVALID_OPTION', 'headers', () => helper(decision, dialects as never));
    for (const subnet of [...ODD.filter((odd) => odd !== 5), 0, 129, '56'])
      await expectRefused('HEADGATE_INVALID_OPTION', 'ipv6Subnet', () => clientKey('::1', subnet as never));
  });
});
