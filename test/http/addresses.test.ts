// Addresses, compared with ipaddr.js, which reads the same texts.
import { isIPv4, isIPv6 } from 'node:net';
import { expect } from 'chai';
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { looksLikeAddress, parseAddress } from '../../src/http/address.js';

/** Groups of which many are zeros, so that runs of zeros of any length occur. */
const group = fc.oneof(
  fc.constant('0'),
  fc.constant('0000'),
  fc.integer({ max: 0xffff, min: 0 }).map((n) => n.toString(16)),
);
const tail = fc.oneof(fc.constant(''), fc.ipV4());

/** Texts of groups with `::` at most places, of which some are addresses. */
const texts = fc
  .tuple(
    fc.array(group, { maxLength: 8 }),
    fc.array(group, { maxLength: 8 }),
    tail,
    fc.constantFrom('::', ':'),
  )
  .map(([head, rest, ipv4, between]) => {
    const last = ipv4 === '' ? rest : [...rest, ipv4];
    return `${head.join(':')}${between}${last.join(':')}`;
  });

const part = fc.oneof(
  fc.integer({ min: 0, max: 0x1ffffff }).map((n) => `0x${n.toString(16)}`),
  fc.integer({ min: 0, max: 300 }).map(String),
  fc.integer({ min: 0, max: 300 }).map((n) => `0${n.toString(8)}`),
  fc.constantFrom('0xg', '', '09', '0X7F'),
);

describe('addresses', () => {
  it('IPv6 in any notation has the bytes and the text of ipaddr.js', () => {
    let count = 0;
    fc.assert(
      fc.property(texts, (text) => {
        const address = parseAddress(text);
        expect(address !== undefined, text).to.equal(isIPv6(text) || isIPv4(text));
        if (!address || address.kind === 'ipv4') return;
        count++;
        // ipaddr.js accepts only this notation of an address with an embedded IPv4 address.
        const known = ipaddr.IPv6.parse(text.replace(/^::(?=\d+\.)/, '::0:'));
        expect([...address.bytes], text).to.deep.equal(known.toByteArray());
        expect(address.toString(), text).to.equal(known.toRFC5952String());
        expect(parseAddress(address.toString())!.bytes).to.deep.equal(address.bytes);
      }),
      { numRuns: 5000 },
    );
    expect(count).to.be.above(500);
  });

  it('a network of an address is that of ipaddr.js', () => {
    fc.assert(
      fc.property(fc.ipV6(), fc.integer({ min: 0, max: 128 }), (text, prefix) => {
        const address = parseAddress(text)!;
        if (address.kind === 'ipv4') return;
        const known = ipaddr.IPv6.networkAddressFromCIDR(
          `${ipaddr.IPv6.parse(text.replace(/^::(?=\d+\.)/, '::0:')).toNormalizedString()}/${prefix}`,
        );
        expect(address.network(prefix).toString()).to.equal(known.toRFC5952String());
      }),
    );
  });

  it('IPv4 with hexadecimal numbers looks like an address if ipaddr.js reads it', () => {
    fc.assert(
      fc.property(fc.array(part, { minLength: 2, maxLength: 5 }), (parts) => {
        const text = parts.join('.');
        if (!/[a-f]/i.test(text)) return;
        expect(looksLikeAddress(text), text).to.equal(ipaddr.IPv4.isValid(text));
      }),
      { numRuns: 5000 },
    );
  });
});
