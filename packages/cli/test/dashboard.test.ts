// headgate dashboard serves the page to the browser that opened the printed address, and to nobody else.
import { request } from 'node:http';
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import type { Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate, TELLING, told } from './cli.js';

interface Printed {
  readonly url: string;
  readonly by: string;
  readonly readOnly: boolean;
}

describe('headgate dashboard', () => {
  let where: string[];
  let limiter: Limiter;
  beforeEach(async () => {
    const prefix = freshPrefix();
    where = ['--redis', servers.redis.url, '--prefix', prefix];
    limiter = limiterOn(redisStore(clients.redis, { prefix, ...TELLING }), {
      name: 'api',
      policies: ['5/1m'],
      ban: {},
    });
    await told(where, 'api');
  });
  afterEach(() => limiter.close());

  /** Runs the command until `use` has ended. */
  const during = async (args: readonly string[], use: (printed: Printed) => Promise<void>) => {
    const stdout = new PassThrough();
    let stop = (): void => {};
    const onInterrupt = (listener: () => void) => ((stop = listener), () => {});
    const ended = headgate(['dashboard', '--json', '--by', 'ada', ...where, ...args], {
      stdout,
      onInterrupt,
    });
    const printed = await new Promise<string>((resolve, reject) => {
      let text = '';
      stdout.on('data', (chunk: Buffer) => (text += chunk.toString()).endsWith('}\n') && resolve(text));
      void ended.then(({ stderr }) => reject(new Error(stderr)));
    });
    await use(JSON.parse(printed) as Printed).finally(() => stop());
    expect((await ended).code).to.equal(0);
  };

  const statusOf = (url: string, headers: Record<string, string>) =>
    new Promise<number>((resolve, reject) => {
      const sent = request(url, { headers }, (response) => resolve(response.resume().statusCode!));
      sent.on('error', reject).end();
    });

  it('exchanges the printed token for a cookie, and refuses all others', () =>
    during([], async ({ url, by, readOnly }) => {
      expect({ by, readOnly }).to.deep.equal({ by: 'ada', readOnly: false });
      const { origin, host, port } = new URL(url);
      expect(host).to.match(/^127\.0\.0\.1:/);
      expect(await statusOf(`${origin}/`, {})).to.equal(403);
      expect(await statusOf(`${origin}/?token=wrong`, {})).to.equal(403);
      const entry = await fetch(url, { redirect: 'manual' });
      expect([entry.status, entry.headers.get('location')]).to.deep.equal([303, '/']);
      const set = entry.headers.getSetCookie()[0]!;
      expect(set).to.contain('HttpOnly').and.to.contain('SameSite=Strict');
      const cookie = set.split(';')[0]!;
      expect(await statusOf(`${origin}/`, { cookie })).to.equal(200);
      expect(await statusOf(`${origin}/api/now`, { cookie })).to.equal(200);
      expect(await statusOf(`${origin}/`, { cookie, host: `rebound.example:${port}` })).to.equal(403);
      const now = (await (await fetch(`${origin}/api/now`, { headers: { cookie } })).json()) as object;
      expect(now).to.have.nested.property('me.by', 'ada');
    }));

  it('offers no changes with --read-only', () =>
    during(['--read-only'], async ({ url }) => {
      const { origin } = new URL(url);
      const cookie = (await fetch(url, { redirect: 'manual' })).headers.getSetCookie()[0]!.split(';')[0]!;
      const now = (await (await fetch(`${origin}/api/now`, { headers: { cookie } })).json()) as object;
      expect(now).to.deep.include({ me: null });
    }));

  it('takes the address of the server as its argument, once', async () => {
    const { code, stderr } = await headgate(['dashboard', 'redis://127.0.0.1:1', ...where]);
    expect(code).to.equal(2);
    expect(stderr).to.contain('Pass one of them');
    const away = await headgate(['dashboard', 'redis://127.0.0.1:1', '--by', 'ada']);
    expect(away.code, away.stderr).to.equal(4);
  });
});
