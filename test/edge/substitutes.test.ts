// The substitutes for modules and globals of Node give what Node gives.
import * as nodeCrypto from 'node:crypto';
import * as nodeNet from 'node:net';
import { expect } from 'chai';
import fc from 'fast-check';
import { Buffer as EdgeBuffer } from '../../src/edge/globals.js';
import { createHash, createHmac, isIP, isIPv4, isIPv6, randomInt } from '../../src/edge/node-modules.js';
import { runs } from '../support/random.js';

const bytes = fc.uint8Array({ maxLength: 300 });

describe('on edge runtimes', () => {
  for (const kind of ['sha1', 'sha256'] as const)
    it(`${kind} is the same as on Node`, () => {
      fc.assert(
        fc.property(bytes, (data) => {
          const expected = nodeCrypto.createHash(kind).update(data).digest('hex');
          expect(createHash(kind).update(data).digest('hex')).to.equal(expected);
        }),
        runs('memory', 30, 0),
      );
    });

  it('HMAC is the same as on Node', () => {
    fc.assert(
      fc.property(bytes, bytes, (key, data) => {
        const expected = nodeCrypto.createHmac('sha256', key).update(data).digest('base64url');
        expect(createHmac('sha256', key).update(data).digest('base64url')).to.equal(expected);
      }),
      runs('memory', 30, 0),
    );
  });

  it('bytes of texts are the same as on Node', () => {
    const texts = fc.string({ unit: 'binary', maxLength: 40 });
    fc.assert(
      fc.property(texts, fc.constantFrom('utf8', 'utf16le'), (text, encoding) => {
        const [own, node] = [EdgeBuffer.from(text, encoding), Buffer.from(text, encoding)];
        expect([...own]).to.deep.equal([...node]);
        for (const to of ['utf8', 'latin1', 'hex', 'base64', 'base64url'] as const)
          expect(own.toString(to)).to.equal(node.toString(to));
        expect(EdgeBuffer.byteLength(text)).to.equal(Buffer.byteLength(text));
      }),
      runs('memory', 30, 0),
    );
    const six = EdgeBuffer.alloc(6);
    six.writeUIntBE(2 ** 41 + 77, 0, 6);
    expect(six.readUIntBE(0, 6)).to.equal(2 ** 41 + 77);
  });

  it('addresses are the same as on Node', () => {
    const texts = [
      ...[
        '1.2.3.4',
        '255.255.255.255',
        '256.1.1.1',
        '01.2.3.4',
        '1.2.3',
        '1.2.3.4.5',
        '1.2.3.',
        ' 1.2.3.4',
        '0x1.2.3.4',
      ],
      ...[
        '::',
        '::1',
        '1::',
        '2001:db8::1',
        '::ffff:1.2.3.4',
        '::ffff:1.2.3',
        '1:2:3:4:5:6:7:8',
        '1:2:3:4:5:6:7',
      ],
      ...[
        '1:2:3:4:5:6:7:8:9',
        '::1::',
        'fe80::1%eth0',
        'fe80::1%',
        '12345::',
        'g::',
        '[::1]',
        '',
        'localhost',
        '1.2.3.4:80',
      ],
      ...[
        '::1.2.3.256',
        '::01.2.3.4',
        '1:2:3:4:5:6:7::',
        '::2:3:4:5:6:7:8',
        '::1/64',
        '::1?',
        '::1#',
        '::1\\',
        ...['::1]/x', '2001:db8::1]:80/', '::1\n', '::1\t', '::1%a]/b', '::1%a b', '::1%eth0', '::1%e_0'],
        ' ::1',
        '::1 ',
      ],
    ];
    for (const text of texts) {
      expect(isIPv4(text), text).to.equal(nodeNet.isIPv4(text));
      expect(isIPv6(text), text).to.equal(nodeNet.isIPv6(text));
      expect(isIP(text), text).to.equal(nodeNet.isIP(text));
    }
  });

  it('random numbers are below their bound', () => {
    for (let i = 0; i < 100; i++) expect(randomInt(7)).to.be.within(0, 6);
  });
});
