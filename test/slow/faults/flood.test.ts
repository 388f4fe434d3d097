import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { compileChild } from '../../support/programs.js';
import type { Flooded } from './flood.js';

const CHILD = fileURLToPath(new URL('flood-child.ts', import.meta.url));

describe('a memory store at its cap, flooded with fresh keys', function () {
  this.timeout(60_000);

  it('frees neither a denied nor a banned key, and does not grow', async () => {
    // A separate process, for a measurement of the heap alone.
    const child = fork(await compileChild(CHILD), ['400000', '20000'], { execArgv: ['--expose-gc'] });
    const [{ heaps, keys, stillDenied, stillBanned }] = (await once(child, 'message')) as [Flooded];
    assert.ok(stillDenied, 'the denied key was freed');
    assert.ok(stillBanned, 'the banned key was freed');
    assert.ok(keys <= 20_000);
    // The store is full after the first quarter.
    assert.ok(heaps.at(-1)! < heaps[0]! * 1.1 + 1e6, `the heap grew: ${heaps.join(', ')}`);
  });
});
