import { expect } from 'chai';
import luaparse from 'luaparse';
import { algorithms, type Kernel } from '../../src/algorithms/index.js';
import { assemble, scriptNames, type Script } from '../../src/stores/redis/scripts.js';

const kernels = Object.keys(algorithms) as Kernel[];
const combinations = kernels.reduce<Kernel[][]>(
  (sets, kernel) => [...sets, ...sets.map((set) => [...set, kernel])],
  [[]],
);

/** The sets of algorithms that a script is assembled for. */
function setsOf(name: string): Kernel[][] {
  if (name === 'evaluate-single') return kernels.map((kernel) => [kernel]);
  return ['evaluate', 'adjust', 'lease'].includes(name) ? combinations : [[]];
}

describe('scripts', () => {
  it('are valid for every set of algorithms', () => {
    for (const name of scriptNames) {
      for (const set of setsOf(name)) {
        const { source } = assemble(name, set, name === 'evaluate' || name === 'set-ban' ? ['bans'] : []);
        luaparse.parse(source, { luaVersion: '5.1' });
      }
    }
  });

  it('are valid with their parts for usage, ids and thresholds', () => {
    // More sets would take many seconds, and their sections are the same.
    for (const set of combinations.filter(({ length }) => length <= 1 || length === kernels.length)) {
      for (const keyed of [[], ['bans', 'overrides']] as const) {
        for (const extras of [['usage'], ['ids'], ['thresholds'], ['ids', 'thresholds']] as const)
          luaparse.parse(assemble('evaluate', set, [...keyed, ...extras]).source, { luaVersion: '5.1' });
        for (const extras of [['ids'], ['thresholds'], ['ids', 'thresholds']] as const) {
          const adjust = assemble('adjust', set, [...keyed, ...extras]);
          luaparse.parse(adjust.source, { luaVersion: '5.1' });
          expect(adjust.source).not.to.match(/--|^ |\n\n/m);
        }
      }
    }
  });

  it('have no comments and no directives, which the server does not need', () => {
    for (const name of scriptNames) {
      const isLive = name.startsWith('evaluate') || name === 'adjust';
      const parts = [
        ...(name === 'evaluate' ? ['bans' as const] : []),
        ...(isLive ? ['overrides' as const] : []),
      ];
      for (const set of setsOf(name))
        expect(assemble(name, set, parts).source, name).not.to.match(/--|^ |\n\n/m);
    }
  });

  it('contain the parts of a ban, of overrides and of slots only with the feature', () => {
    const has = (script: Script, part: string): boolean => script.source.includes(part);
    const plain = assemble('evaluate', ['gcra']);
    const full = assemble('evaluate', ['gcra', 'concurrency'], ['bans', 'overrides']);
    for (const part of ['ban_strike', 'headgate_override', 'concurrency_release'])
      expect([has(plain, part), has(full, part)], part).to.deep.equal([false, true]);
  });

  it('are the same for all sets of the same algorithms; those that charge outright, in the same order', () => {
    expect(assemble('adjust', ['fixed-window', 'gcra', 'gcra'])).to.equal(
      assemble('adjust', ['gcra', 'fixed-window']),
    );
    const script = assemble('evaluate', ['gcra', 'fixed-window']);
    expect(assemble('evaluate', ['gcra', 'fixed-window'])).to.equal(script);
    expect(assemble('evaluate', ['fixed-window', 'gcra'])).not.to.equal(script);
    expect(assemble('evaluate', ['gcra', 'fixed-window'], ['bans'])).not.to.equal(script);
    const slots = assemble('evaluate', ['gcra', 'concurrency']);
    expect(assemble('evaluate', ['concurrency', 'gcra'])).to.equal(slots);
    expect(script.source).not.to.match(/sliding|concurrency/);
  });
});
