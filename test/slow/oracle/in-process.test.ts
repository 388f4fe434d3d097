// The package against the model of test/oracle, on the stores of this process. npm test plays memory.
import { checkStores } from '../../oracle/check.js';
import { SERVED, SUBJECTS } from '../../oracle/subjects.js';

describe('oracle in the process', () => {
  // Two sites of each covering row.
  checkStores(
    SUBJECTS.filter((store) => store !== 'memory' && !SERVED.includes(store)),
    364,
  );
});
