// The package against the model of test/oracle, on every store.
import { checkStores } from '../oracle/check.js';
import { SUBJECTS } from '../oracle/subjects.js';

describe('oracle on all stores', () => {
  // npm test plays memory and Redis. Two sites of each covering row.
  checkStores(
    SUBJECTS.filter((store) => store !== 'memory' && store !== 'redis'),
    364,
  );
});
