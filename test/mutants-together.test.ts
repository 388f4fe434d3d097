// npm run mutants:together: each of its mistakes can be applied to the source as it is. npm test tries this, because a moved line breaks it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { root } from '../scripts/lib/run.mjs';
import mutants from '../scripts/mutants/together.json' with { type: 'json' };

describe('mutants of features together', () => {
  it('each have one place in the source', () => {
    for (const { name, file, from } of mutants)
      expect(readFileSync(join(root, file), 'utf8').split(from), name).to.have.length(2);
  });
});
