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

describe('the scripts of every set of policies and features', function () {
  this.timeout(600_000);

  const scriptsOfAll = (sets: readonly Kind[][]): Set<Script> =>
    new Set([
      ...sets.flatMap((kinds) => FEATURES.flatMap((features) => scriptsOf(kinds, features))),
      ...otherScripts(),
    ]);
  // The order of policies makes no difference for the compiler, because each policy has a block of its own.
  const sets = kindsUpTo(6);
  // Further policies of a kind add locals only to the script that charges every policy outright, which features do not make larger.
  const distinct = sets.filter((kinds) => new Set(kinds).size === kinds.length);

  it('are far from the bounds of Lua', () => {
    const scripts = scriptsOfAll(distinct);
    for (const kinds of sets) scripts.add(scriptsOf(kinds, FEATURES[0]!)[0]!);
    console.log(`    ${scripts.size} scripts, the largest: ${JSON.stringify(checkSizes(scripts))}`);
  });

  for (const kind of serverKinds)
    it(`are compiled by ${kind}`, async () => {
      // Valkey has the same compiler.
      const scripts = scriptsOfAll(kind === 'redis' ? sets : distinct);
      console.log(`    ${scripts.size} scripts`);
      expect(await loadScripts(clients[kind], scripts)).to.deep.equal([]);
    });
});
