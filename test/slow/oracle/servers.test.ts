// The package against the model of test/oracle, on servers with the scripts that npm test plays on Redis.
import { checkStores } from '../../oracle/check.js';
import { SERVED } from '../../oracle/subjects.js';

describe('oracle on other servers with Lua', () => {
  // A site of each covering row, because the scripts are the same.
  checkStores(
    SERVED.filter((store) => store !== 'redis' && store !== 'postgres'),
    182,
    1,
  );
});
