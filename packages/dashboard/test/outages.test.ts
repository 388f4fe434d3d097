// Past outages of the store on the page, apart from late answers.
import { expect } from 'chai';
import { outagesIn, outageTime } from '../src/page/outages.js';

const MINUTE = 60_000;

/** Counts of some minutes: decisions, and those without the store: late, unreachable, unanswered. */
function countsOf(
  rows: readonly (readonly [decisions: number, late: number, unreachable: number, unanswered: number])[],
) {
  const minutes = rows.map((_, i) => i * MINUTE);
  const column = (at: 0 | 1 | 2 | 3): number[] => rows.map((row) => row[at]);
  const degraded = rows.map(([, late, unreachable, unanswered]) => late + unreachable + unanswered);
  return outagesIn(minutes, {
    ...{ admitted: column(0), denied: rows.map(() => 0), degraded },
    ...{ unreachable: column(2), unanswered: column(3) },
  });
}

const timeText = (outage: Parameters<typeof outageTime>[0], isDown = false, length = MINUTE): string =>
  outageTime(outage, { length, end: 20 * MINUTE, isDown }, (at) => String(at / MINUTE));

describe('past outages of the page', () => {
  it('have a start, an end, a cause and decisions, and late answers are apart', () => {
    const { outages, late } = countsOf([
      [100, 2, 0, 0],
      [100, 5, 60, 0],
      [100, 0, 100, 0],
      [100, 3, 0, 0],
      [100, 0, 0, 0],
      [100, 0, 0, 80],
    ]);
    expect(outages.map(({ from, to, sum }) => [from / MINUTE, to / MINUTE, sum])).to.deep.equal([
      [1, 3, 165],
      [5, 6, 80],
    ]);
    expect(outages.map(({ cause }) => cause)).to.deep.equal([
      'it could not be reached, or failed',
      'it did not answer in time',
    ]);
    expect(late).to.equal(5);
  });

  it('are apart by their causes, and one only if the store did not answer in between', () => {
    const texts = (rows: Parameters<typeof countsOf>[0]) =>
      countsOf(rows).outages.map((each) => `${timeText(each)}: ${each.cause}, ${each.sum}`);
    // Frozen over the end of a minute, up for more than a minute, and then killed.
    expect(
      texts([
        [1000, 0, 0, 400],
        [1000, 0, 0, 100],
        [1000, 0, 600, 0],
      ]),
    ).to.deep.equal([
      'Was down in the minutes of 0 and 1: it did not answer in time, 500',
      'Was down in the minute of 2: it could not be reached, or failed, 600',
    ]);
    // Some late answers, and an outage in the next minutes.
    expect(
      texts([
        [1000, 0, 0, 7],
        [1000, 0, 0, 200],
        [1000, 0, 0, 90],
      ]),
    ).to.deep.equal(['Was down at times in the minutes of 0 to 2: it did not answer in time, 297']);
    expect(
      texts([
        [1000, 0, 400, 0],
        [900, 0, 900, 0],
        [1000, 0, 20, 0],
      ]),
    ).to.deep.equal(['Was down from the minute of 0 to that of 2: it could not be reached, or failed, 1320']);
    const several = { from: 10 * MINUTE, to: 20 * MINUTE, isOne: false };
    expect(timeText(several, true)).to.equal('Down, and at times since 10');
    expect(timeText(several, false, 5 * MINUTE)).to.equal('Was down at times between 10 and 20');
  });

  it('are none if only single answers were late', () => {
    expect(
      countsOf([
        [1000, 12, 0, 0],
        [1000, 1, 0, 0],
      ]),
    ).to.deep.equal({ outages: [], late: 13 });
  });

  it('are seen in counts of earlier versions, without a cause, if most decisions were without the store', () => {
    const { outages, late } = countsOf([
      [100, 90, 0, 0],
      [100, 10, 0, 0],
    ]);
    expect(outages.map(({ cause }) => cause)).to.deep.equal(['the cause was not recorded']);
    expect(late).to.equal(10);
  });

  it('have an end as soon as the store is up, by the minute', () => {
    const textOf = (from: number, to: number, isDown: boolean, length = MINUTE) =>
      timeText({ from: from * MINUTE, to: to * MINUTE, isOne: true }, isDown, length);
    expect(textOf(19, 20, true)).to.equal('Down since 19');
    expect(textOf(19, 20, false)).to.equal('Was down in the minute of 19');
    expect(textOf(16, 20, false)).to.equal('Was down from the minute of 16 to that of 19');
    // The store is down again.
    expect(textOf(4, 5, true)).to.equal('Was down in the minute of 4');
    expect(textOf(10, 20, false, 10 * MINUTE)).to.equal('Was down between 10 and 20');
  });
});
