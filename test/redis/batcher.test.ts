// The moment at which decisions leave, and their number in a call: the batcher alone, with calls that are answered by hand.
import { mock } from 'node:test';
import { expect } from 'chai';
import { performance } from '../../src/common/real-time.js';
import { Batcher, Distance, type Batch, type Carrier } from '../../src/stores/redis/calls/batch.js';
import type { Plan } from '../../src/stores/redis/calls/plans.js';
import type { Done } from '../../src/stores/redis/clients/commands.js';
import type { Reply } from '../../src/contract/reply.js';
import type { PolicySet, Query } from '../../src/contract/store.js';

const set = { name: 'api', policies: [] } as unknown as PolicySet;
const plan = { set } as unknown as Plan;

/** Waits until one turn of the event loop is over. */
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

  /** The number of decisions in each open call. */
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
  batcher.ask({ set, key: 'key', cost: 1, peek: false } as unknown as Query, plan);

function askOnce(batcher: Batcher, count: number): void {
  for (let i = 0; i < count; i++) ask(batcher).catch(() => {});
}

/** `count` users, each of whom asks again after an answer. */
function users(batcher: Batcher, count: number): void {
  const again = (): Promise<unknown> => ask(batcher).then(again, again);
  for (let i = 0; i < count; i++) void again();
}

const sum = (sizes: readonly number[]): number => sizes.reduce((all, size) => all + size, 0);

describe('a batcher', () => {
  let time: () => number;
  let clock: { mock: { restore(): void } };

  beforeEach(() => {
    // A fixed clock, because a busy machine would look like a store far away.
    time = () => 0;
    clock = mock.method(performance, 'now', () => time());
  });
  afterEach(() => clock.mock.restore());

  it('sends a single decision at once', async () => {
    const wire = new Wire();
    const batcher = new Batcher(wire);
    for (let i = 0; i < 3; i++) {
      askOnce(batcher, 1);
      expect(wire.sizes).to.deep.equal([1]);
      wire.answer();
      await turn();
    }
  });

  it('gathers further decisions, and sends a third of the pending ones, or those of the turn', async () => {
    for (const [count, sizes] of [
      [2, [1, 1]],
      [3, [1, 2]],
      [5, [1, 2, 2]],
      [6, [1, 2, 2, 1]],
      [8, [1, 2, 2, 3]],
      [12, [1, 2, 2, 3, 4]],
      [18, [1, 2, 2, 3, 4, 6]],
    ] as const) {
      const wire = new Wire();
      askOnce(new Batcher(wire), count);
      await turn();
      expect(wire.sizes, `${count}`).to.deep.equal(sizes);
    }
  });

  for (const count of [2, 8, 20, 64, 100]) {
    it(`has few calls in flight for ${count} users`, async () => {
      const wire = new Wire();
      users(new Batcher(wire), count);
      await turn();
      for (let replies = 0; replies < 100; replies++) {
        wire.answer();
        await turn();
      }
      expect(wire.sizes.length).to.be.within(1, 12);
      expect(sum(wire.sizes)).to.equal(count);
    });
  }

  it('gathers while several callers ask in each turn, and afterwards sends a single decision at once again', async () => {
    for (const how of ['answer', 'fail'] as const) {
      const wire = new Wire();
      const batcher = new Batcher(wire);
      askOnce(batcher, 3);
      while (wire.calls.length > 0) wire[how]();
      // Callers that get an answer ask again in the same turn, after a few microtasks.
      await new Promise<void>((resolve) => process.nextTick(resolve));
      askOnce(batcher, 3);
      expect(wire.sizes, how).to.deep.equal([2]);
      await turn();
      expect(wire.sizes, how).to.deep.equal([2, 1]);
      while (wire.calls.length > 0) wire[how]();
      await turn();
      askOnce(batcher, 1);
      expect(wire.sizes, how).to.deep.equal([1]);
    }
  });

  it('gathers the decisions of a turn on a busy server, and stops once its turns are calm', async () => {
    const wire = new Wire();
    const batcher = new Batcher(wire);
    const callback = () =>
      new Promise<void>((resolve) => {
        setImmediate(() => {
          askOnce(batcher, 1);
          resolve();
        });
      });
    const answerAll = () => {
      while (wire.calls.length > 0) wire.answer();
    };
    for (let i = 0; i < 20; i++) {
      await Promise.all([callback(), callback()]);
      await turn();
      answerAll();
    }
    askOnce(batcher, 1);
    expect(wire.sizes, 'busy').to.deep.equal([]);
    for (let i = 0; i < 20; i++) {
      await turn();
      answerAll();
      askOnce(batcher, 1);
    }
    expect(wire.sizes, 'calm').to.deep.equal([1]);
  });

  it('sends the decisions for a store far away at the end of each turn', async () => {
    const wire = new Wire();
    let now = 0;
    time = () => (now += 100);
    users(new Batcher(wire), 64);
    for (let replies = 0; replies < 50; replies++) {
      await turn();
      wire.answer();
    }
    await turn();
    expect(sum(wire.sizes)).to.equal(64);
  });

  it('for a store far away sends even a few decisions at the end of a turn', async () => {
    const wire = new Wire();
    let now = 0;
    time = () => (now += 100);
    const batcher = new Batcher(wire);
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

  it('in a cluster sends one call per key at the end of each turn', async () => {
    const wire = new Wire(true);
    const batcher = new Batcher(wire);
    for (let i = 0; i < 30; i++) void batcher.ask({ set, key: `key${i}` } as unknown as Query, plan);
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
