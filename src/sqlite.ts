export {
  sqliteStore,
  type SqliteDatabase,
  type SqliteStatement,
  type SqliteStoreOptions,
  type Synchronous,
} from './stores/sqlite/sqlite.js';
