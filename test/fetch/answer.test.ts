// The limits that servers announce in header fields.
import { expect } from 'chai';
import { readAnswer, type Answer } from 'headgate/fetch';

const now = Date.parse('2026-11-23T22:00:00Z');
const read = (fields: Record<string, string>): Answer => readAnswer((name) => fields[name], now);
const only = (fields: Record<string, string>) => read(fields).quotas[0];

describe('what a server says of its limits', () => {
  it("Retry-After in seconds, in ms, and as a date by the server's clock", () => {
    expect(read({ 'retry-after': '7' }).retryAfterMs).to.equal(7000);
    expect(read({ 'retry-after': '7', 'retry-after-ms': '350' }).retryAfterMs).to.equal(350);
    const date = 'Mon, 23 Nov 2026 22:00:30 GMT';
    expect(read({ 'retry-after': date }).retryAfterMs).to.equal(30_000);
    expect(read({ 'retry-after': date, date: 'Mon, 23 Nov 2026 22:00:20 GMT' }).retryAfterMs).to.equal(
      10_000,
    );
    expect(read({ 'retry-after': date, date: 'Mon, 23 Nov 2026 23:00:00 GMT' }).retryAfterMs).to.equal(0);
  });

  it('delays in milliseconds under other names', () => {
    // Azure Cosmos DB and Azure AI Search; Fyers; a date in milliseconds; a time of the window.
    expect(read({ 'x-ms-retry-after-ms': '350' }).retryAfterMs).to.equal(350);
    expect(read({ 'x-retry-after-ms': '400', 'retry-after': '1' }).retryAfterMs).to.equal(400);
    expect(read({ 'x-retry-after': '3' }).retryAfterMs).to.equal(3000);
    const quota = { 'x-ratelimit-limit': '100', 'x-ratelimit-remaining': '0' };
    const expected = { limit: 100, remaining: 0, resetMs: 1500 };
    expect(only({ ...quota, 'x-ratelimit-reset-ms': '1500', 'x-ratelimit-reset': '2' })).to.deep.equal(
      expected,
    );
    expect(only({ ...quota, 'x-ratelimit-reset-ms': String(now + 1500) })).to.deep.equal(expected);
    expect(only({ ...quota, 'x-ratelimit-reset-after-ms': '1500.7' })).to.deep.equal(expected);
  });

  it('fields that several programs have written: the longest delay, and a quota of each', () => {
    expect(read({ 'retry-after': '5, 10' }).retryAfterMs).to.equal(10_000);
    expect(read({ 'retry-after-ms': '350,20' }).retryAfterMs).to.equal(350);
    expect(read({ 'retry-after': '5, soon' }).retryAfterMs).to.equal(undefined);
    const twice = {
      'x-ratelimit-limit': '100, 10',
      'x-ratelimit-remaining': '40, 0',
      'x-ratelimit-reset': '30, 2',
    };
    expect(read(twice).quotas).to.deep.equal([
      { limit: 100, remaining: 40, resetMs: 30_000 },
      { limit: 10, remaining: 0, resetMs: 2000 },
    ]);
    // Equal values, and values of one program only.
    expect(
      read({ ...twice, 'x-ratelimit-limit': '100, 100', 'x-ratelimit-reset': '30' }).quotas,
    ).to.deep.equal([
      { limit: 100, remaining: 40, resetMs: 30_000 },
      { limit: 100, remaining: 0, resetMs: 30_000 },
    ]);
  });

  it('a Retry-After that is no date counts as not said', () => {
    for (const text of ['-5', '+5', '.5', '5 s'])
      expect(read({ 'retry-after': text }).retryAfterMs, text).to.equal(undefined);
    for (const text of ['Monday, 23-Nov-26 22:00:30 GMT', '2026-11-23T22:00:30Z'])
      expect(read({ 'retry-after': text }).retryAfterMs, text).to.equal(30_000);
    expect(read({ 'retry-after': '7', 'retry-after-ms': '350.5' }).retryAfterMs).to.equal(350);
  });

  it('the drafts 6, 7 and 8 to 11', () => {
    const draft6 = { 'ratelimit-limit': '100', 'ratelimit-remaining': '40', 'ratelimit-reset': '30' };
    expect(only(draft6)).to.deep.equal({ limit: 100, remaining: 40, resetMs: 30_000 });
    const draft7 = { ratelimit: 'limit=100, remaining=40, reset=30', 'ratelimit-policy': '100;w=60' };
    expect(only(draft7)).to.deep.equal({ limit: 100, remaining: 40, resetMs: 30_000, windowMs: 60_000 });
    const draft11 = {
      ratelimit: '"burst";r=5;t=1, "hour";r=640;t=2304',
      'ratelimit-policy': '"hour";q=1000;w=3600, "burst";q=10;w=1',
    };
    expect(read(draft11).quotas).to.deep.equal([
      { limit: 10, remaining: 5, resetMs: 1000, windowMs: 1000 },
      { limit: 1000, remaining: 640, resetMs: 2_304_000, windowMs: 3_600_000 },
    ]);
  });

  it("GitHub's, OpenAI's and Anthropic's fields", () => {
    const github = {
      'x-ratelimit-limit': '5000',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String(now / 1000 + 90),
    };
    expect(only(github)).to.deep.equal({ limit: 5000, remaining: 0, resetMs: 90_000 });
    const openai = {
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-remaining-requests': '59',
      'x-ratelimit-reset-requests': '1s',
      'x-ratelimit-limit-tokens': '150000',
      'x-ratelimit-remaining-tokens': '0',
      'x-ratelimit-reset-tokens': '6m0.5s',
    };
    expect(read(openai).quotas).to.deep.equal([
      { limit: 60, remaining: 59, resetMs: 1000 },
      { limit: 150_000, remaining: 0, resetMs: 360_500 },
    ]);
    const anthropic = {
      'anthropic-ratelimit-input-tokens-limit': '50000',
      'anthropic-ratelimit-input-tokens-remaining': '100',
      'anthropic-ratelimit-input-tokens-reset': '2026-11-23T22:00:12Z',
    };
    expect(only(anthropic)).to.deep.equal({ limit: 50_000, remaining: 100, resetMs: 12_000 });
  });

  it('nonsense counts as not said, and is never too much work', () => {
    const nonsense = [
      '',
      ';;;',
      ',,,',
      '"',
      '=',
      'r=',
      '"a";r=-1;t=x',
      'limit=',
      'NaN',
      '1e999',
      '\u0000',
      '9'.repeat(5000),
    ];
    const names = [
      'retry-after',
      'ratelimit',
      'ratelimit-policy',
      'x-ratelimit-remaining',
      'x-ratelimit-reset',
      'date',
    ];
    for (const text of nonsense) {
      const { retryAfterMs, quotas } = read(Object.fromEntries(names.map((name) => [name, text])));
      expect(retryAfterMs).to.equal(undefined);
      for (const quota of quotas) expect(quota.remaining).to.equal(undefined);
    }
    expect(read({ ratelimit: '"a";r=1,'.repeat(200) }).quotas.length).to.be.below(17);
  });
});
