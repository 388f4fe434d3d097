// Durations that were meant in seconds: the warning, wherever a duration is read.
import { expect } from 'chai';
import { setImmediate } from 'node:timers/promises';
import {
  createLimiter,
  memoryStore,
  type CreateLimiterOptions,
  type Limiter,
  type WarningCode,
  type Warnings,
} from 'headgate';
import { createAdmin } from 'headgate/admin';
import { rateLimited } from 'headgate/decorators';
import { rateLimit } from 'headgate/express';
import { limitFetch } from 'headgate/fetch';
import { emittedCodes } from '../src/common/warnings.js';
import { toMilliseconds } from '../src/common/duration.js';

const quota = { limit: 5, window: '1h' } as const;
const CODE: WarningCode = 'HEADGATE_LIKELY_SECONDS';

const limiterOf = (options: Partial<CreateLimiterOptions> = {}): Limiter =>
  createLimiter({ ...quota, ban: {}, overrides: true, ...options } as CreateLimiterOptions);

/** Each place of a duration, with a number of seconds. */
const places: readonly [place: string, read: (warnings?: Warnings) => unknown, texts: RegExp][] = [
  [
    'window: 3600',
    (warnings) => limiterOf({ window: 3600, ...silent(warnings) }),
    /window: 3600 .*'1h'.*'3600ms'/,
  ],
  ['window: 86400', (warnings) => limiterOf({ window: 86_400, ...silent(warnings) }), /'1d'/],
  [
    'lease: 900',
    (warnings) => createLimiter({ algorithm: 'concurrency', limit: 5, lease: 1800, ...silent(warnings) }),
    /lease: 1800 .*'30m'/,
  ],
  [
    'maxDelay: 3600',
    (warnings) => createLimiter({ algorithm: 'leaky-bucket', ...quota, maxDelay: 3600, ...silent(warnings) }),
    /maxDelay: 3600 .*'1h'/,
  ],
  [
    'ban.for: 900',
    (warnings) => limiterOf({ ban: { for: 900 }, ...silent(warnings) }),
    /ban\.for: 900 .*'15m'/,
  ],
  ['ban.within: 60', (warnings) => limiterOf({ ban: { within: 60 }, ...silent(warnings) }), /'1m'/],
  [
    'ban.max: 2592000',
    (warnings) => limiterOf({ ban: { for: '1s', max: 2_592_000 }, ...silent(warnings) }),
    /'30d'/,
  ],
  ['idsFor: 3600', (warnings) => limiterOf({ idsFor: 3600, ...silent(warnings) }), /idsFor: 3600 .*'1h'/],
  ['timeout: 3600', (warnings) => limiterOf({ timeout: 3600, ...silent(warnings) }), /timeout: 3600/],
  [
    'tiers',
    (warnings) => limiterOf({ tiers: { pro: [{ limit: 1, window: 7200 }] }, ...silent(warnings) }),
    /'2h'/,
  ],
  [
    'limiter.compile',
    (warnings) => limiterOf(silent(warnings)).compile([{ limit: 1, window: 7200 }]),
    /'2h'/,
  ],
  ['limiter.ban', (warnings) => limiterOf(silent(warnings)).ban('k', 600), /duration: 600 .*'10m'/],
  [
    'override for',
    (warnings) => limiterOf(silent(warnings)).override('k', '9/1h', { for: 86_400 }),
    /for: 86400 .*'1d'/,
  ],
  [
    'overrideAll with a window',
    (warnings) => limiterOf(silent(warnings)).overrideAll({ window: 300 }),
    /override\.window: 300 .*'5m'/,
  ],
  [
    'limiter.wait',
    (warnings) => limiterOf(silent(warnings)).wait('k', { timeout: 300 }),
    /timeout: 300 .*'5m'/,
  ],
  ['wait', (warnings) => rateLimit({ ...quota, wait: 900, ...silent(warnings) }), /wait: 900 .*'15m'/],
  [
    'renewFor',
    (warnings) => rateLimit({ ...quota, renewFor: 3600, ...silent(warnings) }),
    /renewFor: 3600 .*'1h'/,
  ],
  [
    'limitFetch window',
    (warnings) => limitFetch(fetch, { limit: 5, window: 3600, ...silent(warnings) }),
    /window: 3600 .*'1h'/,
  ],
  [
    'limitFetch timeout',
    (warnings) => limitFetch(fetch, { ...quota, timeout: 300, ...silent(warnings) }),
    /timeout: 300 .*'5m'/,
  ],
  [
    'limitFetch maxPause',
    (warnings) => limitFetch(fetch, { ...quota, maxPause: 600, ...silent(warnings) }),
    /maxPause: 600 .*'10m'/,
  ],
];

const silent = (warnings: Warnings | undefined): { warnings?: Warnings } =>
  warnings === undefined ? {} : { warnings };

