// The headline of a key: all answers in a sentence.
import { expect } from 'chai';
import { otherDimension, recentText, verdictOf } from '../src/page/verdict.js';

const MINUTE = 60_000;
const at = () => '10:23';

describe('the headline of a key', () => {
  const view = (name: string, fields: object = {}) => ({
    ...{ name, dimension: 'key', likely: true, allowed: true, stored: false },
    ...{ warnings: [], policies: [] },
    ...fields,
  });
  const rows: Record<string, object> = {
    api: { policies: ['100/1m'], tiers: {}, dynamic: false },
    reports: { policies: ['slots=concurrency 4/30s by account'], tiers: {}, dynamic: false },
    shared: { policies: ['100/5s by provider share tenant'], tiers: {}, dynamic: false },
    tiered: { policies: [], tiers: { pro: ['9/1m by account'], free: ['1/1m'] }, dynamic: false },
    dynamic: { policies: ['9/1m by account'], tiers: {}, dynamic: true },
  };
  const headline = (views: ReturnType<typeof view>[], recent = '') =>
    verdictOf(views, (name: string) => rows[name], recent);

  it('leaves out a limiter that has no limit for such a key', () => {
    const unanswered = (name: string, fields: object = {}) => view(name, { allowed: null, ...fields });
    const api = view('api', { stored: true });
    expect(headline([api, unanswered('reports')])).to.deep.equal({
      text: 'Admitted by every limiter',
      mood: 'good',
    });
    expect(headline([view('api'), unanswered('reports')]).text).to.match(/^Admitted\. No limiter has/);
    expect(headline([unanswered('reports')]).text).to.match(/^Admitted\. No limiter has/);
    const isUnknown = (other: ReturnType<typeof view>) =>
      headline([api, other]).text === `Admitted by every other limiter. No answer in ${other.name}`;
    const warnings = [{ code: 'UNANSWERED', message: '' }];
    expect(isUnknown(unanswered('reports', { warnings }))).to.equal(true);
    expect(isUnknown(unanswered('api'))).to.equal(true);
    expect(isUnknown(unanswered('dynamic'))).to.equal(true);
    expect(isUnknown(unanswered('tiered'))).to.equal(true);
    expect(isUnknown(unanswered('shared', { dimension: 'tenant' }))).to.equal(true);
    expect(isUnknown(unanswered('of an earlier version'))).to.equal(true);
    expect(headline([unanswered('api')])).to.deep.equal({ text: 'Unknown: no answer in api', mood: '' });
  });

  it('knows past denials by a limit or a ban of another key of the requests', () => {
    const address = { dimension: 'address' };
    const row = {
      policies: ['minute=60/1m by account', 'day=9/1d by address'],
      tiers: {},
      bansBy: ['account'],
    };
    expect(otherDimension(address, { policy: 'minute' }, row)).to.equal('account');
    expect(otherDimension(address, { policy: 'day' }, row)).to.equal(undefined);
    expect(otherDimension({ dimension: 'account' }, { policy: 'minute' }, row)).to.equal(undefined);
    expect(otherDimension(address, { reason: 'banned' }, row)).to.equal('account');
    expect(otherDimension(address, { reason: 'aborted' }, row)).to.equal(undefined);
    expect(otherDimension(address, { policy: 'removed' }, row)).to.equal(undefined);
    expect(otherDimension(address, { policy: 'minute' }, undefined)).to.equal(undefined);
    const tiered = { policies: [], tiers: { pro: ['minute=9/1m by account'] }, bansBy: [] };
    expect(otherDimension({ dimension: 'key' }, { policy: 'minute' }, tiered)).to.equal('account');
  });

  it('names the limiter of earlier denials', () => {
    const now = Date.now();
    const past = (name: string, count: number, ageMs = MINUTE) => ({
      ...{ name, last: new Date(now - ageMs) },
      minutes: [
        { minute: now - ageMs, count, policy: 'address' },
        { minute: now - 20 * MINUTE, count: 900, policy: 'address' },
      ],
    });
    const recent = recentText([past('login', 4573)], at, now);
    expect(recent).to.match(/^4,573 denials in login in the last 15 minutes, the last 10:23$/);
    const views = [view('login', { stored: true }), view('reports', { allowed: null })];
    expect(headline(views, recent).text).to.equal(`Admitted now by every limiter, after ${recent}`);
    expect(recentText([past('api', 2), past('login', 1), past('api', 2)], at, now)).to.match(
      /^4 denials in api and 1 in login in the last/,
    );
    expect(
      recentText(
        ['a', 'b', 'c', 'd', 'e'].map((name, i) => past(name, 9 - i)),
        at,
        now,
      ),
    ).to.match(/^9 denials in a, 8 in b, 7 in c and others in 2 limiters in the last/);
    expect(recentText([past('login', 1, 16 * MINUTE)], at, now)).to.equal('');
  });

  it('names the tier of a denial, and both tiers if the charges fit both', () => {
    const free = view('api', { tier: 'free', allowed: false });
    const pro = view('api', { tier: 'pro' });
    expect(headline([free, { ...pro, likely: false }])).to.deep.equal({
      text: 'Denied by api in tier free',
      mood: 'bad',
    });
    expect(headline([free, { ...pro, allowed: false }]).text).to.equal('Denied by api');
    expect(headline([{ ...free, hadTier: true } as typeof free, pro])).to.deep.equal({
      text: 'Denied by api in tier free, as its requests were before the limits changed',
      mood: 'bad',
    });
    expect(headline([free, pro])).to.deep.equal({
      text: 'Denied by api in tier free, not in tier pro: its charges do not show its tier',
      mood: '',
    });
  });
});
