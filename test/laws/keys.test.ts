// Law 9. Any string is a key. Different keys never share state. Redis keys are bounded, and share one slot.
import { expect } from 'chai';
import fc from 'fast-check';
import { compilePolicies } from '../../src/contract/compile-policies.js';
import { tagsOf } from '../../src/features/features.js';
import { escapeKey, KeyMaker } from '../../src/stores/keys.js';
import { AWKWARD } from '../../packages/testing/src/keys.js';
import { describeLaw } from '../support/kit.js';
import { runs } from '../support/random.js';
import { serverKinds } from '../support/shared-servers.js';
import { clients, limiterOn, stores } from '../support/stores.js';

const long = 'x'.repeat(10_240);

const anyKey = fc.oneof(
  fc.constantFrom(...AWKWARD),
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc.string({
    unit: fc.constantFrom('{', '}', ':', '%', '#', '\0', 'a', '2', '5', '\ud83d', '\ude00', 'é'),
    maxLength: 150,
  }),
);

describeLaw('law 9, keys');

for (const [name, createStore] of Object.entries(stores)) {
  it(`law 9, on ${name}: keys whose characters give the same number in pairs of bytes do not share`, async () => {
    const limiter = limiterOn(createStore(), { limit: 1, window: '1h' });
    for (const key of ['\u0100\u0100', '\0\u0101', '\u0100', '\0\u0100', '\u0001\0'])
      expect((await limiter.consume(key)).allowed, JSON.stringify(key)).to.equal(true);
  });
}

describe('law 9, keys: Redis keys', () => {
  const policyNames = fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 64 });
  const redisKeys = fc
    .record({
      name: anyKey.map((each) => each.slice(0, 256)),
      key: anyKey,
      names: fc.uniqueArray(policyNames, { minLength: 1, maxLength: 4 }),
      ban: fc.boolean(),
    })
    .map(({ name, key, names, ban }) => {
      const named = names.map((each) => ({ name: each, limit: 1, window: 1_000 }));
      const set = {
        name,
        policies: compilePolicies('policies', named),
        ban: ban ? { after: 0, within: 1, first: 1, factor: 1, max: 1 } : undefined,
        timeout: 100,
      };
      const keys: string[] = [];
      new KeyMaker('hg', set, escapeKey, tagsOf(set)).push(keys, key);
      return { name, key, keys };
    });

  it('are well-formed, bounded, different, and in one slot', () =>
    fc.assert(
      fc.property(redisKeys, ({ keys }) => {
        for (const key of keys) {
          expect(key.isWellFormed()).to.be.true;
          expect(Buffer.byteLength(key)).to.be.at.most(700);
        }
        expect(new Set(keys).size).to.equal(keys.length);
        expect(new Set(keys.map(slotOf)).size).to.equal(1);
      }),
      runs('memory', 1_000, 0),
    ));

  it('are different for different names and keys', () =>
    fc.assert(
      fc.property(redisKeys, redisKeys, (a, b) => {
        if (a.name === b.name && a.key === b.key) return;
        expect(a.keys.filter((key) => b.keys.includes(key))).to.deep.equal([]);
      }),
      runs('memory', 1_000, 0),
    ));

  it('spread over the slots', () => {
    const slots = new Set<number>();
    const set = {
      name: 'x',
      policies: compilePolicies('p', [{ limit: 1, window: 1 }]),
      ban: undefined,
      timeout: 1,
    };
    const maker = new KeyMaker('hg', set);
    for (let i = 0; i < 1_000; i++) {
      const keys: string[] = [];
      maker.push(keys, `user:${i}`);
      slots.add(slotOf(keys[0]!));
    }
    expect(slots.size).to.be.above(900);
  });

  for (const kind of serverKinds) {
    it(`take a key of 10 kB in little room on ${kind}`, async () => {
      const client = clients[kind];
      const before = new Set(await client.keys('*'));
      await limiterOn(stores[kind](), { limit: 1, window: '1h' }).consume(long);
      const added = (await client.keys('*')).filter((key) => !before.has(key));
      expect(added).to.have.length(1);
      expect(added[0]!.length).to.be.below(100);
    });
  }
});

/** The slot of a key in Redis Cluster: CRC16 (XMODEM) of the first {tag} that is not empty, otherwise of the whole key. */
function slotOf(key: string): number {
  const open = key.indexOf('{');
  const close = key.indexOf('}', open + 1);
  const hashed = open >= 0 && close > open + 1 ? key.slice(open + 1, close) : key;
  let crc = 0;
  for (const byte of Buffer.from(hashed)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++)
      crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc % 16_384;
}
