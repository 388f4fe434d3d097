export {
  postgresSchema,
  postgresStore,
  type PostgresClient,
  type PostgresPool,
  type PostgresResult,
  type PostgresSchemaOptions,
  type PostgresStore,
  type PostgresStoreOptions,
} from './stores/postgres/postgres.js';
