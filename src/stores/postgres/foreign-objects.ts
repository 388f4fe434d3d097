import { DOCS } from '../../common/errors.js';

const isOf = (value: unknown, names: readonly string[]): boolean =>
  ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
  names.every((name) => name in value);

/** Objects of other libraries: the members by which each is known, and the advice. `docs/postgres.md` explains each. */
const FOREIGN_OBJECTS: readonly [library: string, members: readonly string[], advice: string][] = [
  ['Knex', ['raw', 'schema', 'client'], 'new Pool({ ...knex.client.connectionSettings, max: 2 })'],
  [
    'Sequelize',
    ['connectionManager', 'define', 'config'],
    'a Pool with the host, port, database, username as `user` and password of `sequelize.config`',
  ],
  ['Drizzle', ['$client', 'select'], 'db.$client of drizzle-orm/node-postgres'],
  ['Prisma', ['$connect', '$transaction'], 'the Pool that you pass to PrismaPg'],
  ['postgres.js', ['unsafe', 'begin', 'listen'], 'postgresJsPool(sql), a function of the docs'],
  ['PGlite', ['waitReady', 'exec'], 'pglitePool(db), a function of the docs'],
];

/** The advice for a value that is not a pool. An object of another library has a pool, or the settings of one. */
export function foreignObjectText(value: unknown): string {
  const found = FOREIGN_OBJECTS.find(([, members]) => isOf(value, members));
  if (!found) return "Pass a pool: new Pool() of the package 'pg'.";
  const [library, , advice] = found;
  const page = `${DOCS}/postgres.md#knex-sequelize-drizzle-prisma-postgresjs-and-pglite`;
  return `This is an object of ${library}, not a pool of 'pg'. Pass ${advice} (${page})`;
}
