// The package against a model that was written from the documentation alone, on random sites. See docs/contributing/testing.md.
import { checkStores, SQLITE } from './oracle/check.js';

describe('oracle', () => {
  // The quick tier plays half of them.
  checkStores(['memory', ...SQLITE, 'redis'], 600);
});
