// Messages of the administration in the words of the page: without syntax of JavaScript, and without raw milliseconds.
import { expect } from 'chai';
import { createLimiter, memoryStore, type Limiter } from 'headgate';
import { limitsText } from '../src/page/text.js';
import { onPage } from '../src/words.js';
import { startPage, tokenFields, type Site } from './servers.js';

describe('a message of the page', () => {
  let site: Site;
  const limiters: Limiter[] = [];
  before(async () => {
    const store = memoryStore();
    limiters.push(
      createLimiter({ store, name: 'search', policies: ['60/10s'], overrides: true, ban: {} }),
      createLimiter({
        ...{ store, name: 'api', overrides: true, ban: {} },
        tiers: {
          free: ['burst=token-bucket 10/1s', 'day=300/1d'],
          pro: ['burst=token-bucket 50/1s', 'day=900/1d'],
        },
      }),
      createLimiter({
        store,
        name: 'plan',
        policies: ['month=calendar 9/month by customer'],
        overrides: true,
      }),
      createLimiter({ store, name: 'fixed', policies: ['9/1m'] }),
    );
    site = await startPage({ store });
  });
  after(async () => {
    await site.close();
    for (const limiter of limiters) await limiter.close();
  });

  const errorOf = async (change: object): Promise<string> => {
    const headers = await tokenFields(site.url, 'ada');
    const body = JSON.stringify({
      action: 'override',
      name: 'search',
      key: 'ada',
      reason: 'INC-7',
      ...change,
    });
    const response = await fetch(`${site.url}api/change`, { method: 'POST', headers, body });
    return ((await response.json()) as { error: string }).error;
  };

  const CASES: readonly (readonly [change: object, text: RegExp])[] = [
    [{ change: '10/5parsec' }, /^"10\/5parsec" is not a limit: "5parsec" is not a length of time\./],
    [
      { change: 'abc/1m' },
      /^"abc\/1m" is not a limit\. Write a number, a slash and a window, such as 100\/1m\.$/,
    ],
    [{ change: '0/1m' }, /^0 is not a limit\. Write a whole number from 1 on/],
    [
      { change: '9/1m', for: 'abc' },
      /^"abc" is not a length of time\. Write a number with a unit, up to 366 days: 15m, 2h, 7d\.$/,
    ],
    [
      { change: '9/1m', until: 'yesterday' },
      /^"yesterday" is not a time in the future\. Write it as 2030-01-31T12:00Z\.$/,
    ],
    [
      { change: { nope: '9/1m' }, name: 'api' },
      /^The limiter has no policy named "nope"\. Its policies are: "burst", "day"\.$/,
    ],
    [{ change: '9/1m', name: 'api' }, /Write the limit of each by its name: burst=50\/1s day=900\/1d\.$/],
    [
      { change: { tier: 'gold' }, name: 'api' },
      /^The limiter has no tier named "gold"\. Its tiers are: "free", "pro"\.$/,
    ],
    [{ change: { month: '9/1m' }, name: 'plan', key: 'c', dimension: 'customer' }, /^"1m" is not a period\./],
    [{ change: '9/1m', name: 'fixed' }, /Its program can change that: `overrides: true`\.$/],
    [{ action: 'ban', for: 'soon' }, /^"soon" is not a length of time\./],
    [
      { action: 'ban', for: '1h', name: 'fixed' },
      /Its program can change that: `ban: {}`\. No key was banned\.$/,
    ],
  ];
  for (const [change, text] of CASES)
    it(`names no syntax of a program: ${JSON.stringify(change)}`, async () => {
      const error = await errorOf(change);
      expect(error).to.match(text);
      expect(error).not.to.match(/\[0\]|\{ |: '|milliseconds|ISO 8601|force|`raw/);
    });

  it('has no option of a program in a doubt about a key', () => {
    const doubt = 'the keys of "api" are addresses of clients, so "foo" cannot occur.';
    expect(
      onPage(`${doubt} Set \`dimension\` for a key of account or org. Check the key and the name.`),
    ).to.equal(`The${doubt.slice(3)} It may be a key of account or org.`);
  });

  it('has spans in place of long times in milliseconds, and invalid JSON in words', () => {
    expect(onPage('the window of 3600000 ms is longer.')).to.equal('the window of 60 min is longer.');
    for (const text of ['{bad', '']) {
      let message = '';
      try {
        JSON.parse(text);
      } catch (error) {
        message = onPage((error as Error).message);
      }
      expect(message).to.equal('The line is not valid JSON.');
    }
  });
});

describe('the limits of an override, as text', () => {
  it('have spans, and no syntax of a program', () => {
    expect(limitsText({ minute: { limit: 9000, window: 3_600_000 } })).to.equal(
      'minute limit 9,000, window 1 h',
    );
    expect(limitsText({ maxDelay: 90_000 })).to.equal('max delay 1 min 30 s');
    expect(limitsText({ day: false, burst: '9/1s' })).to.equal('day off, burst 9/1s');
    expect(limitsText({ policies: ['9/1m', { limit: 5, window: '1h' }] })).to.equal(
      '9/1m, limit 5, window 1h',
    );
    expect(limitsText({ customerDay: '9/1d' })).to.equal('customerDay 9/1d');
    expect(limitsText({ tier: 'pro' })).to.equal('tier pro');
  });
});
