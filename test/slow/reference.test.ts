// The pages that are generated from docstrings: fresh, and complete.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { referencePages } from '../../scripts/docs/reference.js';
import { root } from '../../scripts/lib/run.mjs';

const read = (file: string): string => readFileSync(join(root, file), 'utf8');

describe('docs/limiter.md and docs/decision.md', () => {
  it('are fresh', async () => {
    for (const [path, text] of Object.entries(await referencePages()))
      expect(read(path) === text, `${path} is stale: npm run docs:reference`).to.equal(true);
  });

  it('name every member of a limiter and of a decision', async () => {
    const limiter = createLimiter({ limit: 1, window: '1m' });
    const decision = await limiter.consume('ada');
    const hidden = ['internals', 'queues', 'set', 'tiers', 'source', 'shadow', 'ipv6Subnets', 'constructor'];
    const ofLimiter = [
      ...Object.keys(limiter),
      ...Object.getOwnPropertyNames(Object.getPrototypeOf(limiter)),
    ];
    const page = read('docs/limiter.md');
    const missing = ofLimiter.filter((name) => !hidden.includes(name) && !page.includes(`- **\`${name}`));
    expect(missing).to.deep.equal([]);
    for (const name of [
      'allowed',
      'retryAfterMs',
      'policies',
      'costs',
      'charged',
      'settle(actual)',
      'cancel()',
    ])
      expect(read('docs/decision.md')).to.contain(`- **\`${name}\``);
    expect(decision).to.have.property('charged');
    await limiter.close();
  });
});
