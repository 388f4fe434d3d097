// The common core of the queue of held requests and of the waiting room: fair lines by key, whose steps all take the same time.
import { expect } from 'chai';
import fc from 'fast-check';
import type { HeadgateError } from 'headgate';
import type { LimiterDecision } from '../../../src/limiter/decision.js';
import { HoldQueue } from '../../../src/limiter/waiting/hold-queue.js';
import { WaitingRoom } from '../../../src/limiter/waiting/waiting-room.js';
import type { Request } from '../../../src/limiter/request.js';
import { runs } from '../../support/random.js';
import { waitRequest } from '../../support/requests.js';
import { limiterOn, memory } from '../../support/stores.js';
import { TestTiming } from '../../support/timing.js';
import { workOf } from '../../support/work.js';

/** Waits until all immediate effects have happened. */
const settled = () => new Promise(setImmediate);

/** The common interface of both: requests come, and leave. */
interface Room {
  readonly size: number;
  /** Resolves with the outcome. */
  come(key: string, signal?: AbortSignal, isUnbounded?: boolean): Promise<string>;
  close(): void;
}

function holding(most: number, mostPerKey: number): Room {
  const queue = new HoldQueue(most, mostPerKey, new TestTiming());
  const last = new Map<string, number>();
  return {
    get size() {
      return queue.size;
    },
    come(key, signal, isUnbounded) {
      const delayMs = (last.get(key) ?? 0) + 100;
      last.set(key, delayMs);
      return queue.hold({ key, cost: 1, delayMs, unitMs: 100 }, signal, { isUnbounded });
    },
    close: () => queue.close(),
  };
}

function waiting(most: number, mostPerKey: number): Room {
  const timing = new TestTiming();
  const limiter = limiterOn(memory(timing.clock), { limit: 1, window: '1h' });
  const decide = async ({ key }: Request): Promise<LimiterDecision> => limiter.decide(key, 1);
  const room = new WaitingRoom(most, mostPerKey, timing, {
    hasPeers: false,
    decide,
    hold: async (decision) => decision,
  });
  const outcomes: Readonly<Record<string, string>> = {
    HEADGATE_QUEUE_FULL: 'full',
    HEADGATE_ABORTED: 'cancelled',
    HEADGATE_CLOSED: 'closed',
  };
  return {
    get size() {
      return room.size;
    },
    come(key, signal, isUnbounded = false) {
      // No request is admitted, because the first decision takes the quota.
      void limiter.decide(key, 1);
      return room.wait(waitRequest(key, limiter.set, { signal, isUnbounded }), [key]).then(
        () => 'turn',
        ({ code }: HeadgateError) => outcomes[code] ?? code,
      );
    },
    close: () => room.close({ code: 'HEADGATE_CLOSED' } as HeadgateError),
  };
}

