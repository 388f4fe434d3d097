// A decision must not slow down with the number of limiters in a process. V8 compiles one fast access for objects of few hidden classes.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { TYPESCRIPT } from '../scripts/lib/run.mjs';

/** The hidden classes that V8 remembers at each access. Beyond, each access is a search. */
const MAX_FAST_CLASSES = 4;

describe('hidden classes', () => {
  it('limiters of 256 different options have few of them', async () => {
    const child = fork(fileURLToPath(new URL('support/hidden-classes-child.ts', import.meta.url)), {
      execArgv: ['--allow-natives-syntax', ...TYPESCRIPT],
    });
    const [{ limiters, counts }] = (await once(child, 'message')) as [
      { limiters: number; counts: Record<string, number> },
    ];
    expect(limiters).to.equal(256);
    expect(counts).to.have.all.keys('query', 'set', 'policy', 'decision', 'limiter');
    for (const [name, count] of Object.entries(counts)) expect(count, name).to.be.at.most(MAX_FAST_CLASSES);
  });
});
