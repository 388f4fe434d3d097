// Unknown names of laws and algorithms, whose checks would be missing without an error.
import { expect } from 'chai';
import { memoryStore, type Algorithm } from 'headgate';
import { contractChecks, identityChecks, lawChecks, type Law, type StoreUnderTest } from 'headgate-testing';

const subject: StoreUnderTest = { createStore: (clock) => memoryStore({ clock }) };

describe('unknown names', () => {
  it('lawChecks refuses an unknown law, and names the laws', () => {
    expect(() => lawChecks(subject, ['law 99' as Law])).to.throw(
      RangeError,
      /^laws: 'law 99' .*'law 1, bound'/,
    );
  });

  it('all suites refuse an unknown algorithm, and name the algorithms', () => {
    for (const checks of [contractChecks, lawChecks, identityChecks])
      expect(() => checks({ ...subject, algorithms: ['nope' as Algorithm] })).to.throw(
        RangeError,
        /^algorithms: 'nope' .*'fixed-window'/,
      );
  });
});