for (const [name, make] of Object.entries({ 'held requests': holding, 'the waiting room': waiting })) {
  describe(`lines of ${name}`, () => {
    const orders: Readonly<Record<string, (n: number) => number[]>> = {
      'from the first': (n) => Array.from({ length: n }, (_, i) => i),
      'from the last': (n) => Array.from({ length: n }, (_, i) => n - 1 - i),
      'from the middle': (n) => Array.from({ length: n }, (_, i) => (i + n / 2) % n),
    };
    const leave = (order: (n: number) => number[]) => async (n: number) => {
      const room = make(n, n);
      const exits = Array.from({ length: n }, () => new AbortController());
      const ends = exits.map(({ signal }) => room.come('k', signal));
      for (const i of order(n)) exits[i]!.abort();
      expect(new Set(await Promise.all(ends))).to.deep.equal(new Set(['cancelled']));
    };
    const programs: Readonly<Record<string, (n: number) => Promise<void>>> = {
      ...Object.fromEntries(
        Object.entries(orders).map(([order, indices]) => [`as many leave, ${order}`, leave(indices)]),
      ),
      'all are closed': async (n) => {
        const room = make(n, n);
        const ends = Array.from({ length: n }, () => room.come('k'));
        room.close();
        expect(new Set(await Promise.all(ends))).to.deep.equal(new Set(['closed']));
      },
      'as many keys come to a full room': async (n) => {
        const room = make(n, n);
        const ends = Array.from({ length: n }, () => room.come('greedy'));
        await settled();
        ends.push(...Array.from({ length: n }, (_, i) => room.come(`k${i}`)));
        await settled();
        expect(room.size).to.equal(n);
        room.close();
        await Promise.all(ends);
      },
    };
    for (const [what, program] of Object.entries(programs)) {
      it(`does no more work for each if there are many: ${what}`, async () => {
        const [few, many] = [await workOf(() => program(150)), await workOf(() => program(600))];
        expect(few).to.be.above(150);
        // Four times as many requests: 4 times the work, or 16 times if each event visited all of them.
        expect(many / few).to.be.below(10);
      });
    }

    it('refuses and replaces no request of a key with fewer requests than its part of the room', async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.integer({ min: 1, max: 5 }),
          fc.integer({ min: 1, max: 12 }),
          fc.array(fc.record({ key: fc.nat(4), act: fc.constantFrom('come', 'come', 'come', 'leave') }), {
            maxLength: 60,
          }),
          async (modest, most, steps) => {
            const room = make(most, most);
            // A fifth of the room is the most for one of five keys. The remaining keys fill up the rest.
            const part = Math.floor(most / 5);
            const mine: AbortController[] = [];
            const others: AbortController[] = [];
            const ends: Promise<string>[] = [];
            for (const { key, act } of steps) {
              const list = key === modest % 5 ? mine : others;
              if (act === 'leave') list.pop()?.abort();
              else if (list === others || mine.length < part) {
                const exit = new AbortController();
                const end = room.come(`k${key}`, exit.signal);
                list.push(exit);
                if (list === mine) ends.push(end);
              }
              await settled();
              expect(room.size).to.be.at.most(most);
            }
            room.close();
            expect(await Promise.all(ends)).to.not.include('full');
          },
        ),
        runs('memory', 300, 0),
      );
    });

    it('the last of the longest line is replaced by a newcomer whose line is still shorter', async () => {
      const room = make(6, 6);
      const ends: string[] = [];
      const come = async (who: string) => {
        void room.come(who[0]!).then((outcome) => ends.push(`${who} ${outcome}`));
        await settled();
      };
      for (const who of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2']) await come(who);
      await come('a5');
      await come('b3');
      await come('c1');
      await come('c2');
      await come('c3');
      await come('d2');
      await come('e1');
      await come('f1');
      await come('g1');
      await come('a6');
      room.close();
      await settled();
      expect(ends.filter((end) => end.endsWith('full'))).to.deep.equal([
        'a5 full',
        'a4 full',
        'b3 full',
        'a3 full',
        'c3 full',
        'c2 full',
        'a2 full',
        'b2 full',
        'g1 full',
        'a6 full',
      ]);
    });

    it('an unbounded request always has a place, and takes none from others', async () => {
      const room = make(3, 3);
      const ends: string[] = [];
      const come = async (who: string, signal?: AbortSignal) => {
        void room.come(who[0]!, signal, who.endsWith('*')).then((outcome) => ends.push(`${who} ${outcome}`));
        await settled();
      };
      for (const who of ['a1*', 'a2', 'a3*', 'a4', 'a5*', 'a6', 'a7*', 'a8', 'b1*']) await come(who);
      expect(ends).to.deep.equal(['a8 full']);
      const exit = new AbortController();
      await come('b2', exit.signal);
      await come('c1*');
      expect(ends).to.deep.equal(['a8 full', 'a6 full']);
      exit.abort();
      await settled();
      await come('c2');
      await come('d1');
      await come('e1');
      expect(ends.slice(2)).to.deep.equal(['b2 cancelled', 'a4 full', 'e1 full']);
      expect(room.size).to.equal(9);
      room.close();
      await settled();
      expect(ends).to.have.length(14);
      expect(room.size).to.equal(0);
    });

    it('lets one key have no more than its share', async () => {
      const room = make(10, 3);
      const ends: string[] = [];
      for (const key of ['a', 'a', 'a', 'a', 'b']) void room.come(key).then((end) => ends.push(key + end));
      await settled();
      expect(ends).to.deep.equal(['afull']);
      expect(room.size).to.equal(4);
      room.close();
      await settled();
    });
  });
}
