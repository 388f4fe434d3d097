import { expect } from 'chai';
import luaparse from 'luaparse';
import { algorithms, type Kernel } from '../../src/algorithms/index.js';
import { luaFiles } from '../../src/stores/redis/lua-files.js';
import { assemble, scriptNames } from '../../src/stores/redis/scripts.js';

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
        const { source } = assemble(name, set, name === 'evaluate' || name === 'set-ban');
        luaparse.parse(source, { luaVersion: '5.1' });
      }
    }
  });

  it('have no comments, which the server does not need', () => {
    for (const [file, parts] of Object.entries(luaFiles))
      for (const text of Object.values(parts)) expect(text, file).not.to.match(/--|^ |\n\n/m);
  });

  it('are the same for all sets of the same algorithms', () => {
    const script = assemble('evaluate', ['gcra', 'fixed-window'], false);
    expect(assemble('evaluate', ['fixed-window', 'gcra', 'gcra'], false)).to.equal(script);
    expect(assemble('evaluate', ['fixed-window', 'gcra'], true)).not.to.equal(script);
    expect(script.source).not.to.match(/sliding|concurrency/);
  });
});
