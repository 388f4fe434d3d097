// The package against a model that was written from the documentation alone, on random sites. See docs/contributing/testing.md.
import { checkFound, checkStores, SQLITE } from './oracle/check.js';

const stores = ['memory', ...SQLITE, 'redis'];

describe('oracle', () => {
  checkFound(stores);
  // The quick tier plays half of them.
  checkStores(stores, 600);
});
