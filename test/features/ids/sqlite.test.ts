import { join } from 'node:path';
import { checkIds } from './oracle.js';
import { runs } from '../../support/random.js';
import { makeDirectory, storeOn } from '../../support/sqlite.js';

describe('SQLite, request ids', () => {
  it('every answer and count is that of a plain list of charges', async () => {
    const directory = makeDirectory();
    let made = 0;
    const { numRuns } = runs('sqlite', 20, 20);
    await checkIds(
      (clock) => storeOn(join(directory, `${made++}.db`), { clock, synchronous: 'off' }),
      numRuns,
    );
  });
});
