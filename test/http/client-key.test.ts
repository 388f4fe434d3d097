// The key of an address against a model that computes with the 128 bits of it.
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

/** One address in its many forms. */
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
  it('of two IPv6 addresses is one exactly if their network is, whatever the form', () => {
    const form = fc.constantFrom(...Object.values(forms));
    fc.assert(
      fc.property(bits, bits, subnets, subnets, form, form, (a, b, subnet, common, formA, formB) => {
        // Half of the time with a common prefix: random addresses have none.
        const near = (networkOf(a, common) << (BITS - BigInt(common))) | (b % 2n ** (BITS - BigInt(common)));
        for (const other of [b, near]) {
          const same = networkOf(a, subnet) === networkOf(other, subnet);
          expect(clientKey(formA(a), subnet) === clientKey(formB(other), subnet)).to.equal(same);
        }
      }),
    );
  });

  it('of an IPv4 address is itself, also where it comes mapped', () => {
    fc.assert(
      fc.property(fc.ipV4(), subnets, (ip, subnet) => {
        const value = ip.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0);
        const mapped = `::ffff:${(value >>> 16).toString(16)}:${(value & 0xffff).toString(16)}`;
        for (const form of [ip, `::ffff:${ip}`, `::FFFF:${ip}`, mapped, `0:0:0:0:0:ffff:${ip}`]) {
          expect(clientKey(form, subnet), form).to.equal(ip);
        }
      }),
    );
  });

  it('reads as the network', () => {
    const rows: [ip: string, subnet: number | undefined, key: string][] = [
      ['192.0.2.1', undefined, '192.0.2.1'],
      ['2001:db8:0:1ff::1', undefined, '2001:db8:0:100::/56'],
      ['2001:db8:0:1ff::1', 64, '2001:db8:0:1ff::/64'],
      ['2001:db8:0:1ff::1', 48, '2001:db8::/48'],
      ['2001:db8:0:1ff::1', 128, '2001:db8:0:1ff::1'],
      ['::1', undefined, '::/56'],
      ['fe80::1%eth0', 128, 'fe80::1'],
    ];
    for (const [ip, subnet, key] of rows) expect(clientKey(ip, subnet), ip).to.equal(key);
  });

  it('remembers a bounded number of addresses, and gives the same keys ever after', () => {
    const address = (i: number) => `2001:db8:${i.toString(16)}::1`;
    const keys = Array.from({ length: 2500 }, (_, i) => clientKey(address(i), 48));
    expect(new Set(keys)).to.have.property('size', 2500);
    expect(Array.from({ length: 2500 }, (_, i) => clientKey(address(i), 48))).to.deep.equal(keys);
  });

  it('is not made of anything else', () => {
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
    for (const ip of [...others, '::ffff:1.2.3', '2001:db8::/32', 'x'.repeat(10_000), null, 5]) {
      try {
        clientKey(ip as string);
      } catch (error) {
        const { code, message } = error as HeadgateError;
        expect(code).to.equal('HEADGATE_NO_CLIENT_IP');
        expect(message.length).to.be.lessThan(600);
        continue;
      }
      expect.fail(`${String(ip)} has a key`);
    }
  });
});
