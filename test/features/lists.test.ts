import { expect } from 'chai';
import fc from 'fast-check';
import { HeadgateError } from 'headgate';
import { compileList, type List } from '../../src/http/lists.js';
import { runs } from '../support/random.js';

/** Whether a client with this address and this key is on the list. */
function listed(list: List<object>, address: string | undefined, key?: string) {
  return list({}, address, key);
}

describe('allow and deny lists', () => {
  describe('entries', () => {
    const list = compileList<object>('allowList', [
      '10.0.0.0/8',
      '192.0.2.7',
      '::ffff:198.51.100.0/120',
      '64:ff9b::203.0.113.0/120',
      '2001:db8::/33',
      '2001:0db8:ffff:0:0:0:0:0001',
      'fe80::1%eth0',
      'user:42',
      'be:ef',
      '12345',
    ]);
    const cases: [address: string | undefined, key: string | undefined, on: boolean][] = [
      ['10.255.0.1', undefined, true],
      ['11.0.0.1', undefined, false],
      ['192.0.2.7', undefined, true],
      ['192.0.2.8', undefined, false],
      ['::ffff:10.1.2.3', undefined, true],
      ['::ffff:a01:203', undefined, true],
      ['::ffff:11.1.2.3', undefined, false],
      ['198.51.100.9', undefined, true],
      ['198.51.101.9', undefined, false],
      ['64:ff9b::198.51.100.9', undefined, true],
      ['203.0.113.9', undefined, true],
      ['64:ff9b::cb00:7109', undefined, true],
      ['203.0.114.9', undefined, false],
      ['::ffff:0xa.1.2.3', undefined, false],
      ['::ffff:010.1.2.3', undefined, false],
      ['2001:db8:7fff::9', undefined, true],
      ['2001:DB8:7FFF::9', undefined, true],
      ['2001:db8:8000::9', undefined, false],
      ['2001:db8:ffff::1', undefined, true],
      ['fe80::1%eth1', undefined, true],
      [undefined, 'user:42', true],
      [undefined, 'user:4', false],
      [undefined, 'be:ef', true],
      [undefined, '12345', true],
      [undefined, undefined, false],
      ['not an address', undefined, false],
      ['unix:', undefined, false],
    ];
    for (const [address, key, on] of cases) {
      it(`${address ?? 'no address'}, ${key ?? 'no key'}: ${on ? 'on' : 'off'}`, () => {
        expect(listed(list, address, key)).to.equal(on);
      });
    }

    it('never takes a key for an address, because a client may choose its key', () => {
      expect(listed(list, '11.0.0.1', '192.0.2.7')).to.be.false;
      expect(listed(list, '11.0.0.1', '10.0.0.1')).to.be.false;
      expect(listed(list, '11.0.0.1', '10.0.0.0/8')).to.be.false;
    });
  });

  it('calls a function with the request and the key, and returns its answer as it is', async () => {
    const request = { admin: true };
    const sync = compileList<typeof request>('allowList', ({ admin }, key) => admin && key === 'k');
    expect(sync(request, '10.0.0.1', 'k')).to.be.true;
    expect(sync(request, '10.0.0.1', undefined)).to.be.false;
    const async = compileList<typeof request>('allowList', async ({ admin }) => admin);
    expect(await async(request, undefined, undefined)).to.be.true;
  });

  it('reads an entry in linear time, whatever it is', () => {
    for (const unit of ['0', ':', '1:', 'a:', '::', '.', '1.', '*.', ' ', '/', 'x', '-\n']) {
      for (const end of ['', '!', '/x', ':1/z', '.0.0.1']) {
        try {
          compileList('denyList', [unit.repeat(500_000) + end]);
        } catch (error) {
          expect(error).to.have.property('code', 'HEADGATE_INVALID_OPTION');
        }
      }
    }
  });

  it('refuses every address with a prefix length that is too long', () => {
    const withZone = fc.ipV6().map((ip) => `${ip}%eth0`);
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6(), withZone), (ip) => {
        expect(() => compileList('denyList', [`${ip}/129`])).to.throw(HeadgateError, 'denyList[0]');
      }),
      runs('memory', 300, 0),
    );
  });

  describe('takes for a key', () => {
    const keys = [
      ...['42', '12345', 'user:42', 'user:42:10.0.0.1', 'api-key-1', 'ada@example.org', 'be:ef', '12:30'],
      ...['10.0.0.1:ada', '1.2.3.4.example.org', 'v1.2.3', 'App::User', 'id:1.2', '42-7', 'cafe.de', '.5'],
      ...['550e8400-e29b-41d4-a716-446655440000', '00-1b-63-84-45-e6', '0x52908400098527886E0F7030069857D2'],
      ...['a/b', 'cafe/7', 'tenant/42', '\u00e41.2', '*', '-', 'localhost', '\0', '\u{1f512}', '2024-01-02'],
    ];
    for (const key of keys) {
      it(JSON.stringify(key), () => {
        expect(listed(compileList<object>('denyList', [key]), undefined, key)).to.be.true;
      });
    }
  });

  describe('refuses', () => {
    const entries: unknown[] = [
      // A part of an address, or invalid parts.
      ...[
        '10.0.0',
        '10.0',
        '1.2',
        '10.',
        '10.0.0.',
        '10..0.1',
        '10.0.0.1.5',
        '300.1.1.1',
        '10.0.0.256',
        '010.0.0.1',
      ],
      ...['0x0a.0.0.1', '1::2::3', '::12345', '2001:db8:1', '1:2:3:4:5:6:7', '1:2:3:4:5:6:7:8:9', ':::'],
      ...['::ffff:1.2.3', '::ffff:300.1.1.1', '2001:db8:::1', 'fe80::1%', 'fe80:::1%eth0'],
      // Networks.
      ...[
        '10.0.0.0/33',
        '10.0.0.0/',
        '10.0.0.0/x',
        '10.0.0.0/-1',
        '10.0.0.0/255.0.0.0',
        '10.0/16',
        '10/8',
        '10.0.0.0/8/8',
      ],
      ...['2001:db8::/129', 'fe80::/200', '2001:db8::1/', '1:2:3:4:5:6:7:8/x', '2001:db8:/32', '2001:db8/32'],
      ...['::ffff:10.0.0.0/95', 'fe80::1%eth0/200', '64:ff9b::/64', '64:ff9b::10.0.0.0/129'],
      ...[
        '::ffff:010.0.0.1',
        '::ffff:0x1.2.3.4',
        '::010.0.0.1',
        '64:ff9b::0x1.2.3.4',
        '::ffff:010.0.0.0/104',
      ],
      // Ranges, wildcards, ports, several addresses, and other text beside an address.
      ...[
        '1.2.3.4-9',
        '1.2.3.4-1.2.3.9',
        '10.0.0.*',
        '*.0.0.1',
        '10.*',
        '10.0.0.x',
        '10.X.X.X',
        '2001:db8::*',
      ],
      ...['2001:db8::1-2001:db8::9', '1.2.3.4:80', '[::1]', '[::1]:80', '[10.0.0.1]:80', '10.0.0.1,10.0.0.2'],
      ...[
        '10.0.0.1 10.0.0.2',
        '10.0.0.1 # office',
        '::1 localhost',
        '!10.0.0.1',
        '10.0.0.1/ada',
        '2001:db8::/56:bob',
      ],
      ...[' 10.0.0.1', '10.0.0.1\n', '10.0.0.0/8 ', '', ' ', 5, null, undefined, ['10.0.0.1'], {}],
    ];
    for (const entry of entries) {
      it(`the entry ${JSON.stringify(entry) ?? 'undefined'}`, () => {
        for (const option of ['allowList', 'denyList']) {
          expect(() => compileList(option, ['ok', entry as string]))
            .to.throw(HeadgateError, new RegExp(`^${option}\\[1\\]: .* Pass an IP address`))
            .with.property('code', 'HEADGATE_INVALID_OPTION');
        }
      });
    }

    for (const list of ['10.0.0.1', new Set(['10.0.0.1']), 5, null]) {
      it(`${Object.prototype.toString.call(list)} in place of a list`, () => {
        expect(() => compileList('denyList', list as never))
          .to.throw(HeadgateError, /^denyList: /)
          .with.property('code', 'HEADGATE_INVALID_OPTION');
      });
    }
  });

  it('agrees with comparing bit by bit, entry by entry', () => {
    fc.assert(
      fc.property(
        fc.array(network, { maxLength: 12 }),
        fc.array(bits, { minLength: 1, maxLength: 6 }),
        (networks, addresses) => {
          const list = compileList<object>('denyList', networks.map(writeNetwork));
          // Neighbours of the networks' edges find errors that random addresses miss.
          const edges = networks.map(({ of, prefix }) => flip(of, Math.max(0, prefix - 1)));
          for (const address of [...addresses, ...networks.map(({ of }) => of), ...edges]) {
            const expected = networks.some(
              ({ of, prefix }) =>
                of.length === address.length && of.slice(0, prefix) === address.slice(0, prefix),
            );
            for (const text of writeAddress(address)) expect(listed(list, text), text).to.equal(expected);
          }
        },
      ),
      runs('memory', 500, 0),
    );
  });

  it('takes as many steps with ten thousand entries as with ten', () => {
    const looks = (count: number) => {
      const entries = Array.from({ length: count }, (_, i) => `10.${i >> 8}.${i & 255}.0/24`);
      const list = compileList<object>('denyList', [...entries, ...entries.map((_, i) => `key-${i}`)]);
      const has = Object.getOwnPropertyDescriptor(Set.prototype, 'has') as {
        value: (item: unknown) => boolean;
      };
      let calls = 0;
      Set.prototype.has = function (item) {
        calls++;
        return has.value.call(this, item);
      };
      try {
        expect(listed(list, '11.0.0.1', 'stranger')).to.be.false;
      } finally {
        Object.defineProperty(Set.prototype, 'has', has);
      }
      return calls;
    };
    expect(looks(10_000)).to.equal(looks(10)).and.to.equal(2);
  });
});

