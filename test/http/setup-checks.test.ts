// Mistakes that a limiter's first requests show, by the request. warnings.test.ts has the mistakes as users make them.
import { expect } from 'chai';
import { clientKeys } from '../../src/http/client-key.js';
import type { Framework, Proxies } from '../../src/http/framework.js';
import { SetupChecks } from '../../src/http/setup-checks.js';
import type { PolicySet } from '../../src/contract/store.js';

interface Req {
  readonly ip?: string;
  readonly proxy?: Proxies;
}

const framework = {
  ip: ({ ip }: Req) => ip,
  proxy: ({ proxy }: Req) => proxy,
} as unknown as Framework<Req, never>;

/** Checks, with their warnings: codes without the common prefix. */
function checksOf(keyOptions: Record<string, string> = {}, lists = false) {
  const warned: string[] = [];
  const warn = (code: string, message: string) => void warned.push(`${code.slice(9)} ${message}`);
  const checks = new SetupChecks<Req>(framework, { warn, lists, keyOptions, clientKey: clientKeys(56) });
  const codes = () => warned.splice(0).map((each) => each.split(' ')[0]);
  return { checks, warned, codes };
}

const DEFAULT = { key: 'keyGenerator' };

describe('the checks of a set-up', () => {
  it('look at a thousand requests', () => {
    const { checks } = checksOf();
    const looks = Array.from({ length: 1000 }, () => checks.look({}));
    expect(looks.indexOf(false)).to.equal(999);
  });

  it('warn once, at the hundredth request, that no request had a key', () => {
    const { checks, warned, codes } = checksOf(DEFAULT);
    for (let i = 1; i < 100; i++) checks.lookAtKey({}, undefined);
    expect(warned).to.deep.equal([]);
    checks.lookAtKey({}, undefined);
    expect(warned[0]).to.match(/^NEVER_A_KEY For the first 100 requests keyGenerator returned/);
    for (let i = 0; i < 200; i++) checks.lookAtKey({}, undefined);
    expect(codes()).to.have.length(1);
  });

  it('do not warn once a request had a key', () => {
    const { checks, warned } = checksOf(DEFAULT);
    for (let i = 1; i < 100; i++) checks.lookAtKey({}, undefined);
    checks.lookAtKey({}, 'ada');
    for (let i = 0; i < 200; i++) checks.lookAtKey({}, undefined);
    expect(warned).to.deep.equal([]);
  });

  it('name at the last request the option that never returned a key, although others did', () => {
    const set = { dimensions: { names: ['key', 'account', 'org'] } } as unknown as PolicySet;
    const { checks, warned } = checksOf({ ...DEFAULT, account: 'keys.account', org: 'keys.org' });
    for (let i = 1; i < 1000; i++) {
      expect(warned).to.deep.equal([]);
      checks.look({});
      checks.lookAtKey({}, { key: 'ada', org: i === 1 ? 'acme' : undefined }, set);
    }
    expect(warned).to.have.length(1);
    expect(warned[0]).to.match(/^NEVER_A_KEY For the first 999 requests keys\.account returned/);
  });

  for (const [what, key, ip, expected] of [
    ['a whole IPv6 address', '2001:db8::1', '2001:db8::1', ['WHOLE_IPV6_KEY']],
    ['one with a word before it', 'ip:2001:db8::1', '2001:db8::1', ['WHOLE_IPV6_KEY']],
    ['one right behind a word', 'ip_2001:db8::1', '2001:db8::1', ['WHOLE_IPV6_KEY']],
    ['one that begins with colons, and another text', 'tenant/::1', '::1', ['WHOLE_IPV6_KEY']],
    ['the end of another text', 'tenant::1', '::1', []],
    ['the network of one', '2001:db8::/56', '2001:db8::1', []],
    ['an IPv4 address', '192.0.2.1', '192.0.2.1', []],
    ['something else', 'ada', '2001:db8::1', []],
    ['a key from no address', 'ada', 'unix:', []],
  ] as const)
    it(`take ${what} for ${expected.length > 0 ? 'a mistake' : 'none'}`, () => {
      const { checks, codes } = checksOf(DEFAULT);
      checks.lookAtKey({ ip }, key);
      expect(codes()).to.deep.equal(expected);
      // The limiter's default key is not an option of the user.
      const withDefaultKey = checksOf();
      withDefaultKey.checks.lookAtKey({ ip }, key);
      expect(withDefaultKey.codes()).to.deep.equal([]);
    });

  const proxy = (trusts: Proxies['trusts'], peer: string, headers: object = {}): Proxies => ({
    trusts,
    peer,
    headers: { ...headers },
  });
  const via = (...addresses: string[]) => ({ 'x-forwarded-for': addresses.join(', ') });
  for (const [what, of, expected] of [
    ['no proxy', proxy('nobody', '10.0.0.1'), []],
    ['an untrusted proxy', proxy('nobody', '10.0.0.1', via('192.0.2.9')), ['UNTRUSTED_PROXY']],
    ['every proxy trusted', proxy('anybody', '10.0.0.2'), ['ANY_PROXY_TRUSTED']],
    ['other proxies trusted', proxy('some', '10.0.0.1', via('192.0.2.9')), ['UNTRUSTED_PROXY']],
    ['a trusted proxy', proxy('some', '10.0.0.2', via('192.0.2.9')), []],
    ['a request of a trusted proxy itself', proxy('some', '10.0.0.1', via('10.0.0.1')), []],
    ['Forwarded', proxy('nobody', '10.0.0.1', { forwarded: 'for=192.0.2.9' }), ['FORWARDED_UNREAD']],
    [
      'Forwarded, which the application has read',
      proxy('nobody', '10.0.0.2', { forwarded: 'for=10.0.0.1' }),
      [],
    ],
    ['both', proxy('some', '10.0.0.2', { ...via('192.0.2.9'), forwarded: 'for=192.0.2.9' }), []],
  ] as const)
    it(`of ${what}: ${expected.join() || 'nothing'}`, () => {
      const req = { ip: '10.0.0.1', proxy: of };
      for (const key of ['10.0.0.1', 'ip_10.0.0.1']) {
        const byAddress = checksOf();
        byAddress.checks.lookAtKey(req, key);
        expect(byAddress.codes()).to.deep.equal(expected);
      }
      const byList = checksOf({}, true);
      byList.checks.look(req);
      expect(byList.codes()).to.deep.equal(expected);
      // An address that the limiter does not use has no effect.
      const byUser = checksOf(DEFAULT);
      byUser.checks.look(req);
      byUser.checks.lookAtKey(req, 'ada');
      expect(byUser.codes()).to.deep.equal([]);
    });
});
