import { checkIds } from './oracle.js';
import { runs } from '../../support/random.js';
import { stores } from '../../support/stores.js';

for (const [name, createStore] of Object.entries(stores)) {
  it(`request ids, on ${name}: every answer and count is that of a plain list of charges`, async () => {
    await checkIds(createStore, runs(name, 200, 15).numRuns);
  });
}
