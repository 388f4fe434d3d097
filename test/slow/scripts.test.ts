import { expect } from 'chai';
import type { Script } from '../../src/stores/redis/scripts.js';
import {
  checkSizes,
  FEATURES,
  kindsUpTo,
  loadScripts,
  otherScripts,
  scriptsOf,
  type Kind,
} from '../support/script-sets.js';
import { serverKinds } from '../support/shared-servers.js';
import { clients } from '../support/stores.js';

/** The most policies of a set. */
const MOST_POLICIES = 6;

describe('the scripts of every set of policies and features', function () {
  this.timeout(600_000);

  const scriptsOfAll = (sets: readonly Kind[][], features = FEATURES): Script[] =>
    sets.flatMap((kinds) => features.flatMap((each) => scriptsOf(kinds, each)));
  // The order of policies makes no difference for the compiler, because each policy has a block of its own.
  const sets = kindsUpTo(MOST_POLICIES);
  const distinct = sets.filter((kinds) => new Set(kinds).size === kinds.length);
  // Each kind beside each two others, and beside as many others as fit.
  const neighbours = distinct.filter(({ length }) => length <= 3 || length === MOST_POLICIES);
  // Further policies of a kind add locals only to the script that charges every policy outright, which features do not make larger.
  const largest = (): Script[] =>
    sets.filter(({ length }) => length === MOST_POLICIES).map((kinds) => scriptsOf(kinds, FEATURES[0]!)[0]!);

  it('are far from the bounds of Lua', () => {
    const scripts = new Set([...scriptsOfAll(neighbours), ...otherScripts(), ...largest()]);
    console.log(`    ${scripts.size} scripts, the largest: ${JSON.stringify(checkSizes(scripts))}`);
  });

  for (const kind of serverKinds)
    it(`are compiled by ${kind}`, async () => {
      // Valkey has the same compiler. Between no features and all, a script has a part of the lines of the script with all.
      const [none, all] = [FEATURES[0]!, FEATURES.at(-1)!];
      const scripts = new Set(
        kind === 'redis'
          ? [...scriptsOfAll(distinct), ...scriptsOfAll(sets, [none, all]), ...otherScripts()]
          : [...scriptsOfAll(neighbours), ...otherScripts(), ...largest()],
      );
      console.log(`    ${scripts.size} scripts`);
      expect(await loadScripts(clients[kind], scripts)).to.deep.equal([]);
    });
});
