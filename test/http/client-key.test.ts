// The key of an address, compared with a model that computes with its 128 bits.
import { expect } from 'chai';
import fc from 'fast-check';
import type { HeadgateError } from 'headgate';
import { clientKey } from 'headgate/http';

const BITS = 128n;
const bits = fc.bigInt({ min: 0n, max: 2n ** BITS - 1n }).filter((address) => address >> 32n !== 0xffffn);
const subnets = fc.integer({ min: 1, max: 128 });

function networkOf(address: bigint, subnet: number): bigint {
  return address >> (BITS - BigInt(subnet));
}

function hextets(address: bigint): string[] {
  return Array.from({ length: 8 }, (_, i) => ((address >> BigInt(112 - 16 * i)) & 0xffffn).toString(16));
}

/** An address in its many forms. */
const forms: Readonly<Record<string, (address: bigint) => string>> = {
  full: (address) => hextets(address).join(':'),
  'leading zeros': (address) =>
    hextets(address)
      .map((part) => part.padStart(4, '0'))
      .join(':'),
  'upper case': (address) => hextets(address).join(':').toUpperCase(),
  'with a zone': (address) => `${hextets(address).join(':')}%eth0`,
  'IPv4 at the end': (address) => {
    const last = Number(address & 0xffffffffn);
    const octets = [last >>> 24, (last >> 16) & 255, (last >> 8) & 255, last & 255];
    return [...hextets(address).slice(0, 6), octets.join('.')].join(':');
  },
};

describe('clientKey', () => {
  it('is equal for two IPv6 addresses exactly if their networks are equal, whatever the form', () => {
    const form = fc.constantFrom(...Object.values(forms));
    fc.assert(
      fc.property(bits, bits, subnets, subnets, form, form, (a, b, subnet, common, formA, formB) => {
        // Half of the pairs share a prefix, which random addresses never do.
        const near = (networkOf(a, common) << (BITS - BigInt(common))) | (b % 2n ** (BITS - BigInt(common)));
        // An address that maps an IPv4 address is a separate client.
        const isMapped = (address: bigint) => address >> 32n === 0xffffn;
        for (const other of [b, near].filter((each) => !isMapped(each) && !isMapped(a))) {
          const same = networkOf(a, subnet) === networkOf(other, subnet);
          expect(clientKey(formA(a), subnet) === clientKey(formB(other), subnet)).to.equal(same);
        }
      }),
    );
  });

  it('of an IPv4 address is the address itself, even if it is mapped or comes by NAT64', () => {
    fc.assert(
      fc.property(fc.ipV4(), subnets, (ip, subnet) => {
        const value = ip.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0);
        const mapped = `::ffff:${(value >>> 16).toString(16)}:${(value & 0xffff).toString(16)}`;
        const nat64 = mapped.replace('::ffff:', '64:ff9b::');
        for (const form of [
          ...[ip, `::ffff:${ip}`, `::FFFF:${ip}`, mapped, `0:0:0:0:0:ffff:${ip}`, `::ffff:${ip}%eth0`],
          ...[nat64, `64:ff9b::${ip}`, `0064:FF9B:0::${ip}`],
        ]) {
          expect(clientKey(form, subnet), form).to.equal(ip);
        }
      }),
    );
  });

  it('looks like the network', () => {
    const rows: [ip: string, subnet: number | undefined, key: string][] = [
      ['192.0.2.1', undefined, '192.0.2.1'],
      ['2001:db8:0:1ff::1', undefined, '2001:db8:0:100::/56'],
      ['2001:db8:0:1ff::1', 64, '2001:db8:0:1ff::/64'],
      ['2001:db8:0:1ff::1', 48, '2001:db8::/48'],
      ['2001:db8:0:1ff::1', 128, '2001:db8:0:1ff::1'],
      ['::1', undefined, '::/56'],
      ['::192.0.2.1', 128, '::c000:201'],
      ['::c000:201', 128, '::c000:201'],
      ['fe80::1%eth0', 128, 'fe80::1'],
      ['fe80::1%eth0.100', 128, 'fe80::1'],
      // NAT64 with a provider's own prefix, and next to the well-known prefix.
      ['64:ff9b:1::192.0.2.1', 48, '64:ff9b:1::/48'],
      ['64:ff9b:0:0:1::', 96, '64:ff9b:0:0:1::/96'],
      // Networks one bit away from the networks of IPv4 addresses.
      ['::fffe:192.0.2.1', 96, '::fffe:0:0/96'],
      ['64:ff9b::1:192.0.2.1', 96, '64:ff9b::1:0:0/96'],
    ];
    for (const [ip, subnet, key] of rows) expect(clientKey(ip, subnet), ip).to.equal(key);
  });

  it('remembers a bounded number of addresses, and always returns the same keys', () => {
    const address = (i: number) => `2001:db8:${i.toString(16)}::1`;
    // The cache is only visible by its map.
    const { set } = Map.prototype;
    let largest = 0;
    Map.prototype.set = function (this: Map<unknown, unknown>, key: unknown, value: unknown) {
      set.call(this, key, value);
      if (key === lastAddress) largest = Math.max(largest, this.size);
      return this;
    };
    let lastAddress = '';
    const keys = Array.from({ length: 2500 }, (_, i) => clientKey((lastAddress = address(i)), 48));
    Map.prototype.set = set;
    expect(largest).to.equal(1000);
    expect(new Set(keys)).to.have.property('size', 2500);
    expect(Array.from({ length: 2500 }, (_, i) => clientKey(address(i), 48))).to.deep.equal(keys);
  });

  it('accepts addresses of up to 64 characters, with a zone, and does not remember longer texts', () => {
    const ofLength = (length: number) => 'fe80::1%'.padEnd(length, 'x');
    expect(clientKey(ofLength(64))).to.equal('fe80::/56');
    expect(() => clientKey(ofLength(65)))
      .to.throw()
      .with.property('code', 'HEADGATE_NO_CLIENT_IP');
  });

  it('refuses any other value', () => {
    const others = [
      undefined,
      '',
      'unknown',
      '1',
      '1.2.3',
      '256.1.1.1',
      '01.2.3.4',
      '1.2.3.4:80',
      '[::1]',
      '::1::',
    ];
    const within = ['010.0.0.1', '0x1.2.3.4', '1.2.3', '1.2.3.400'].flatMap((ip) => [
      ...[`::ffff:${ip}`, `::FFFF:${ip}`, `0:0:0:0:0:ffff:${ip}`, `64:ff9b::${ip}`, `::${ip}`],
    ]);
    const types = [
      null,
      5,
      Symbol('ip'),
      ['1.2.3.4'],
      ['::1'],
      { toString: () => '1.2.3.4' },
      () => '1.2.3.4',
    ];
    for (const ip of [
      ...others,
      ...within,
      ...types,
      '2001:db8::/32',
      'x'.repeat(10_000),
      '\u009b31m\u202e',
    ]) {
      try {
        clientKey(ip as string);
      } catch (error) {
        const { code, message } = error as HeadgateError;
        expect(code).to.equal('HEADGATE_NO_CLIENT_IP');
        expect(message.length).to.be.lessThan(600);
        expect(message).to.not.match(/[\p{Cc}\p{Cf}]/u);
        continue;
      }
      expect.fail(`${String(ip)} has a key`);
    }
  });
});
