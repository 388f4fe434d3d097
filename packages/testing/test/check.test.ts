// Checks of random cases: the number of cases, their repetition by a seed, and the smallest case that fails.
import { expect } from 'chai';
import fc from 'fast-check';
import { makeRandomCheck } from '../src/check.js';
import { integer, list } from '../src/random.js';

const numbers = list(40, 60, integer(1, 1e6));

/** Runs a check. Resolves with the played cases, and the message of its failure. */
async function play(
  randomness: { readonly runs?: number; readonly seed?: number },
  isRight: (each: readonly number[]) => boolean,
  cases: fc.Arbitrary<readonly number[]> = numbers,
) {
  const played: (readonly number[])[] = [];
  const check = makeRandomCheck(randomness, ['suite', 'name'], cases, async (each) => {
    played.push(each);
    if (!isRight(each)) throw new Error(`${each.length} steps are wrong`);
  });
  const message = await check.run().then(
    () => undefined,
    (error: Error) => error.message,
  );
  return { played, message };
}

describe('a check of random cases', () => {
  it('plays the given number of different cases, and the same cases for the same seed', async () => {
    const right = () => true;
    const { played, message } = await play({ runs: 7, seed: 1 }, right);
    expect(message).to.equal(undefined);
    expect(new Set(played.map(String)).size).to.equal(7);
    expect((await play({ runs: 7, seed: 1 }, right)).played).to.deep.equal(played);
    expect((await play({ runs: 7, seed: 2 }, right)).played).to.not.deep.equal(played);
    expect((await play({}, right)).played).to.have.lengthOf(25);
  });

  it('plays other cases each time without a seed', async () => {
    // test/support/seeds.ts fixes the seeds of tests.
    const fixed = fc.readConfigureGlobal();
    fc.resetConfigureGlobal();
    try {
      const play7 = () => play({ runs: 7 }, () => true);
      expect((await play7()).played).to.not.deep.equal((await play7()).played);
    } finally {
      fc.configureGlobal(fixed);
    }
  });

  it('shrinks the first failing case to the steps that matter, and reports its error', async () => {
    const counted = list(1, 60, integer(1, 8));
    for (const culprits of [[1], [8], [4, 5], [1, 3, 8]]) {
      const isRight = (steps: readonly number[]) => !culprits.every((each) => steps.includes(each));
      const { message } = await play({ seed: 5, runs: 100 }, isRight, counted);
      const shrunk = /with seed: 5, shrunk to\n\[([\d,\s]*)\]/.exec(message!)![1]!.split(',');
      expect(message).to.include(`${shrunk.length} steps are wrong`);
      expect(shrunk.map(Number)).to.include.members(culprits);
      expect(shrunk.length).to.be.at.most(culprits.length + 1);
    }
  });

  it('gives up shrinking after 200 tries', async () => {
    let failures = 0;
    const { message } = await play({ seed: 5 }, () => failures++ > 1e6, list(300, 300, fc.integer()));
    expect(message).to.include('300 steps are wrong');
    expect(failures).to.equal(201);
  });
});
