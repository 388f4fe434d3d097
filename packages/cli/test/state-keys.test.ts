// Redis keys are parsed back into their parts, and a pattern matches the keys of its own parts only.
import { expect } from 'chai';
import fc from 'fast-check';
import { compileBan } from '../../../src/features/bans/contract/ban-options.js';
import { compilePolicies } from '../../../src/contract/compile-policies.js';
import type { Policy } from '../../../src/contract/policy.js';
import {
  BAN_TAG,
  escapeKey,
  escapeName,
  KeyMaker,
  parseStateKey,
  statePattern,
} from '../../../src/stores/keys.js';
import type { PolicySet } from '../../../src/contract/store.js';
import { tagsOf } from '../../../src/features/features.js';
import { runs } from '../../../test/support/random.js';
import { clients, freshPrefix } from '../../../test/support/stores.js';

/** The maker of the Redis keys of a limiter. */
const makerOf = (prefix: string, name: string): KeyMaker => {
  const set = setOf(name);
  return new KeyMaker(prefix, set, escapeKey, tagsOf(set));
};

const policies: readonly Policy[] = [
  { name: 'default', limit: 1, window: '1s' },
  { name: 'a}b:{c', algorithm: 'gcra', limit: 1, window: '1s' },
];

function setOf(name: string): PolicySet {
  return { name, policies: compilePolicies('policies', policies), ban: compileBan({}), timeout: 1000 };
}

const awkward = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 25 }).filter((text) => text.isWellFormed()),
  fc.string({
    unit: fc.constantFrom('{', '}', ':', '%', '*', '?', '[', ']', '\\', '^', '-', ' ', 'a', '\0', '#'),
    maxLength: 12,
  }),
);
const prefixes = fc.string({
  unit: fc.constantFrom('h', 'g', '*', '?', '[', ']', '\\', '^', '%', ':', '-'),
  minLength: 1,
  maxLength: 6,
});

describe('keys of state', () => {
  it('are read back, whatever the prefix, the name and the key', () =>
    fc.assert(
      fc.property(prefixes, awkward, awkward, (prefix, name, key) => {
        const keys: string[] = [];
        makerOf(prefix, name).push(keys, key);
        const read = keys.map((redisKey) => parseStateKey(prefix, redisKey));
        expect(read.map((state) => state?.id)).to.deep.equal(['s3@100msx10', 'g3@1/1s+1:a}b:{c', BAN_TAG]);
        for (const [i, state] of read.entries()) {
          expect(state?.name).to.equal(name);
          expect(state?.key).to.equal(key);
          expect(state?.scope).to.equal(escapeName(name));
          expect(`${state?.head}}${state?.id}`).to.equal(keys[i]);
        }
      }),
      runs('memory', 300, 0),
    ));

  it('hold a hash of what is long', () => {
    const keys: string[] = [];
    makerOf('hg', 'n'.repeat(200)).push(keys, 'k'.repeat(10_000));
    for (const redisKey of keys) {
      const state = parseStateKey('hg', redisKey);
      expect(state?.name).to.have.property('hash').of.length(43);
      expect(state?.key).to.have.property('hash').of.length(43);
    }
  });

  it('are told from keys of others', () => {
    const others = [
      '',
      'hg',
      'hg:',
      'hg:{a:b}',
      'hg:{a}s1',
      'hg:a:b',
      'hg2:{a:b}s1',
      'hg:{a:b}S1',
      'hg:{a:%zz}s1',
      'hg:{a:%41}s1',
    ];
    for (const redisKey of others) expect(parseStateKey('hg', redisKey), redisKey).to.equal(undefined);
    // With a shape, and as before there was one.
    for (const tail of ['s3@6sx10', 's1'])
      expect(parseStateKey('hg', `hg:{a:b}${tail}`)).to.include({ name: 'a', key: 'b' });
  });

  for (const [kind, client] of Object.entries(clients)) {
    it(`are matched by their pattern alone, on ${kind}`, () =>
      fc.assert(
        fc.asyncProperty(
          fc.tuple(awkward, awkward),
          fc.array(fc.tuple(awkward, awkward), { maxLength: 8 }),
          async ([name, key], others) => {
            const prefix = `${freshPrefix()}*[a]`;
            const keysOf = ([name, key]: [string, string]): string[] => {
              const keys: string[] = [];
              makerOf(prefix, name).push(keys, key);
              return keys;
            };
            const all = [[name, key] as [string, string], ...others].flatMap(keysOf);
            for (const redisKey of all) await client.set(redisKey, '', 'EX', 60);
            const matched = async (pattern: string): Promise<string[]> => {
              const found = new Set<string>();
              let cursor = '0';
              do {
                const [next, keys] = await client.scan(cursor, 'MATCH', pattern, 'COUNT', 1000);
                for (const redisKey of keys) found.add(redisKey);
                cursor = next;
              } while (cursor !== '0');
              return [...found];
            };
            expect(await matched(statePattern(prefix, name, escapeKey(key)))).to.have.members(
              keysOf([name, key]),
            );
            const ofScope = all.filter((redisKey) => parseStateKey(prefix, redisKey)?.name === name);
            expect(await matched(statePattern(prefix, name))).to.have.members([...new Set(ofScope)]);
            const bans = all.filter((redisKey) => redisKey.endsWith(`}${BAN_TAG}`));
            const pattern = statePattern(prefix, undefined, undefined, BAN_TAG);
            expect(await matched(pattern)).to.have.members([...new Set(bans)]);
            if (all.length > 0) await client.del(...all);
          },
        ),
        runs(kind, 0, 40),
      ));
  }
});
