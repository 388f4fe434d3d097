// The documentation has each fact once, so that a reader can find it. A new fact needs an equal cut.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { root } from '../../scripts/lib/run.mjs';

const MAX_WORDS = 45_000;

/** Pages that are not documentation: samples of tests, and the forms of the repository. */
const OTHERS = /^(packages\/cli\/test|\.github)\//;

describe('the documentation', () => {
  it('has at most 45,000 words, as `wc -w` counts them', () => {
    const listed = execFileSync('git', ['ls-files', '*.md', 'llms.txt'], { cwd: root, encoding: 'utf8' });
    const pages = listed.split('\n').filter((page) => page !== '' && !OTHERS.test(page));
    expect(pages).to.include.members(['README.md', 'llms.txt', 'docs/options.md', 'packages/cli/README.md']);
    const words = pages.map((page) => (readFileSync(join(root, page), 'utf8').match(/\S+/g) ?? []).length);
    const sum = words.reduce((all, count) => all + count, 0);
    const longest = pages
      .map((page, i) => [words[i]!, page] as const)
      .sort(([a], [b]) => b - a)
      .slice(0, 10);
    expect(sum, `${sum} words; the longest pages: ${longest.join(' ')}`).to.be.at.most(MAX_WORDS);
  });
});
