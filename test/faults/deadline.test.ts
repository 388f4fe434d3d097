import assert from 'node:assert/strict';
import fc from 'fast-check';
import { StoreTime } from '../../src/stores/deadline.js';

/** A call as the network makes it: how long it takes to the store and back, and how much the store's clock is set meanwhile. */
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
  it('are never later than the caller waits, while the store’s clock is steady; and a refused call knows better', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2e12 }),
        fc.array(call, { minLength: 1, maxLength: 50 }),
        (skew, calls) => {
          const time = new StoreTime();
          let now = 1000;
          let offset = skew;
          let steady = false;
          for (const { pause, there, back, step } of calls) {
            now += pause;
            offset += step;
            if (step < 0) steady = false;
            const sent = now;
            const deadline = Number(time.at(sent + TIMEOUT));
            if (steady) assert.ok(deadline <= sent + TIMEOUT + offset, 'a call could run too late');
            const storeNow = Math.floor(sent + there + offset);
            now = sent + there + back;
            time.learn(storeNow, sent, now);
            steady = true;
            // Sent again at once, a call reaches a store that is near enough.
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

  it('of a call before any reply is past, so that the store tells its time', () => {
    assert.equal(new StoreTime().at(5), '1');
  });
});
