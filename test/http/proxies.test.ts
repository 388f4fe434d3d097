// docs/proxies.md: with the settings of the page, a client counts by its own address, whatever header it sends.
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import express from 'express';
import Fastify from 'fastify';
import type { Decision } from 'headgate';
import request from 'supertest';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { clientKey } from 'headgate/http';
import { rateLimit as limitKoa } from 'headgate/koa';
import Koa from 'koa';

const page = readFileSync(new URL('../../docs/proxies.md', import.meta.url), 'utf8');

interface Row {
  readonly name: string;
  /** The field on arrival, after the part that the client invented. */
  readonly forwarded: string;
  readonly trusted: number;
  readonly hasPort: boolean;
}

const client = '203.0.113.9';

/** The items of the page's lists of `X-Forwarded-For`, each with the number of proxies that its list names. */
const rows = [
  ...page.matchAll(
    /^Trust `(\d)` where the address is the last( but one)? of `X-Forwarded-For`:\n\n((?:- .*\n)+)/gm,
  ),
].flatMap(([, trusted, isBeforeLast, list]): Row[] =>
  list!
    .split('\n')
    .slice(0, -1)
    .map((item) => {
      const hasPort = item.includes('with a port');
      const added = [hasPort ? `${client}:50123` : client, ...(isBeforeLast ? ['198.51.100.1'] : [])];
      const forwarded = ['192.0.2.1', '192.0.2.2', ...added].join(', ');
      const name = /^- ([^,.]+)/.exec(item)![1]!;
      return { name, forwarded, trusted: Number(trusted), hasPort };
    }),
);

const written = (text: string) => /^function withoutPort[^]*?^}/m.exec(text)![0];

/** The code of the page against ports. */
function withoutPort(address = ''): string {
  return /^(?:\[(.+)\]|([\d.]+))(?::\d+)?$/.exec(address)?.slice(1).find(Boolean) ?? address;
}

describe('behind proxies', () => {
  it('the page covers many proxies', () => {
    expect(rows.map(({ name }) => name)).to.have.length.greaterThan(14);
    expect(rows.map(({ trusted }) => trusted)).to.include.members([1, 2]);
    expect(rows.filter(({ hasPort }) => hasPort)).to.have.length(2);
  });

  for (const { name, forwarded, trusted, hasPort } of rows) {
    const options = {
      limit: 5,
      window: '1m',
      warnings: false,
      ...(hasPort && { keyGenerator: ({ ip }: { ip?: string | undefined }) => clientKey(withoutPort(ip)) }),
    } as const;

    it(`${name}: Express`, async () => {
      const app = express();
      app.set('trust proxy', trusted);
      app.use(rateLimit(options));
      app.get('/', (req, res) => void res.send(req.rateLimit!.key));
      const { text } = await request(app).get('/').set('X-Forwarded-For', forwarded);
      expect(text).to.equal(client);
    });

    it(`${name}: Koa`, async () => {
      const app = new Koa({ proxy: true, maxIpsCount: trusted });
      const keyGenerator = hasPort && {
        keyGenerator: ({ ip }: { ip: string }) => clientKey(withoutPort(ip)),
      };
      app.use(limitKoa({ limit: 5, window: '1m', ...keyGenerator }));
      app.use((ctx) => void (ctx.body = (ctx.state as { rateLimit: Decision }).rateLimit.key));
      const { text } = await request(app.callback()).get('/').set('X-Forwarded-For', forwarded);
      expect(text).to.equal(client);
    });

    it(`${name}: Fastify`, async () => {
      const app = Fastify({ trustProxy: (_address, hop) => hop < trusted });
      await app.register(rateLimitPlugin, options);
      app.get('/', ({ rateLimit }) => rateLimit!.key);
      const { body } = await app.inject({ url: '/', headers: { 'x-forwarded-for': forwarded } });
      await app.close();
      expect(body).to.equal(client);
    });
  }

  it('removes ports, and nothing else', () => {
    for (const [given, address] of [
      ['203.0.113.9:50123', '203.0.113.9'],
      ['203.0.113.9', '203.0.113.9'],
      ['[2001:db8::1]:50123', '2001:db8::1'],
      ['[2001:db8::1]', '2001:db8::1'],
      ['2001:db8::1', '2001:db8::1'],
      ['unknown', 'unknown'],
    ])
      expect(withoutPort(given)).to.equal(address);
    expect(withoutPort(undefined)).to.equal('');
    const source = readFileSync(import.meta.filename, 'utf8');
    expect(written(page)).to.equal(written(source));
  });
});
