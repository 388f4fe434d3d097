// Imports point one way: down these floors. Types count as well.
const floors = [
  '^src/common/',
  '^src/algorithms/',
  '^src/(contract|features/[^/]+/contract)/',
  '^src/(features/(?![^/]+/contract/)|stores/)',
  '^src/limiter/',
  '^src/(http|telemetry)/',
  '^src/(compat|testing)/[^/]+/|^src/(testing|admin)/',
  '^src/([^/]+|compat/[^/]+)\\.ts$',
];
/** The doors of the package: each re-exports what its sub-path offers. */
const doors = '^src/([^/]+|compat/[^/]+)\\.ts$';
/** The clock for tests, which a service does not load. */
const testing = '^src/testing(/|\\.ts$)';
/** The interface for operators, which works on every store. */
const admin = '^src/admin(/|\\.ts$)';
const stores = '^src/stores/';
const redis = '^src/stores/redis/';
const adapters = '^src/http/adapters/';

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    ...floors.slice(0, -1).map((floor, i) => ({
      name: `floor-${i + 1}-imports-nothing-above`,
      severity: /** @type {const} */ ('error'),
      from: { path: floor, pathNot: doors },
      to: { path: floors.slice(i + 1).join('|') },
    })),
    {
      name: 'doors-only-from-outside',
      comment: 'Nothing in src/ comes in by a door.',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: doors },
    },
    {
      name: 'nothing-imports-the-clock-for-tests',
      severity: 'error',
      from: { path: '^src/', pathNot: testing },
      to: { path: testing },
    },
    {
      name: 'packages-by-public-entry-points',
      comment: 'The other packages of the repository import headgate as its users do.',
      severity: 'error',
      from: { path: '^packages/' },
      to: { path: '^src/', pathNot: doors },
    },
    {
      name: 'headgate-stands-alone',
      comment:
        'headgate imports no other package of the repository, and these do not import each other. The command line serves the dashboard.',
      severity: 'error',
      from: { path: '^(src|packages/[^/]+)/' },
      to: { path: '^packages/', pathNot: ['^$1/', '^packages/dashboard/src/index\\.ts$'] },
    },
    {
      name: 'dashboard-only-from-the-command-line',
      severity: 'error',
      from: { path: '^(src|packages/(?!cli/|dashboard/))' },
      to: { path: '^packages/dashboard/' },
    },
    {
      name: 'features-below-stores',
      comment:
        'A feature knows the notation of keys and the log, and no store. Every store knows the features.',
      severity: 'error',
      from: { path: '^src/features/' },
      to: { path: '^src/stores/[^/]+/' },
    },
    {
      name: 'stores-stand-alone',
      comment: 'The stores share the state of a key and the counts, and know nothing of each other.',
      severity: 'error',
      from: { path: '^src/stores/(memory|redis|sqlite|postgres|state)/' },
      to: {
        path: stores,
        pathNot: ['^src/stores/$1/', '^src/stores/[^/]+\\.ts$', '^src/stores/(state|memory|counts)/'],
      },
    },
    {
      name: 'adapters-stand-alone',
      severity: 'error',
      from: { path: '^src/http/', pathNot: adapters },
      to: { path: adapters },
    },
    {
      name: 'frameworks-only-in-their-adapter',
      severity: 'error',
      from: { path: '^src/', pathNot: [adapters, '^src/compat/', doors] },
      to: { path: 'node_modules/(@types/)?(express|fastify|@nestjs|hono|koa)' },
    },
    {
      name: 'node-responses-behind-their-port',
      comment: 'The request flow knows no response of Node: frameworks on web standards use it, too.',
      severity: 'error',
      from: { path: '^src/http/', pathNot: [adapters, 'src/http/(node|web)-response\\.ts$'] },
      to: { path: '^(node:)?(http|http2|stream)$' },
    },
    {
      name: 'express-or-fastify',
      severity: 'error',
      from: { path: `${adapters}express\\.ts$` },
      to: { path: 'node_modules/fastify' },
    },
    {
      name: 'fastify-or-express',
      severity: 'error',
      from: { path: `${adapters}fastify\\.ts$` },
      to: { path: 'node_modules/(@types/)?express' },
    },
    {
      name: 'hono-koa-and-web-alone',
      severity: 'error',
      from: { path: `${adapters}(hono|koa|web)\\.ts$` },
      to: { path: 'node_modules/(@types/)?(express|fastify|@nestjs)' },
    },
    {
      name: 'redis-clients-by-shape',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: 'node_modules/(ioredis|redis|@redis|iovalkey)' },
    },
    {
      name: 'redis-only-on-request',
      comment:
        'Who keeps state in memory does not load the Redis store and its scripts. That of @fastify/rate-limit takes a ' +
        'client as an option of the plugin, and so has the store at hand.',
      severity: 'error',
      from: {
        path: '^src/',
        pathNot: ['^src/compat/fastify-rate-limit', redis, '^src/(redis|upstash)\\.ts$', admin],
      },
      to: { path: redis, reachable: true },
    },
    {
      name: 'sqlite-only-on-request',
      severity: 'error',
      from: { path: '^src/', pathNot: ['^src/stores/sqlite/', '^src/sqlite\\.ts$', admin] },
      to: { path: '^src/stores/sqlite/', reachable: true },
    },
    {
      name: 'postgres-only-on-request',
      severity: 'error',
      from: { path: '^src/', pathNot: ['^src/stores/postgres/', '^src/postgres\\.ts$', admin] },
      to: { path: '^src/stores/postgres/', reachable: true },
    },
    {
      name: 'postgres-clients-by-shape',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: 'node_modules/(@types/)?pg' },
    },
    {
      name: 'declared',
      comment: 'What a package imports at run time, its users get: a dependency or a peer.',
      severity: 'error',
      from: { path: '^(src|packages/[^/]+/src)/' },
      to: {
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'unknown', 'undetermined'],
        dependencyTypesNot: ['type-only', 'npm-peer'],
      },
    },
    { name: 'resolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: { conditionNames: ['import', 'require', 'node', 'default', 'types'] },
  },
};
