import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { root } from '../scripts/lib/run.mjs';
import { mutants } from '../scripts/mutants/list.mjs';

describe('the mutants', () => {
  const documented = readFileSync(join(root, 'docs/testing.md'), 'utf8');

  for (const [file, list] of Object.entries(mutants)) {
    it(`of ${file} change it in one place each, and docs/testing.md says what kills them`, () => {
      const source = readFileSync(join(root, file), 'utf8');
      for (const [from, to, what] of list) {
        expect(source.split(from), what).to.have.length(2);
        expect(to).to.not.equal(from);
        expect(documented, file).to.contain(`${what}:`);
      }
    });
  }
});
