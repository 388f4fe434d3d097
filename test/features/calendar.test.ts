// Periods of the calendar: their begins, and that only the store's clock selects the period.
import { expect } from 'chai';
import { createLimiter, type CalendarPolicy, type CreateLimiterOptions } from 'headgate';
import { redisStore } from 'headgate/redis';
import { algorithms } from '../../src/algorithms/index.js';
import { Calendar } from '../../src/algorithms/periods.js';
import { compilePolicies } from '../../src/contract/compile-policies.js';
import { serverKinds } from '../support/shared-servers.js';
import { clients, freshPrefix, limiterOn, stores, TestClock } from '../support/stores.js';

type Period = Omit<CalendarPolicy, 'algorithm' | 'limit'>;

/** The end of the period of a moment, as ISO text. */
const endOf = (period: Period, at: string) =>
  new Date(new Calendar('policy', { ...period }).endAt(Date.parse(at))).toISOString();

/** A title; a period with its anchor and its time zone; a moment, the end of its period, and the ends of the following ones. */
const TABLE = `
hours | hour | 2026-01-01T00:59:59.999Z 2026-01-01T01:00 2026-01-01T02:00
hours at +05:45 | hour Asia/Kathmandu | 2026-01-01T00:00 2026-01-01T00:15
hours when clocks go forward | hour Europe/Berlin | 2026-03-29T00:30 2026-03-29T01:00 2026-03-29T02:00
hours when clocks go back | hour Europe/Berlin | 2026-10-24T23:30 2026-10-25T00:00 2026-10-25T01:00 2026-10-25T02:00
hours when clocks go back by half an hour | hour Australia/Lord_Howe | 2026-04-04T13:30 2026-04-04T14:00 2026-04-04T15:30
days | day | 2026-06-01T00:00 2026-06-02T00:00
a day of 23 hours | day Europe/Berlin | 2026-03-28T23:00 2026-03-29T22:00 2026-03-30T22:00
a day of 25 hours | day Europe/Berlin | 2026-10-24T22:00 2026-10-25T23:00 2026-10-26T23:00
a day without a midnight | day America/Sao_Paulo | 2018-11-03T12:00 2018-11-04T03:00 2018-11-05T02:00
a day with two midnights | day Atlantic/Azores | 2026-10-24T12:00 2026-10-25T00:00 2026-10-26T01:00
days at +05:45 | day Asia/Kathmandu | 2026-01-01T18:14:59.999Z 2026-01-01T18:15 2026-01-02T18:15
a day that Samoa skipped | day Pacific/Apia | 2011-12-29T12:00 2011-12-30T10:00 2011-12-31T10:00
weeks | week | 2026-01-01T00:00 2026-01-05T00:00 2026-01-12T00:00
weeks from Sunday on | week @sunday America/New_York | 2026-03-04T00:00 2026-03-08T05:00 2026-03-15T04:00
weeks from the weekday of a date on | week @2026-01-01 | 2026-01-07T23:59:59Z 2026-01-08T00:00
months | month | 2024-01-31T23:59:59Z 2024-02-01T00:00 2024-03-01T00:00
months across a change of summer time | month Europe/Berlin | 2026-03-10T00:00 2026-03-31T22:00
months from the 31st on | month @31 | 2026-01-31T00:00 2026-02-28T00:00 2026-03-31T00:00 2026-04-30T00:00 2026-05-31T00:00
months from the 30th on, in a leap year | month @2023-11-30 | 2024-02-01T00:00 2024-02-29T00:00 2024-03-30T00:00
a month that ended with the day that Samoa skipped | month @30 Pacific/Apia | 2011-12-01T12:00 2011-12-30T10:00 2012-01-29T10:00
years | year | 2026-07-01T00:00 2027-01-01T00:00 2028-01-01T00:00
years of a subscription of a leap day | year @2024-02-29 | 2024-02-29T00:00 2025-02-28T00:00 2026-02-28T00:00 2027-02-28T00:00 2028-02-29T00:00
fiscal years | year @04-06 Europe/London | 2026-04-05T22:59:59Z 2026-04-05T23:00 2027-04-05T23:00
`;

/** `2026-01-01T00:15` in full. */
const momentOf = (text: string) => (text.endsWith('Z') ? text : `${text}:00.000Z`);

const rows = TABLE.trim()
  .split('\n')
  .map((line): [title: string, period: Period, at: string, ...ends: string[]] => {
    const [title, words, moments] = line.split(' | ') as [string, string, string];
    const [, period, anchor, timeZone] = /^(\w+)(?: @(\S+))?(?: (\S+))?$/.exec(words)!;
    const on = anchor !== undefined && { anchor: /^\d+$/.test(anchor) ? Number(anchor) : anchor };
    const [at, ...ends] = moments.split(' ').map(momentOf);
    return [title, { period, ...on, ...(timeZone !== undefined && { timeZone }) } as Period, at!, ...ends];
  });

