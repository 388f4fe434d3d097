// headgate-testing catches each wrong store, by the check that is named beside it, with a message about the fault.
import { expect } from 'chai';
import { CheckError, storeChecks } from 'headgate-testing';
import { memory } from '../../../../test/support/stores.js';
import { faulty, plausible } from './wrong-stores.js';

for (const [title, wrong] of Object.entries({
  'wrong stores that conformance once took for right ones': plausible,
  'wrong stores of a single fault': faulty,
})) {
  describe(title, () => {
    for (const [fault, { caughtBy, ...subject }] of Object.entries(wrong)) {
      it(`${fault}: caught by ${caughtBy.join(': ')}`, async () => {
        const [suite, name] = caughtBy;
        const [check, ...others] = storeChecks({ ...subject, seed: 1 }).filter(
          (each) => each.suite === suite && each.name === name,
        );
        expect(others).to.deep.equal([]);
        const error: unknown = await check!.run().then(
          () => undefined,
          (reason: unknown) => reason,
        );
        expect(error).to.be.instanceOf(CheckError);
        expect(error).to.include({ suite, check: name });
        expect((error as CheckError).actual).to.not.deep.equal((error as CheckError).expected);
        expect((error as CheckError).message)
          .to.include(`${suite}: ${name}\n`)
          .and.match(/expected .+, got /s);
      });
    }
  });
}

describe('the checks of a store', () => {
  const checks = storeChecks({ createStore: memory, ordered: true });

  it('have a unique name each', () => {
    const names = checks.map(({ suite, name }) => `${suite}: ${name}`);
    expect(new Set(names).size).to.equal(names.length);
  });

  it('cover only the requested algorithms', () => {
    const some = storeChecks({ createStore: memory, algorithms: ['gcra'] });
    expect(some.length).to.be.within(20, checks.length / 3);
    for (const { name } of some) expect(name).not.to.match(/^(fixed-window|sliding|token|leaky|concurrency)/);
  });

  it('fail with a seed that repeats the same case', async () => {
    const failure = async (seed?: number) => {
      const subject = { ...plausible['burst that is ignored']!, ...(seed === undefined ? {} : { seed }) };
      const check = storeChecks(subject).find(({ name }) => name === 'gcra: random traces');
      const error = (await check!.run().catch((reason: unknown) => reason)) as CheckError;
      return error.message;
    };
    const message = await failure();
    const [, seed] = /\nwith seed: (-?\d+), shrunk to\n\{/.exec(message)!;
    const policies = (text: string) => text.slice(text.indexOf('shrunk to'));
    expect(policies(await failure(Number(seed)))).to.equal(policies(message));
  });

  it('close the stores that they created', async () => {
    let open = 0;
    const createStore: typeof memory = (clock) => {
      open++;
      return Object.assign(memory(clock), { close: () => void open-- });
    };
    for (const { run } of storeChecks({ createStore, runs: 1 })) await run();
    expect(open).to.equal(0);
  });
});
