// When decisions leave, and how many in a call: the batcher alone, with calls that are answered by hand.
import { mock } from 'node:test';
import { expect } from 'chai';
import { performance } from '../../src/common/real-time.js';
import { Batcher, type Batch, type Carrier } from '../../src/stores/redis/batch.js';
import type { Done } from '../../src/stores/redis/clients/commands.js';
import { Distance } from '../../src/stores/redis/distance.js';
import type { PolicySet, Query, Reply } from '../../src/contract/store.js';

const set = { name: 'api', policies: [] } as unknown as PolicySet;

/** What happens in one turn of the event loop is over. */
const turn = async (): Promise<void> => {
  for (let i = 0; i < 2; i++) await new Promise((resolve) => setImmediate(resolve));
};

/** Calls on the wire, answered by hand. */
class Wire implements Carrier {
  readonly cluster: boolean;
  readonly calls: { readonly batch: Batch; readonly done: Done }[] = [];

  constructor(cluster = false) {
    this.cluster = cluster;
  }

  refusesKeys(): boolean {
    return false;
  }

  send(batch: Batch, done: Done): void {
    this.calls.push({ batch, done });
  }

  decode({ queries }: Batch): Reply[] {
    return queries.map(() => ({}) as Reply);
  }

  together(send: () => void): void {
    send();
  }

  /** How many decisions each call has that is under way. */
  get sizes(): number[] {
    return this.calls.map(({ batch }) => batch.queries.length);
  }

  answer(): void {
    this.calls.shift()!.done(undefined, []);
  }

  fail(): void {
    this.calls.shift()!.done(new Error('gone'), undefined);
  }
}

const ask = (batcher: Batcher): Promise<unknown> =>
  batcher.ask({ set, key: 'key', cost: 1, peek: false } as unknown as Query);

function askOnce(batcher: Batcher, count: number): void {
  for (let i = 0; i < count; i++) ask(batcher).catch(() => {});
}

/** So many users, each of whom asks again once answered. */
function users(batcher: Batcher, count: number): void {
  const again = (): Promise<unknown> => ask(batcher).then(again, again);
  for (let i = 0; i < count; i++) void again();
}

const sum = (sizes: readonly number[]): number => sizes.reduce((all, size) => all + size, 0);

describe('a batcher', () => {
  let timers: (() => void)[];
  let time: () => number;
  let clock: { mock: { restore(): void } };
  const batcherOn = (wire: Wire): Batcher =>
    new Batcher(wire, ((expire: () => void) => void timers.push(expire)) as unknown as typeof setTimeout);

  beforeEach(() => {
    timers = [];
    // A busy machine is not a store far away.
    time = () => 0;
    clock = mock.method(performance, 'now', () => time());
  });
  afterEach(() => clock.mock.restore());

  for (const count of [8, 20, 64, 100]) {
    it(`soon has at most four calls under way for ${count} users`, async () => {
      const wire = new Wire();
      users(batcherOn(wire), count);
      await turn();
      for (let replies = 0; replies < 100; replies++) {
        wire.answer();
        await turn();
      }
      expect(wire.sizes.length).to.be.within(3, 4);
      expect(sum(wire.sizes)).to.equal(count);
    });
  }

  it('holds what is left at the end of a turn until few calls are under way, answered or failed', async () => {
    for (const how of ['answer', 'fail'] as const) {
      const wire = new Wire();
      askOnce(batcherOn(wire), 14);
      expect(wire.sizes).to.deep.equal([1, 1, 1, 1, 1, 1, 1, 4]);
      await turn();
      for (let under = 8; under > 4; under--) {
        expect(wire.sizes).to.have.lengthOf(under);
        wire[how]();
        await turn();
      }
      expect(wire.sizes, how).to.deep.equal([1, 1, 1, 4]);
      wire[how]();
      await turn();
      expect(wire.sizes, how).to.deep.equal([1, 1, 4, 3]);
    }
  });

  it('holds none for longer than its timer', async () => {
    const wire = new Wire();
    askOnce(batcherOn(wire), 14);
    await turn();
    expect(wire.sizes).to.deep.equal([1, 1, 1, 1, 1, 1, 1, 4]);
    expect(timers).to.have.lengthOf(1);
    timers[0]!();
    expect(wire.sizes).to.deep.equal([1, 1, 1, 1, 1, 1, 1, 4, 3]);
  });

  it('holds nothing at the end of a turn that took longer', async () => {
    const wire = new Wire();
    askOnce(batcherOn(wire), 14);
    time = () => 2;
    await turn();
    expect(wire.sizes).to.deep.equal([1, 1, 1, 1, 1, 1, 1, 4, 3]);
  });

  it('sends at the end of each turn what is asked of a store far away', async () => {
    const wire = new Wire();
    let now = 0;
    time = () => (now += 100);
    users(batcherOn(wire), 64);
    for (let replies = 0; replies < 50; replies++) {
      await turn();
      wire.answer();
    }
    await turn();
    expect(sum(wire.sizes)).to.equal(64);
    expect(timers.length).to.be.below(33);
  });

  it('of a store far away sends few at the end of a turn, too', async () => {
    const wire = new Wire();
    let now = 0;
    time = () => (now += 100);
    const batcher = batcherOn(wire);
    for (let i = 0; i < 32; i++) {
      askOnce(batcher, 1);
      expect(wire.sizes).to.deep.equal([1]);
      wire.answer();
    }
    askOnce(batcher, 5);
    expect(wire.sizes).to.deep.equal([]);
    await turn();
    expect(wire.sizes).to.deep.equal([5]);
  });

  it('in a cluster sends at the end of each turn a call per key', async () => {
    const wire = new Wire(true);
    const batcher = batcherOn(wire);
    for (let i = 0; i < 30; i++) void batcher.ask({ set, key: `key${i}` } as unknown as Query);
    await turn();
    expect(wire.sizes).to.deep.equal(Array.from({ length: 30 }, () => 1));
  });
});

describe('the distance of a store', () => {
  const after = (...calls: readonly (readonly [ms: number, decisions: number])[]): boolean => {
    const distance = new Distance();
    for (const [ms, decisions] of calls) distance.took(ms, decisions);
    return distance.isFar;
  };
  const times = (count: number, ms: number, decisions: number) =>
    Array.from({ length: count }, () => [ms, decisions] as const);

  for (const [what, calls, isFar] of [
    ['nearby before any call', [], false],
    ['nearby before 32 calls', times(31, 50, 1), false],
    ['far after 32 late ones', times(32, 2, 64), true],
    ['nearby if one of them is quick', [...times(31, 2, 64), [0.1, 1]], false],
    ['nearby if calls are late as there are many decisions', times(32, 2, 200), false],
    ['nearby at 0.3 ms', times(32, 0.3, 1), false],
    ['far beyond that, and 0.01 ms for each decision', times(32, 0.32, 1), true],
    ['judged anew every 32 calls', [...times(32, 2, 64), ...times(32, 0.1, 64)], false],
    ['far until then', [...times(32, 2, 64), ...times(31, 0.1, 64)], true],
    ['far again once it is', [...times(32, 0.1, 64), ...times(32, 2, 64)], true],
  ] as const) {
    it(`is ${what}`, () => {
      expect(after(...calls)).to.equal(isFar);
    });
  }
});
