// Processes that could not publish while the store did not answer.
import { expect } from 'chai';
import { Pauses } from '../src/pauses.js';

const EVERY = 30_000;

describe('a process that is silent after an outage of the store', () => {
  let now = 0;
  const published = (at: number) => ({ at: new Date(at).toISOString(), every: EVERY });
  const read = (pauses: Pauses, startedAt: number, endedAt: number, hasFailed: boolean) => {
    now = endedAt;
    pauses.note(startedAt, hasFailed);
  };

  it('counts as silent only if it does not publish after the outage, either', () => {
    const pauses = new Pauses(() => now);
    const silent = (at: number) => pauses.silentMs(published(at));
    now = 100_000;
    expect(silent(50_000)).to.equal(50_000);
    // The store is frozen from 100 s to 120 s.
    read(pauses, 100_000, 103_000, true);
    read(pauses, 105_000, 108_000, true);
    read(pauses, 110_000, 120_500, false);
    expect(silent(73_000), 'due in the outage').to.equal(0);
    now = 145_000;
    expect(silent(73_000)).to.equal(0);
    expect(silent(95_000), 'due after the outage').to.equal(50_000);
    expect(silent(50_000), 'silent before the outage').to.equal(95_000);
    now = 170_000;
    expect(silent(73_000)).to.equal(97_000);
  });

  it('counts as silent after a reading that was only slow, unless its publication was due then', () => {
    const pauses = new Pauses(() => now);
    read(pauses, 100_000, 101_000, false);
    now = 121_000;
    expect(pauses.silentMs(published(73_000))).to.equal(48_000);
    read(pauses, 100_000, 120_000, false);
    expect(pauses.silentMs(published(70_000))).to.equal(0);
  });
});
