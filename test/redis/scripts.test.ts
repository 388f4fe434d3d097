import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import luaparse from 'luaparse';
import { composeScripts, GENERATED } from '../../scripts/lib/lua.mjs';
import { algorithms, type Kernel } from '../../src/algorithms/index.js';
import { lua } from '../../src/stores/redis/generated/lua.js';
import { assemble, type ScriptName } from '../../src/stores/redis/scripts.js';

const names = Object.keys(lua) as ScriptName[];
const kernels = Object.keys(algorithms) as Kernel[];
const combinations = kernels.reduce<Kernel[][]>(
  (sets, kernel) => [...sets, ...sets.map((set) => [...set, kernel])],
  [[]],
);

/** The algorithms whose state is one counter. */
const COUNTERS: readonly Kernel[] = ['fixed-window', 'calendar'];

/** Every script that a store may run. */
const scripts = names.flatMap((name) => {
  const { algorithms } = lua[name] as { algorithms: Partial<Record<Kernel | 'ban', string>> };
  const sets = combinations.filter((set) => set.every((kernel) => algorithms[kernel] !== undefined));
  const most = name === 'evaluate-single' ? 1 : kernels.length;
  return sets
    .filter(({ length }) => length <= most)
    .flatMap((set) => [false, ...(algorithms.ban ? [true] : [])].map((ban) => ({ name, set, ban })));
});

describe('scripts', () => {
  it('are those that the Lua files compose to', async () => {
    expect(readFileSync(GENERATED, 'utf8')).to.equal((await composeScripts()).module);
  });

  it('are valid, and declare no function that they do not use', () => {
    expect(scripts.length).to.be.greaterThan(100);
    for (const { name, set, ban } of scripts) {
      const { source } = assemble(name, set, ban);
      luaparse.parse(source, { luaVersion: '5.1' });
      const words = source.match(/\w+/g)!;
      for (const [, declared] of source.matchAll(/^(?:local )?function ([\w.]+)/gm)) {
        // What algorithms share, scripts have even if none of their algorithms uses it: the state of slots is no string, and few are counters.
        if (declared === 'headgate_set' && set.every((kernel) => kernel === 'concurrency')) continue;
        if (declared === 'headgate_recount' && !set.some((kernel) => COUNTERS.includes(kernel))) continue;
        const uses = words.filter((word) => word === declared!.split('.').at(-1)).length;
        expect(uses, `${name} for ${set.join()}${ban ? ' and bans' : ''}: ${declared}`).to.be.greaterThan(1);
      }
    }
  });

  it('are one for all sets of the same algorithms', () => {
    const script = assemble('evaluate', ['gcra', 'fixed-window'], false);
    expect(assemble('evaluate', ['fixed-window', 'gcra', 'gcra'], false)).to.equal(script);
    expect(assemble('evaluate', ['fixed-window', 'gcra'], true)).not.to.equal(script);
    expect(script.source).not.to.match(/sliding|concurrency/);
  });
});
