// The option partitionKey without a server: its valid secrets, and the resulting lists.
import { createHmac } from 'node:crypto';
import { expect } from 'chai';
import { createLimiter, memoryStore } from 'headgate';
import { rateLimit } from 'headgate/express';
import { compileHeaders } from '../../src/http/quota-fields.js';
import { compilePartitionKey } from '../../src/http/partition-key.js';
import { ofLimiter } from '../../src/limiter/decision.js';

const SECRET = 'a secret of the tests';
const LIMITS = { limit: 5, window: '1m' } as const;

describe('partitionKey', () => {
  /** The fields of two limiters on one response. */
  const fields = async (dialects: Parameters<typeof compileHeaders>[0], key: string, secret: unknown) => {
    const write = compileHeaders(dialects, compilePartitionKey(secret, false));
    const written = new Map<string, string>();
    const target = {
      getHeader: (_: unknown, name: string) => written.get(name),
      setHeader: (_: unknown, name: string, value: string) => void written.set(name, value),
    };
    for (const stacked of [false, true])
      write(target, {}, ofLimiter(await createLimiter(LIMITS).consume(key)), stacked);
    return Object.fromEntries(written);
  };

  it('is on each item of each limiter, in the fields of draft-11 only', async () => {
    const all = await fields(['draft-11', 'draft-7', 'draft-6', 'legacy'], 'ada', SECRET);
    const pk = 'pk=:[A-Za-z0-9+/]{22}==:';
    expect(all['RateLimit']).to.match(
      new RegExp(`^"default";r=4;t=\\d+;${pk}, "default-2";r=4;t=\\d+;${pk}$`),
    );
    expect(all['RateLimit-Policy']).to.match(
      new RegExp(`^"default";q=5;w=60;${pk}, "default-2";q=5;w=60;${pk}$`),
    );
    expect(JSON.stringify(all)).not.to.include('ada');
    expect(Object.values(all).filter((value) => value.includes('pk='))).to.have.length(2);
    expect(JSON.stringify(await fields('draft-11', 'ada', false))).not.to.include('pk=');
  });

  it('is equal only for the same key and secret; true is a secret of the process', async () => {
    const keyOf = async (key: string, secret: unknown) =>
      /pk=:(.*?):/.exec((await fields('draft-11', key, secret))['RateLimit']!)![1];
    expect(await keyOf('ada', SECRET)).to.equal(await keyOf('ada', SECRET));
    expect(await keyOf('ada', true)).to.equal(await keyOf('ada', true));
    const others = [keyOf('bob', SECRET), keyOf('ada', `${SECRET} 2`), keyOf('ada', true)];
    expect(new Set(await Promise.all([keyOf('ada', SECRET), ...others])).size).to.equal(4);
  });

  it('is computed as in the docs', async () => {
    const hmac = (key: string | Buffer, text: Buffer | string) =>
      createHmac('sha256', key).update(text).digest();
    const expectedHash = hmac(hmac(SECRET, 'headgate partition keys'), Buffer.from('key=ada', 'utf16le'));
    const { RateLimit } = await fields('draft-11', 'ada', SECRET);
    expect(RateLimit).to.include(`;pk=:${expectedHash.subarray(0, 16).toString('base64')}:`);
  });

  it('requires a secret that all processes share, if they may share the quota', () => {
    for (const shared of [{ store: memoryStore(), ...LIMITS }, { limiter: createLimiter(LIMITS) }])
      expect(() => rateLimit({ ...shared, partitionKey: true })).to.throw(/partitionKey: .*\b16\b/);
    expect(() => rateLimit({ ...LIMITS, partitionKey: true })).not.to.throw();
    expect(() => rateLimit({ ...LIMITS, store: memoryStore(), partitionKey: SECRET })).not.to.throw();
    for (const [secret, fault] of [
      ['short', /partitionKey: .*\b5\b/],
      [`${SECRET}\n`, /secret\.trim\(\)/],
      [5, /partitionKey: .*string/],
    ] as const) {
      expect(() => rateLimit({ ...LIMITS, partitionKey: secret as string }))
        .to.throw(fault)
        .and.property('message')
        .not.include(SECRET);
    }
  });

  it('requires draft-11, the only dialect with partition keys', () => {
    for (const headers of [false, 'draft-6', ['draft-7', 'legacy']] as const)
      expect(() => rateLimit({ ...LIMITS, headers, partitionKey: true })).to.throw(/headers: .*draft-11/);
  });
});
