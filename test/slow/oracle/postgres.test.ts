// The package against the model of test/oracle, on PostgreSQL.
import { checkStores } from '../../oracle/check.js';

describe('oracle on PostgreSQL', () => {
  // Two sites of each covering row.
  checkStores(['postgres'], 364);
});