/** The bits of an address, as text: 32 or 128. */
const bits = fc
  .constantFrom(32, 128)
  .chain((length) => fc.array(fc.constantFrom('0', '1'), { minLength: length, maxLength: length }))
  .map((array) => array.join(''))
  // 80 zeros and 16 ones begin a mapped address, which counts as an IPv4 address.
  .filter((text) => !text.startsWith('0'.repeat(80)));

const network = bits.chain((of) => fc.record({ of: fc.constant(of), prefix: fc.nat(of.length) }));

function flip(text: string, at: number): string {
  return text.slice(0, at) + (text[at] === '0' ? '1' : '0') + text.slice(at + 1);
}

function groups(text: string, size: number): number[] {
  return Array.from({ length: text.length / size }, (_, i) =>
    parseInt(text.slice(i * size, (i + 1) * size), 2),
  );
}

/** The notations of an address. */
function writeAddress(address: string): string[] {
  const hex = groups(address, 16).map((group) => group.toString(16));
  if (address.length === 128) return [hex.join(':'), hex.map((group) => group.padStart(4, '0')).join(':')];
  const dotted = groups(address, 8).join('.');
  return [dotted, `::ffff:${dotted}`, `::ffff:${hex.join(':')}`, `0:0:0:0:0:FFFF:${hex.join(':')}`];
}

function writeNetwork({ of, prefix }: { of: string; prefix: number }): string {
  return `${writeAddress(of)[0]}/${prefix}`;
}