describe('a number that is probably meant in seconds', () => {
  const { emitWarning } = process;
  let warned: { code: string | undefined; message: string }[] = [];

  beforeEach(() => {
    process.emitWarning = ((message: string, options: { code?: string }) => {
      if (options.code !== 'HEADGATE_STORE_DOWN') warned.push({ code: options.code, message });
    }) as typeof emitWarning;
    warned = [];
    emittedCodes.clear();
  });
  afterEach(() => {
    process.emitWarning = emitWarning;
  });

  for (const [place, read, texts] of places) {
    it(`${place}: warns, unless silenced`, async () => {
      await read(false);
      await read([CODE]);
      expect(warned).to.deep.equal([]);
      await read();
      expect(warned.map(({ code }) => code)).to.deep.equal([CODE]);
      expect(warned[0]!.message).to.match(texts);
    });
  }

  it('of admin and of rateLimited warns, too', async () => {
    const store = memoryStore();
    limiterOf({ name: 'api', store });
    const admin = createAdmin(store);
    for (const read of [
      () => admin.ban('k', 900, { name: 'api' }),
      () => admin.override('k', '9/1h', { name: 'api', for: 3600 }),
      () => rateLimited(() => {}, { ...quota, wait: { timeout: 900 } }),
    ]) {
      emittedCodes.clear();
      warned = [];
      await read();
      expect(warned.map(({ code }) => code)).to.deep.equal([CODE]);
    }
  });

  it('of numbers that Headgate computes does not warn', async () => {
    const denied = new Response('', { status: 429, headers: { 'retry-after-ms': '600' } });
    const call = limitFetch(() => Promise.resolve(denied), { ...quota, retry: false, timeout: '900ms' });
    await call('http://partner.test/');
    while ((await call.limiter.peek('partner.test')).reason !== 'banned') await setImmediate();
    await rateLimited(() => {}, { ...quota, wait: { timeout: '900ms' } })();
    expect(warned).to.deep.equal([]);
  });

  it('does not warn of plain milliseconds, of text, and of the brief times of stores', () => {
    const plain = [
      1000, 1500, 2000, 2500, 3000, 5000, 10_000, 15_000, 18_000, 30_000, 36_000, 60_000, 90_000,
    ];
    const long = [
      120_000, 300_000, 600_000, 900_000, 2_160_000, 3_600_000, 21_600_000, 43_200_000, 86_400_000,
    ];
    for (const value of [...plain, ...long, 604_800_000, 2_592_000_000, 31_536_000_000]) {
      toMilliseconds('x', value);
      toMilliseconds('x', value, { usual: 'brief' });
      toMilliseconds('x', value, { usual: 'long' });
    }
    for (const value of [50, 100, 200, 250, 500, 750]) toMilliseconds('x', value);
    for (const text of ['3600ms', '900ms', '86400s', '1h']) toMilliseconds('x', text, { usual: 'long' });
    limiterOf({ timeout: 300, connectTimeout: 900 });
    createLimiter({ algorithm: 'leaky-bucket', ...quota, maxDelay: 300 });
    expect(warned).to.deep.equal([]);
  });

  it('is recognized as whole days, hours and common minutes', () => {
    const minutes = [60, 120, 180, 300, 600, 900, 1200, 1800, 2700, 5400];
    const longer = [
      3600, 7200, 14_400, 21_600, 28_800, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000,
    ];
    for (const value of [...minutes, ...longer, 31_536_000]) {
      emittedCodes.clear();
      toMilliseconds('x', value);
    }
    expect(warned).to.have.length(minutes.length + longer.length + 1);
  });

  it('does not warn of an override that was stored before', async () => {
    const store = memoryStore();
    const limiter = limiterOf({ name: 'api', store, warnings: false });
    await limiter.override('k', { window: 3600 });
    await limiter.consume('k');
    await createAdmin(store).key('k', { name: 'api' });
    expect(warned).to.deep.equal([]);
  });
});

describe('the unit M', () => {
  it('is refused, because it may mean months', async () => {
    const limiter = limiterOf();
    const reads = [
      () => createLimiter('100/M'),
      () => createLimiter('100/1M'),
      () => createLimiter({ limit: 100, window: '1M' }),
      () => createLimiter({ limit: 100, window: '1 M' }),
      () => createLimiter({ ...quota, ban: { for: '1M' } }),
      () => limiter.ban('k', '1M'),
      () => limiter.override('k', '100/1M'),
    ];
    for (const read of reads) {
      let error: unknown;
      try {
        await read();
      } catch (thrown) {
        error = thrown;
      }
      expect(error).to.have.property('code', 'HEADGATE_INVALID_OPTION');
      expect((error as Error).message)
        .to.match(/ambiguous/)
        .and.match(/'1m'/)
        .and.match(/calendar 10000\/month/);
    }
  });

  it('is a minute in lower case, and other units may be in upper case', () => {
    expect(
      ['1m', '1MS', '2H', '1D', '5Min', '5MINUTES'].map((text) => toMilliseconds('x', text)),
    ).to.deep.equal([60_000, 1, 7_200_000, 86_400_000, 300_000, 300_000]);
  });
});