describe('the params of a calendar', () => {
  for (const [title, period] of rows) {
    it(`are integers that mean the same in every process: ${title}`, () => {
      const { params, id } = compilePolicies('policy', [{ algorithm: 'calendar', limit: 5, ...period }])[0]!;
      const received = JSON.parse(JSON.stringify(params)) as typeof params;
      expect(Object.values(received).every(Number.isSafeInteger)).to.be.true;
      const column = algorithms.calendar.createColumn(1, received);
      const now = Date.parse('2026-10-24T23:30:00Z');
      column.look(1, received, 1, now);
      column.commit(1, received, 1, now);
      expect(column.until(1), id).to.equal(new Calendar('policy', { ...period }).endAt(now));
    });
  }
});

describe('periods of the calendar', () => {
  for (const [title, period, at, ...ends] of rows) {
    it(title, () => {
      let moment = at;
      for (const end of ends) expect((moment = endOf(period, moment))).to.equal(end);
      // A period ends exactly when the next one begins.
      const end = Date.parse(ends[0]!);
      expect(endOf(period, new Date(end - 1).toISOString())).to.equal(ends[0]);
    });
  }

  it('last as docs/algorithms.md states where the offset is not a whole number of hours', () => {
    const lengths = (period: 'hour' | 'day', timeZone: string): number[] => {
      const calendar = new Calendar('policy', { period, timeZone });
      const found = new Set<number>();
      for (let at = Date.parse('2026-01-01'); at < Date.parse('2027-01-01');) {
        const [start, end] = calendar.periodsFrom(at) as [number, number];
        found.add((end - start) / 60_000);
        at = end;
      }
      return [...found].sort((a, b) => a - b);
    };
    expect(lengths('hour', 'Australia/Lord_Howe')).to.deep.equal([60, 90]);
    expect(lengths('day', 'Australia/Lord_Howe')).to.deep.equal([1410, 1440, 1470]);
    expect(lengths('hour', 'Pacific/Chatham')).to.deep.equal([60]);
    expect(lengths('day', 'Pacific/Chatham')).to.deep.equal([1380, 1440, 1500]);
  });

  it('are listed with the following ones, in order', () => {
    for (const [, period, at] of rows) {
      const now = Date.parse(at);
      const calendar = new Calendar('policy', { ...period });
      const [start, end, next, ...more] = calendar.periodsFrom(now);
      expect(more).to.deep.equal([]);
      expect(start).to.be.at.most(now);
      expect(calendar.endAt(start!)).to.equal(end);
      expect(calendar.endAt(end!)).to.equal(next);
      expect(end).to.be.greaterThan(now);
      expect(next).to.be.greaterThan(end!);
    }
  });
});

const wrong: [policy: object, ...says: string[]][] = [
  [{}, 'policy.period: ', "'month'"],
  [{ period: 'fortnight' }, 'policy.period: "fortnight"'],
  [{ period: 'day', timeZone: 'Europe/Berlim' }, 'policy.timeZone: "Europe/Berlim"', "'Europe/Berlin'"],
  [{ period: 'day', timeZone: 5 }, 'policy.timeZone: 5'],
  [{ period: 'day', anchor: 3 }, 'policy.anchor: 3', 'day'],
  [{ period: 'week', anchor: 3 }, 'policy.anchor: 3', "'monday'"],
  [{ period: 'month', anchor: 32 }, 'policy.anchor: 32', '31'],
  [{ period: 'month', anchor: '2026-02-30' }, 'policy.anchor: "2026-02-30"'],
  [{ period: 'year', anchor: '13-01' }, 'policy.anchor: "13-01"', "'07-01'"],
  [{ period: 'month', window: '1d' }, "'window'"],
];

describe('a calendar policy that is wrong', () => {
  for (const [policy, ...says] of wrong) {
    it(JSON.stringify(policy), () => {
      const make = () =>
        createLimiter({ algorithm: 'calendar', limit: 1, ...policy } as CreateLimiterOptions);
      for (const words of says) expect(make).to.throw(words);
    });
  }
});

