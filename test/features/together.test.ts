// Law 20: every two features go together, or are refused when the limiter is made, as src/contract/together.ts says.
import { expect } from 'chai';
import { memoryStore } from 'headgate';
import { rateLimit } from 'headgate/express';
import { refusedPairs, togetherPage } from '../../scripts/docs/together.js';
import { readFileSync } from 'node:fs';
import { describePairs } from '../support/feature-pairs.js';

describePairs('memory', () => memoryStore());

const refused = refusedPairs();

describe('law 20: refusals of adapters', () => {
  for (const [pair, { within, code, reason }] of refused) {
    if (within !== 'adapter') continue;
    it(pair, () => {
      const make = () => rateLimit({ limit: 1, window: '1s', wait: '1s', requestId: () => 'a' });
      expect(make).to.throw(reason).with.property('code', code);
    });
  }

  it('ids beside slots are refused when the adapter is made', () => {
    const make = () => rateLimit({ policies: ['concurrency 5/30s'], requestId: () => 'a' });
    expect(make)
      .to.throw('A repetition cannot hold the same slot')
      .with.property('code', 'HEADGATE_INVALID_OPTION');
  });
});

describe('docs/together.md', () => {
  it('is printed from the table. `npm run docs:together` prints it again', async () => {
    expect(readFileSync('docs/together.md', 'utf8')).to.equal(await togetherPage());
  });
});
