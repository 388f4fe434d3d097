// The time of turns, by the store's clock.
import { expect } from 'chai';
import { TurnClock } from '../../src/limiter/waiting/turn-clock.js';

describe('when the turns come that a store gave', () => {
  it('an answer that was read late counts from the store’s decision; a constant distance is no delay', () => {
    const clock = new TurnClock();
    // The clocks differ by 1,000 ms, and answers take 8 ms.
    expect(clock.decidedAt(1000, 8)).to.equal(8);
    expect(clock.decidedAt(1100, 108)).to.equal(108);
    expect(clock.decidedAt(1200, 258)).to.equal(208);
  });

  it('a first answer that was late is corrected by the next, and a slow one is forgotten', () => {
    const clock = new TurnClock();
    clock.decidedAt(1000, 50);
    expect(clock.decidedAt(1010, 12)).to.equal(12);
    // From here on, the store is 30 ms farther away.
    for (let at = 20; at < 6000; at += 20) clock.decidedAt(1000 + at, at + 32);
    expect(clock.decidedAt(7000, 6032)).to.equal(6032);
  });

  it('a store whose clock was set back is believed at once', () => {
    const clock = new TurnClock();
    clock.decidedAt(10_000, 0);
    expect(clock.decidedAt(5000, 100)).to.equal(100);
    expect(clock.decidedAt(5100, 200)).to.equal(200);
  });
});
