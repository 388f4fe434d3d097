import { expect } from 'chai';
import fc from 'fast-check';
import { HeadgateError, type Policy } from 'headgate';
import { CliError } from '../../src/cli/errors.js';
import { parsePolicies } from '../../src/cli/policy-text.js';
import { policyText } from '../../src/policy-text.js';
import { algorithms, policyOf } from '../support/policies.js';
import { runs } from '../support/random.js';

describe('policies on the command line', () => {
  const right: [text: string, policy: Policy][] = [
    ['100/1m', { limit: 100, window: '1m' }],
    ['100/m', { limit: 100, window: '1m' }],
    ['  1,000 / 1h ', { limit: 1000, window: '1h' }],
    ['1_000_000/30d', { limit: 1_000_000, window: '30d' }],
    [
      'burst=token-bucket 20/1s burst 40',
      { name: 'burst', algorithm: 'token-bucket', limit: 20, window: '1s', burst: 40 },
    ],
    [
      'b= TOKEN_BUCKET 20/1s burst=40',
      { name: 'b', algorithm: 'token-bucket', limit: 20, window: '1s', burst: 40 },
    ],
    ['5/1.5s segments 3 shadow', { limit: 5, window: '1.5s', segments: 3, shadow: true }],
    [
      'leaky-bucket 5/1s max-delay 500ms',
      { algorithm: 'leaky-bucket', limit: 5, window: '1s', maxDelay: '500ms' },
    ],
    ['slots=concurrency 10/30s', { name: 'slots', algorithm: 'concurrency', limit: 10, lease: '30s' }],
    ['{"limit":3,"window":1500}', { limit: 3, window: 1500 }],
  ];
  for (const [text, policy] of right) {
    it(text, () => expect(parsePolicies([text])).to.deep.equal([policy]));
  }

  it('several, of both kinds', () => {
    const json = '[{"name":"a","limit":1,"window":"1s"},{"name":"b","limit":2,"window":"1m"}]';
    expect(parsePolicies([json, 'c=3/1h']).map(({ name, limit }) => [name, limit])).to.deep.equal([
      ['a', 1],
      ['b', 2],
      ['c', 3],
    ]);
  });

  const wrong: [text: string, ...says: string[]][] = [
    ['', 'the quota is missing', "'100/1m'"],
    ['name=', 'the quota is missing'],
    ['100', 'at character 1: "100" is not a quota', "'100/1m'"],
    ['100/1m/2', 'is not a quota'],
    ['x/1m', 'at character 1: "x/1m" is not an algorithm', 'sliding-window'],
    ['a=-5/1m', 'at character 3: "-5" is not a whole number'],
    ['100/1x', 'at character 5: "1x" is not a length of time', "'15m'"],
    ['100/60', 'at character 5: "60" is not a length of time'],
    ['token-buket 100/1m', 'at character 1: "token-buket" is not an algorithm', 'token-bucket'],
    ['token-bucket 20/1s burst', 'at character 20: "burst" needs a value', "'burst 40'"],
    ['token-bucket 20/1s burst many', 'at character 26: "many" is not a whole number'],
    ['token-bucket 20/1s burst 1 burst 2', 'twice'],
    ['100/1m brust 2', 'at character 8: "brust" is not known here', 'burst, segments'],
    ['{"limit":', 'the JSON cannot be read', "'100/1m'"],
  ];
  for (const [text, ...says] of wrong) {
    it(`refuses ${JSON.stringify(text)}`, () => {
      expect(() => parsePolicies([text]))
        .to.throw(CliError)
        .with.property('code', 'USAGE');
      for (const words of says) expect(() => parsePolicies([text])).to.throw(words);
    });
  }

  it('what a limiter would refuse is refused by the same words', () => {
    for (const text of ['100/1m burst 4', '0/1m', '5/400d', 'a=1/1s']) {
      const texts = text.startsWith('a=') ? [text, text] : [text];
      expect(() => parsePolicies(texts), text).to.throw();
    }
    expect(() => parsePolicies(['100/1m burst 4'])).to.throw(HeadgateError, '--policy');
  });

  it('is written as it is read', () =>
    fc.assert(
      fc.property(
        fc.constantFrom(...algorithms).chain((algorithm) => policyOf(algorithm)),
        (policy) => {
          const text = policyText(policy);
          expect(policyText(parsePolicies([text])[0]!)).to.equal(text);
        },
      ),
      runs('memory', 100, 0),
    ));
});
