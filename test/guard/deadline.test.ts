import assert from 'node:assert/strict';
import fc from 'fast-check';
import { StoreTime } from '../../src/stores/redis/calls/script-calls.js';

/** A call on the network: the time to the store and back, and the change of the store's clock meanwhile. */
const call = fc.record({
  pause: fc.integer({ min: 0, max: 1000 }),
  there: fc.integer({ min: 0, max: 300 }),
  back: fc.integer({ min: 0, max: 300 }),
  step: fc.oneof(
    { weight: 5, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: -1e7, max: 1e7 }) },
  ),
});

const TIMEOUT = 100;

describe('deadlines in the store’s time', () => {
  it('are never later than the caller waits, except by changes that a reply cannot show; and a refused call corrects them', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2e12 }),
        fc.array(call, { minLength: 1, maxLength: 50 }),
        (skew, calls) => {
          const time = new StoreTime();
          let now = 1000;
          let offset = skew;
          let setBack = false;
          let slack = Infinity;
          for (const { pause, there, back, step } of calls) {
            now += pause;
            offset += step;
            if (step < 0) {
              setBack = true;
              slack = Infinity;
            }
            const sent = now;
            const deadline = Number(time.at(sent + TIMEOUT));
            assert.ok(deadline <= sent + TIMEOUT + offset + slack, 'a call could run too late');
            const storeNow = Math.floor(sent + there + offset);
            now = sent + there + back;
            time.learn(storeNow, sent, now);
            // A clock that was set back by less than the call's way cannot be distinguished from an unchanged clock.
            slack = setBack ? there + 1 : 0;
            // A call that is sent again at once reaches a store that is near enough.
            const again = Number(time.at(now + TIMEOUT));
            assert.ok(
              again >= Math.floor(now + offset) + TIMEOUT - there - back - 1,
              'a healthy store would refuse it',
            );
          }
        },
      ),
    );
  });

  it('of a store whose replies are all read late leave a call its full time, and its caller waits longer by the delay', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2e12 }),
        fc.array(fc.record({ there: fc.nat(TIMEOUT / 2 - 1), lag: fc.nat(2000) }), {
          minLength: 1,
          maxLength: 20,
        }),
        (offset, calls) => {
          const time = new StoreTime();
          let now = 1000;
          for (const { there, lag } of calls) {
            const until = now + TIMEOUT + time.doubt(TIMEOUT);
            const storeNow = Math.floor(now + there + offset);
            if (time.known) {
              const deadline = Number(time.at(until));
              assert.ok(storeNow <= deadline, 'a healthy store refuses it');
              assert.ok(deadline <= until + offset, 'it could run too late');
            }
            const sent = now;
            now += there + lag;
            time.learn(storeNow, sent, now);
          }
        },
      ),
    );
  });

  it('are exact once a reply was quick', () => {
    const time = new StoreTime();
    time.learn(1_000_000, 10, 900);
    assert.equal(time.doubt(TIMEOUT), 891 - TIMEOUT / 2);
    time.learn(1_001_000, 1000, 1010);
    assert.equal(time.doubt(TIMEOUT), 0);
  });

  it('use the narrowest bounds that two replies agree on, or the last reply’s if they contradict', () => {
    for (const [now, sent, received, least, most] of [
      [1104, 100, 104, 1000, 1001],
      [994, 0, 5, 990, 995],
      // The bounds meet in one point.
      [1021, 15, 20, 1001, 1001],
      [1001, 12, 15, 990, 990],
      // The bounds miss each other by 1 ms.
      [1022, 15, 20, 1002, 1008],
      [1000, 12, 15, 985, 989],
    ] as const) {
      const time = new StoreTime();
      time.learn(1000, 0, 10);
      assert.deepEqual([time.at(0), time.doubt(0)], ['990', 11]);
      time.learn(now, sent, received);
      assert.deepEqual([time.at(0), time.doubt(0)], [String(least), most - least], `${now}`);
    }
  });

  it('of a call before any reply is past, so that the store reports its time', () => {
    assert.equal(new StoreTime().at(5), '1');
  });
});
