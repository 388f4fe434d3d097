// Answers with a denial, and the waits in the answers.
import { expect } from 'chai';
import { limitFetch, readAnswer } from 'headgate/fetch';
import { denialOf } from '../../src/fetch/denial.js';
import { NOW, REAL_ANSWERS } from './answers.js';
import { codeOf } from '../support/errors.js';

describe('denials by real answers', () => {
  let zone: string | undefined;
  // A zone that is not UTC: dates without a zone are in UTC.
  before(() => {
    zone = process.env['TZ'];
    process.env['TZ'] = 'America/New_York';
  });
  after(() => {
    if (zone === undefined) delete process.env['TZ'];
    else process.env['TZ'] = zone;
  });

  for (const { from, status, fields, denied } of REAL_ANSWERS) {
    it(`${from}, ${status}: ${denied === false ? 'no denial' : `denied, ${denied}`}`, () => {
      const denial = denialOf(
        status,
        readAnswer((name) => fields[name], NOW),
      );
      expect(denial === undefined ? false : (denial.ms ?? 'unknown')).to.equal(denied);
    });
  }

  it('a window beside a figure, and decimals', () => {
    const read = (fields: Record<string, string>) => readAnswer((name) => fields[name], NOW).quotas[0];
    const docker = { 'ratelimit-limit': '100;w=21600', 'ratelimit-remaining': '76;w=21600' };
    const window = { windowMs: 21_600_000 };
    expect(read(docker)).to.deep.equal({ limit: 100, remaining: 76, resetMs: undefined, ...window });
    const sine = { 'x-ratelimit-limit': '20, 20;w=60', 'x-ratelimit-remaining': '19' };
    expect(read(sine)).to.deep.equal({ limit: 20, remaining: 19, resetMs: undefined, windowMs: 60_000 });
    expect(read({ 'x-ratelimit-remaining': '4.7' })).to.include({ remaining: 4 });
  });
});

describe('a reset of a quota that is not exhausted', () => {
  const fields: Record<string, string> = {
    'x-ratelimit-limit-requests': '60',
    'x-ratelimit-remaining-requests': '59',
    'x-ratelimit-reset-requests': '6ms',
  };

  it('is a guess, unlike the reset of an exhausted quota', () => {
    const denial = (all: Record<string, string>) =>
      denialOf(
        429,
        readAnswer((name) => all[name], NOW),
      );
    expect(denial(fields)).to.deep.equal({ ms: 6, isGuess: true });
    expect(denial({ ...fields, 'x-ratelimit-remaining-requests': '0' })).to.deep.equal({ ms: 6 });
  });

  it('does not shorten the pause of a denial without a wait', async () => {
    const pauses: number[] = [];
    const answer = () => Promise.resolve(new Response('', { status: 429, headers: fields }));
    const call = limitFetch(answer as typeof fetch, {
      ...{ policies: ['1000/1s'], warnings: false, retry: false },
      onPause: ({ ms }) => void pauses.push(ms),
    });
    await call('http://partner.test/');
    await call.limiter.close();
    expect(pauses).to.deep.equal([1000]);
  });
});

describe('the option denied', () => {
  const url = 'http://partner.test/';
  const wide = { policies: ['1000/1s'], warnings: false, timeout: 50 } as const;
  it('finds denials in a body, which the caller still reads; the key pauses, and the call is sent again', async () => {
    const bodies = [{ errors: [{ extensions: { code: 'THROTTLED' } }] }, { data: 1 }];
    const call = limitFetch(() => Promise.resolve(Response.json(bodies.shift())), {
      ...{ ...wide, retry: true, timeout: '5s' },
      denied: async (response) => {
        const { errors } = (await response.clone().json()) as { errors?: { extensions: { code: string } }[] };
        return errors?.[0]?.extensions.code === 'THROTTLED' ? 20 : undefined;
      },
    });
    const response = await call(url, { method: 'POST', body: '{}' });
    expect(await response.json()).to.deep.equal({ data: 1 });
    expect(call.stats).to.include({ retries: 1, pauses: 1, violations: 0 });
  });

  it('may clone the response without reading the copy, and the call is sent again', async () => {
    const statuses = [429, 200];
    const answer = () =>
      Promise.resolve(
        new Response('slow down', { status: statuses.shift()!, headers: { 'retry-after-ms': '20' } }),
      );
    const denied = (response: Response) => (response.clone().status === 418 ? 1000 : undefined);
    const call = limitFetch(answer as typeof fetch, { policies: '50/1s', warnings: false, denied });
    expect((await call('http://partner.test/')).status).to.equal(200);
    expect(call.stats).to.include({ retries: 1 });
  });

  it('is preferred to the fields, and leaves the rest to them', async () => {
    const answer = (status: number) => () =>
      Promise.resolve(new Response('secondary rate limit', { status, headers: { 'retry-after': '1' } }));
    const pauses: number[] = [];
    const options = { ...wide, retry: false, onPause: ({ ms }: { ms: number }) => pauses.push(ms) } as const;
    await limitFetch(answer(403), { ...options, denied: () => 60_000 })(url);
    await limitFetch(answer(403), { ...options, denied: () => undefined })(url);
    await limitFetch(answer(200), { ...options, denied: ({ ok }) => (ok ? undefined : 5) })(url);
    expect(pauses).to.deep.equal([60_000, 1000]);
  });

  it('that throws, or returns nonsense, is a warning, and the fields decide', async () => {
    const warned: string[] = [];
    const listener = ({ message }: Error) => void warned.push(message);
    process.on('warning', listener);
    const partner = () =>
      Promise.resolve(new Response('', { status: 429, headers: { 'retry-after': '30' } }));
    const broken = [
      () => {
        throw new Error('mine');
      },
      () => 'soon' as never,
      () => NaN,
    ];
    for (const denied of broken) {
      const call = limitFetch(partner, { ...wide, retry: false, denied });
      expect((await call(url)).status).to.equal(429);
      expect(await codeOf(call(url))).to.equal('HEADGATE_WAIT_TIMEOUT');
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.off('warning', listener);
    expect(warned[0]).to.equal('denied threw: Error: mine');
    expect(warned.slice(1).join()).to.match(/denied: "soon".*denied: NaN/s);
    expect(() => limitFetch(partner, { ...wide, denied: 5 as never })).to.throw(/denied/);
  });
});
