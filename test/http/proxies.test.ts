// docs/keys.md: with the settings of the page, a client counts by its own address, whatever header it sends.
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import express from 'express';
import Fastify from 'fastify';
import request from 'supertest';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { clientKey } from 'headgate/http';

const page = readFileSync(new URL('../../docs/keys.md', import.meta.url), 'utf8');

interface Row {
  readonly name: string;
  /** The field on arrival, after the part that the client invented. */
  readonly forwarded: string;
  readonly trusted: number;
  readonly hasPort: boolean;
}

const client = '203.0.113.9';

/** The rows of the page's table about `X-Forwarded-For` and a number. */
const rows = page.split('\n').flatMap((line): Row[] => {
  const [, name, where, , what] = line.split('|').map((cell) => cell.trim());
  const place = /^last( but one)? of `X-Forwarded-For`/.exec(where ?? '');
  const trusted = /^`(\d)`/.exec(what ?? '')?.[1];
  if (!name || !place || trusted === undefined) return [];
  const hasPort = where!.includes('with a port');
  const added = [hasPort ? `${client}:50123` : client, ...(place[1] ? ['198.51.100.1'] : [])];
  return [
    { name, forwarded: ['192.0.2.1', '192.0.2.2', ...added].join(', '), trusted: Number(trusted), hasPort },
  ];
});

const written = (text: string) => /^function withoutPort[^]*?^}/m.exec(text)![0];

/** The code of the page against ports. */
function withoutPort(address = ''): string {
  return /^(?:\[(.+)\]|([\d.]+))(?::\d+)?$/.exec(address)?.slice(1).find(Boolean) ?? address;
}

describe('behind proxies', () => {
  it('the page covers many proxies', () => {
    expect(rows.map(({ name }) => name)).to.have.length.greaterThan(8);
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
