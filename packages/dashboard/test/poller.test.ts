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

  it('reads again at once after a change during a reading', async () => {
    poller = new Poller(60_000, readings.read);
    const { updates, leave } = viewer();
    void poller.refresh();
    await readings.answer({ a: 'before' });
    await readings.answer({ a: 'after' });
    leave();
    expect(updates.map(({ set }) => set)).to.deep.equal([{ a: 'before' }, { a: 'after' }]);
    expect(readings.count).to.equal(2);
  });

  it('has sent a change when its refresh ends, also if a reading began before the change', async () => {
    const { updates, leave } = viewer();
    let isSent = false;
    const sent = poller.refresh().then(() => (isSent = true));
    await readings.answer({ a: 'before the change' });
    expect(isSent).to.equal(false);
    await readings.answer({ a: 'after the change' });
    await sent;
    expect(updates.at(-1)!.set).to.deep.equal({ a: 'after the change' });
    const last = poller.refresh();
    leave();
    await last;
    await poller.refresh();
  });
});

describe('a cached value', () => {
  it('that was read while it changed is read again, and never takes the place of a later one', async () => {
    const readings = new Readings();
    const cached = new Cached(10_000, readings.read);
    const first = cached.get();
    cached.expire();
    const second = cached.get();
    expect(readings.count).to.equal(2);
    await readings.answer({ a: 'before' });
    await readings.answer({ a: 'after' });
    expect([await first, await second]).to.deep.equal([{ a: 'before' }, { a: 'after' }]);
    expect(await cached.get()).to.deep.equal({ a: 'after' });
    expect(readings.count).to.equal(2);
    cached.expire();
    const old = cached.get();
    cached.expire();
    const fresh = cached.get();
    expect(cached.get()).to.equal(fresh);
    await readings.answer({ a: 'old' });
    expect(await old).to.deep.equal({ a: 'old' });
    // The old reading has ended, and the one under way serves all callers.
    expect(cached.get()).to.equal(fresh);
    await readings.answer({ a: 'fresh' });
    expect(await cached.get()).to.deep.equal({ a: 'fresh' });
    expect(readings.count).to.equal(4);
  });

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
