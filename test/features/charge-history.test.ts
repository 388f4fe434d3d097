// The record of charges that were given back or reset, and the number of keys with such a record.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import { History, TableHistories } from '../../src/features/charge-history.js';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

describe('the record of a key’s charges', () => {
  it('a reset is over for charges of its step and before, and forgets the moves', () => {
    const history = new History();
    expect(history.isReset(1)).to.be.false;
    history.note({ from: 1, to: 3, amount: 5 });
    expect([0, 1, 3, 4].map((step) => history.shift(step))).to.deep.equal([0, 5, 5, 0]);
    history.reset(7);
    expect([6, 7, 8].map((step) => history.isReset(step))).to.deep.equal([true, true, false]);
    expect(history.shift(2)).to.equal(0);
    expect(history.save()).to.deep.equal([7]);
  });

  it('with more than 32 cells merges the two that differ least, which moves too much rather than too little', () => {
    const history = new History();
    history.note({ from: 10, to: 11, amount: 1 });
    history.note({ from: 5, to: 20, amount: 2 });
    expect([4, 5, 9, 10, 11, 12, 20, 21].map((step) => history.shift(step))).to.deep.equal([
      0, 2, 2, 3, 3, 2, 2, 0,
    ]);
    for (let i = 3; i < 100; i++) history.note({ from: 10 * i, to: 10 * i + 1, amount: 10 * i });
    expect(history.save()).to.have.length(1 + 2 * 32);
    expect([990, 980].map((step) => history.shift(step))).to.deep.equal([990, 980]);
    for (let i = 3; i < 100; i++) expect(history.shift(10 * i), String(i)).to.be.at.least(10 * i);
    const again = new History();
    again.load(history.save());
    expect(again.save()).to.deep.equal(history.save());
  });

  it('values that were never saved count as no record', () => {
    for (const saved of [[], [1, 2], [1, 2, 3, 4], ['x'], [1, 2, 'x']]) {
      const history = new History();
      history.load(saved);
      expect(history.save()).to.deep.equal([0]);
    }
  });

  it('stores no long key itself, and distinguishes long keys', () => {
    const histories = new TableHistories();
    const long = 'x'.repeat(200);
    const keys = [long, `${long}\ud800`, `${long}\udfff`, long.slice(0, 128)];
    const records = keys.map((key) => histories.open('policy', key, 0, 1));
    expect(new Set(records).size).to.equal(keys.length);
    expect(keys.map((key) => histories.find('policy', key))).to.deep.equal(records);
    gc();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 200; i++) histories.open('policy', 'x'.repeat(100_000) + i, 0, 1);
    gc();
    expect(process.memoryUsage().heapUsed - before).to.be.below(2 ** 21);
    expect(histories.find('policy', long)).to.equal(records[0]);
  });

  it('is kept for the last 1,000 keys, and for 100,000 while it is needed', () => {
    for (const [life, most] of [
      [0, 1000],
      [1, 100_000],
    ] as const) {
      const histories = new TableHistories();
      const open = (key: number) => histories.open('policy', String(key), 50, life);
      for (let key = 0; key < most; key++) open(key);
      const first = histories.find('policy', '0');
      expect(open(0)).to.equal(first);
      open(most);
      const isKnown = (key: number) => histories.find('policy', String(key)) !== undefined;
      expect([0, 1, 2, most].map(isKnown)).to.deep.equal([true, false, true, true]);
      expect(histories.find('other', '0')).to.be.undefined;
    }
  });
});
