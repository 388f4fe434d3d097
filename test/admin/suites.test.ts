// The same expectations over memory, SQLite and Redis. test/slow/postgres/admin.test.ts has them over PostgreSQL.
import { adminSuite } from './admin-suite.js';
import { severalBansSuite } from './several-bans-suite.js';
import { places } from './stores.js';
import { undoSuite } from './undo-suite.js';

for (const [kind, open] of Object.entries(places)) {
  adminSuite(kind, open);
  severalBansSuite(kind, open);
  undoSuite(kind, open);
}
