// Checks of random cases: the number of cases, their repetition by a seed, and the smallest case that fails.
import { expect } from 'chai';
import { makeRandomCheck } from '../../src/testing/check.js';
import type { Random } from '../../src/testing/random.js';

interface Numbers {
  readonly steps: readonly number[];
}

const numbers = (random: Random): Numbers => ({ steps: random.list(40, 60, () => random.integer(1, 1e6)) });

/** Runs a check. Resolves with the played cases, and the message of its failure. */
async function play(
  randomness: { readonly runs?: number; readonly seed?: number },
  isRight: (each: Numbers) => boolean,
  make = numbers,
) {
  const played: (readonly number[])[] = [];
  const check = makeRandomCheck(randomness, 'suite', 'name', make, async (each) => {
    played.push(each.steps);
    if (!isRight(each)) throw new Error(`${each.steps.length} steps are wrong`);
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
    expect((await play({ runs: 7 }, right)).played).to.not.deep.equal(
      (await play({ runs: 7 }, right)).played,
    );
    expect((await play({}, right)).played).to.have.lengthOf(25);
  });

  it('shrinks the first failing case to the steps that matter, and reports its error', async () => {
    const counted = (random: Random) => ({ steps: numbers(random).steps.map((_, i) => i + 1) });
    for (const culprits of [[1], [40], [20, 21], [1, 40], [3, 17, 33]]) {
      const isRight = ({ steps }: Numbers) => !culprits.every((each) => steps.includes(each));
      const { played, message } = await play({ seed: 5 }, isRight, counted);
      expect(message).to.include(`${culprits.length} steps are wrong`);
      expect(message).to.include('seed: 5 (case 0)');
      const shrunk = /"?steps"?: \[([\d,\s]*)\]/.exec(message!)![1]!;
      expect(shrunk.split(',').map(Number)).to.deep.equal(culprits);
      expect(played.length).to.be.at.most(201);
    }
  });

  it('gives up shrinking after 200 tries', async () => {
    const many = () => ({ steps: Array.from({ length: 1_000 }, (_, i) => i) });
    const { played, message } = await play({ seed: 5 }, ({ steps }) => steps.length < 999, many);
    expect(played).to.have.lengthOf(201);
    expect(message).to.match(/\d+ steps are wrong/);
  });
});
