// The basics in src/common, tested alone: messages, durations as text, secrets, a promise with one listener, real timers.
import { expect } from 'chai';
import { toMilliseconds, toText } from '../src/common/duration.js';
import { HeadgateError, show } from '../src/common/errors.js';
import { Eventual } from '../src/common/eventual.js';
import { faultOfSecret } from '../src/common/secret.js';
import { realTiming } from '../src/common/timing.js';

describe('values in messages', () => {
  const cyclic: unknown[] = [];
  cyclic.push(cyclic);
  for (const [value, shown] of [
    ['x'.repeat(80), `"${'x'.repeat(80)}"`],
    ['x'.repeat(81), `"${'x'.repeat(80)}…"`],
    ['a"\u001b', String.raw`"a\"\u001b"`],
    [() => 5, 'a function'],
    [5n, '5n'],
    [undefined, 'undefined'],
    [null, 'null'],
    [['x'.repeat(76)], `["${'x'.repeat(76)}"]`],
    [['x'.repeat(77)], `["${'x'.repeat(77)}"…`],
    [cyclic, 'an object'],
  ] as const) {
    it(shown.slice(0, 30), () => expect(show(value)).to.equal(shown));
  }

  it('end with the page of their code, and one full stop', () => {
    for (const end of ['', '.', '!', '?']) {
      const { message } = new HeadgateError('HEADGATE_CLOSED', `It is${end}`);
      const page = 'See node_modules/headgate/docs/errors.md#headgate_closed';
      expect(message).to.equal(`It is${end === '' ? '.' : end} ${page}`);
    }
    const cause = new Error('why');
    expect(new HeadgateError('HEADGATE_CLOSED', 'x', { cause })).to.have.property('cause', cause);
    expect(new HeadgateError('HEADGATE_CLOSED', 'x')).to.not.have.property('cause');
  });
});

describe('a duration as text', () => {
  for (const [milliseconds, text] of [
    [1, '1ms'],
    [999, '999ms'],
    [1000, '1s'],
    [1500, '1500ms'],
    [60_000, '1m'],
    [61_000, '61s'],
    [3_600_000, '1h'],
    [86_400_000, '1d'],
    [90_000_000, '25h'],
  ] as const) {
    it(text, () => expect(toText(milliseconds)).to.equal(text));
  }
});

describe('a duration from text', () => {
  it('is exact, where a product of floats is not', () => {
    for (const [unit, ms] of [
      ['s', 1000],
      ['m', 60_000],
      ['h', 3_600_000],
      ['d', 86_400_000],
    ] as const)
      for (let hundredths = 1; hundredths <= 3000; hundredths++)
        expect(toMilliseconds('x', `${hundredths / 100}${unit}`)).to.equal((hundredths * ms) / 100);
    expect(toMilliseconds('x', '500ms')).to.equal(500);
    for (const text of ['1.000001ms', '0.0001s', '366.000001d'])
      expect(() => toMilliseconds('x', text), text).to.throw(HeadgateError, `x: "${text}"`);
  });
});

describe('a secret', () => {
  for (const [secret, fault] of [
    [undefined, /undefined/],
    [5, /string/],
    [`${'x'.repeat(16)}\n`, /\bspace\b/],
    ['x'.repeat(15), /\b15\b/],
    ['x'.repeat(16), undefined],
  ] as const) {
    it(fault ? `is refused: ${fault.source}` : 'is enough with 16 characters', () => {
      if (fault) expect(faultOfSecret(secret)).to.match(fault);
      else expect(faultOfSecret(secret)).to.be.undefined;
    });
  }
});

describe('a promise with one listener', () => {
  const error = new Error('it failed');
  for (const [how, act, outcome] of [
    ['resolved', (it: Eventual<number>) => it.resolve(5), 5],
    ['rejected', (it: Eventual<number>) => it.reject(error), error],
  ] as const) {
    it(`calls a listener at once when it is ${how}, and a listener that comes afterwards in a later turn`, async () => {
      const outcomes: unknown[] = [];
      const listener = {
        resolve: (value: number) => outcomes.push(value),
        reject: (e: Error) => outcomes.push(e),
      };
      const before = new Eventual<number>();
      Eventual.listen(before, listener);
      act(before);
      expect(outcomes).to.deep.equal([outcome]);
      const after = new Eventual<number>();
      act(after);
      Eventual.listen(after, listener);
      await new Promise(setImmediate);
      expect(outcomes).to.deep.equal([outcome, outcome]);
      const usual = how === 'resolved' ? Promise.resolve(5) : Promise.reject(error);
      Eventual.listen(usual, listener);
      await new Promise(setImmediate);
      expect(outcomes).to.have.length(3);
    });

    it(`can be awaited, before and after it is ${how}`, async () => {
      for (const early of [true, false]) {
        const it = new Eventual<number>();
        if (early) act(it);
        const ended: string[] = [];
        const waits = [it.then(), it.catch((e: unknown) => e), it.finally(() => ended.push('end'))];
        if (!early) act(it);
        const values: unknown[] = [];
        for (const wait of waits)
          wait.then((value) => values.push(value)).catch((e: unknown) => values.push(e));
        await new Promise(setImmediate);
        expect(values).to.deep.equal([outcome, outcome, outcome]);
        expect(ended).to.deep.equal(['end']);
      }
    });
  }
});

describe('a timer', () => {
  it('longer than Node’s maximum does not fire at once', async () => {
    let fired = false;
    const stop = realTiming.after(2 ** 31, () => (fired = true));
    for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setTimeout(resolve, 0));
    stop();
    expect(fired).to.be.false;
  });
});