for (const [name, createStore] of Object.entries(stores)) {
  describe(`calendar on ${name}`, () => {
    /** A server expires keys by its own clock, so the test's time is ahead of the server's. */
    const year = new Date().getUTCFullYear() + 2;
    const at = (text: string) => Date.parse(`${year}-${text}Z`);
    const open = (options: CreateLimiterOptions | string) => {
      const clock = new TestClock();
      const compiled = typeof options === 'string' ? { policies: options } : options;
      return { clock, limiter: limiterOn(createStore(clock.read), compiled) };
    };

    it('counts until the period ends, whenever the first request comes', async () => {
      const { clock, limiter } = open('calendar 3/month Europe/Berlin');
      clock.now = at('03-31T21:59:00');
      expect(await limiter.consume('k', { cost: 2 })).to.include({ remaining: 1, resetAfterMs: 60_000 });
      clock.now += 30_000;
      expect(await limiter.consume('k')).to.include({ allowed: true, remaining: 0 });
      expect(await limiter.consume('k')).to.include({ allowed: false, retryAfterMs: 30_000 });
      clock.now += 30_000;
      expect(await limiter.consume('k')).to.include({ remaining: 2, resetAfterMs: 30 * 86_400_000 });
    });

    it('gives back only charges of the same period', async () => {
      const { clock, limiter } = open('calendar 5/day');
      clock.now = at('05-01T23:00:00');
      const [one, two] = [await limiter.consume('k', { cost: 2 }), await limiter.consume('k', { cost: 2 })];
      await two.refund();
      expect(await limiter.peek('k')).to.include({ remaining: 3 });
      clock.now += 3_600_000;
      await limiter.consume('k');
      await one.refund();
      expect(await limiter.peek('k')).to.include({ remaining: 4 });
    });

    it('after a change of the zone or the anchor, a key has at most the old and the new quota', async () => {
      const { clock, limiter } = open('calendar 5/month');
      clock.now = at('05-10T00:00:00');
      let admitted = 0;
      const texts = ['calendar 5/month', 'calendar 5/month Europe/Berlin', 'calendar 5/month'];
      for (const text of texts) {
        const set = limiter.compile(text);
        while ((await limiter.decide('k', 1, set)).allowed) admitted++;
      }
      expect(admitted).to.equal(10);
      const more = limiter.compile('calendar 8/month');
      expect(await limiter.decide('k', 0, more)).to.include({ remaining: 3 });
    });

    it('beside other policies, with a ban: all charge, or none does', async () => {
      const { clock, limiter } = open({
        policies: ['day=calendar 2/day Asia/Kathmandu', 'minute=1/1m', 'year=calendar 10/year anchor 07-01'],
        ban: {},
      });
      clock.now = at('06-30T12:00:00');
      await limiter.consume('k');
      expect(await limiter.consume('k')).to.include({ allowed: false, policy: 'minute' });
      clock.now += 120_000;
      await limiter.consume('k');
      const { policies } = await limiter.consume('k');
      expect(policies.map(({ remaining }) => remaining)).to.deep.equal([0, 0, 8]);
    });
  });
}

for (const kind of serverKinds) {
  describe(`the clock of calendar on ${kind}`, () => {
    const { now } = Date;
    afterEach(() => (Date.now = now));

    for (const policies of ['calendar 5/day', ['a=calendar 5/day', 'b=calendar 9/week anchor sunday']]) {
      it(`is the server's, however wrong the client's is: ${JSON.stringify(policies)}`, async () => {
        const prefix = freshPrefix();
        const ends: number[] = [];
        const [server] = await clients[kind].time();
        const right = new Calendar('', { period: 'day' }).endAt(1000 * Number(server));
        for (const days of [0, 1, -1, 3, -100, 100_000, 0]) {
          const limiter = limiterOn(redisStore(clients[kind], { prefix }), { name: 'shared', policies });
          Date.now = () => now() + days * 86_400_000;
          // The second call, and the call that gives back, know the server's time.
          const decision = await limiter.consume('k');
          await limiter.peek('k');
          if (days === 100_000) await decision.refund();
          Date.now = now;
          ends.push(Number(server) * 1000 + decision.policies[0]!.resetAfterMs);
        }
        for (const end of ends) expect(end).to.be.within(right - 60_000, right + 86_400_000);
        const limiter = limiterOn(redisStore(clients[kind], { prefix }), { name: 'shared', policies });
        expect((await limiter.peek('k')).policies[0]).to.include({ remaining: 0 });
      });
    }

    it('a call is sent at most twice, whatever the client’s clock does', async () => {
      const limiter = limiterOn(redisStore(clients[kind], { prefix: freshPrefix() }), {
        policies: 'calendar 5/day',
      });
      let calls = 0;
      Date.now = () => now() + (++calls < 200 ? calls * 366 * 86_400_000 : 0);
      const error: unknown = await limiter.consume('k').catch((reason: unknown) => reason);
      expect(error).to.have.property('code', 'HEADGATE_STORE_ERROR');
      Date.now = now;
      await limiter.close();
    });

    it('a give-back finds its period, too', async () => {
      const store = redisStore(clients[kind], { prefix: freshPrefix() });
      const limiter = limiterOn(store, { policies: ['calendar 5/year', 'x=calendar 7/month'] });
      const decision = await limiter.consume('k', { cost: 3 });
      Date.now = () => now() + 40 * 366 * 86_400_000;
      await decision.settle(1);
      expect((await limiter.peek('k')).policies.map(({ remaining }) => remaining)).to.deep.equal([4, 6]);
    });
  });
}
