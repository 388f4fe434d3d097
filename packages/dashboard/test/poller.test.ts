// The poller reads for all viewers at once, and only while there is one.
import { expect } from 'chai';
import { Cached } from '../src/cached.js';
import { Poller, type Update } from '../src/poller.js';

/** Readings that a test answers one by one. */
class Readings {
  count = 0;
  readonly #waiting: ((parts: Record<string, unknown>) => void)[] = [];

  readonly read = (): Promise<Record<string, unknown>> => {
    this.count++;
    return new Promise((resolve) => this.#waiting.push(resolve));
  };

  async answer(parts: Record<string, unknown>): Promise<void> {
    while (this.#waiting.length === 0) await new Promise((resolve) => setImmediate(resolve));
    this.#waiting.shift()!(parts);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe('the poller', () => {
  let readings: Readings;
  let poller: Poller;
  beforeEach(() => {
    readings = new Readings();
    poller = new Poller(1, readings.read);
  });

  const viewer = () => {
    const updates: Update[] = [];
    return { updates, leave: poller.watch((update) => updates.push(update)) };
  };

  it('does not read without a viewer, and stops after the last one', async () => {
    expect(readings.count).to.equal(0);
    const [one, two] = [viewer(), viewer()];
    expect(readings.count).to.equal(1);
    await readings.answer({ a: 1 });
    one.leave();
    await readings.answer({ a: 2 });
    two.leave();
    const { count } = readings;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(readings.count).to.equal(count);
    expect(poller.viewers).to.equal(0);
  });

  it('sends everything at first, and then the differences', async () => {
    const { updates, leave } = viewer();
    await readings.answer({ a: 1, b: [1] });
    await readings.answer({ a: 1, b: [2], c: 3 });
    await readings.answer({ c: 3 });
    leave();
    expect(updates).to.deep.equal([
      { full: true, set: { a: 1, b: [1] }, gone: [] },
      { full: false, set: { b: [2], c: 3 }, gone: [] },
      { full: false, set: {}, gone: ['a', 'b'] },
    ]);
  });

  it('gives a later viewer the last state at once, without a reading', async () => {
    const first = viewer();
    await readings.answer({ a: 1 });
    const second = viewer();
    expect(second.updates).to.deep.equal([{ full: true, set: { a: 1 }, gone: [] }]);
    first.leave();
    second.leave();
  });

  it('sends everything to a viewer that comes after a pause', async () => {
    viewer().leave();
    await readings.answer({ a: 1 });
    const { updates, leave } = viewer();
    await readings.answer({ a: 1 });
    leave();
    expect(updates).to.deep.equal([{ full: true, set: { a: 1 }, gone: [] }]);
  });
});

describe('a cached value', () => {
  it('is read once for all callers, again after its time, and again after a failure', async () => {
    let [now, reads] = [0, 0];
    let fails = false;
    const read = () => (fails ? Promise.reject(new Error('down')) : Promise.resolve(++reads));
    const cached = new Cached<number>(100, read, () => now);
    expect(await Promise.all([cached.get(), cached.get()])).to.deep.equal([1, 1]);
    now = 99;
    expect(await cached.get()).to.equal(1);
    now = 100;
    expect(await cached.get()).to.equal(2);
    fails = true;
    now = 300;
    expect(await cached.get().catch((error: Error) => error.message)).to.equal('down');
    fails = false;
    expect(await cached.get()).to.equal(3);
    cached.expire();
    expect(await cached.get()).to.equal(4);
  });
});
