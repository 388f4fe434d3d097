// Imports point one way: adapters -> http -> limiter -> stores -> algorithms.
const adapters =
  '^src/(express|fastify|nestjs|decorators|testing|index|http|opentelemetry|stores|compat/[^/]+)\\.ts$';
/** What an adapter under compat/, that of NestJS, or the kit for tests, consists of, besides its entry. */
const parts = '^src/(compat/[^/]+|testing|nestjs)/';
/** The kit for tests, which a service does not load. */
const testing = '^src/testing(/|\\.ts$)';
/** The command line: a program of its own, bundled with what it uses. */
const cli = '^src/cli/';
const http = '^src/http/';
const limiter = '^src/limiter\\.ts$';
const stores = '^src/stores/';
const algorithms = '^src/algorithms/';

/**
 * @param {string} name
 * @param {string} from
 * @param {string[]} above
 * @returns {import('dependency-cruiser').IForbiddenRuleType}
 */
const noneAbove = (name, from, above) => ({
  name: `${name}-import-nothing-above`,
  severity: 'error',
  from: { path: from },
  to: { path: above },
});

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    {
      name: 'no-cycles',
      comment: 'Of modules as they are loaded: types may refer to each other.',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    noneAbove('algorithms', algorithms, [stores, limiter, http, adapters, parts]),
    noneAbove('stores', stores, [limiter, http, adapters, parts]),
    noneAbove('limiter', limiter, [http, adapters, parts]),
    noneAbove('http', http, [adapters, parts]),
    noneAbove('parts-of-adapters', parts, [adapters]),
    {
      name: 'nothing-imports-the-command-line',
      severity: 'error',
      from: { path: '^src/', pathNot: cli },
      to: { path: cli },
    },
    {
      name: 'nothing-imports-the-kit-for-tests',
      severity: 'error',
      from: { path: '^src/', pathNot: testing },
      to: { path: testing },
    },
    {
      name: 'adapters-stand-alone',
      severity: 'error',
      from: { path: adapters },
      to: { path: adapters },
    },
    {
      name: 'frameworks-only-in-their-adapter',
      severity: 'error',
      from: { path: '^src/', pathNot: [adapters, parts] },
      to: { path: 'node_modules/((@types/)?(express|fastify)|@nestjs)' },
    },
    {
      name: 'node-responses-behind-their-port',
      comment: 'The request flow knows no response of Node: frameworks on web standards use it, too.',
      severity: 'error',
      from: { path: http, pathNot: 'src/http/(node|web)-response\\.ts$' },
      to: { path: '^(node:)?(http|http2|stream)$' },
    },
    {
      name: 'express-or-fastify',
      severity: 'error',
      from: { path: '^src/express\\.ts$' },
      to: { path: 'node_modules/fastify' },
    },
    {
      name: 'fastify-or-express',
      severity: 'error',
      from: { path: '^src/fastify\\.ts$' },
      to: { path: 'node_modules/(@types/)?express' },
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
      from: { path: [adapters, parts, http, limiter], pathNot: '^src/compat/fastify-rate-limit' },
      to: { path: '^src/stores/redis\\.ts$|^src/generated/', reachable: true },
    },
    {
      name: 'declared',
      comment:
        'What the package imports at run time, its users get: a dependency or a peer. The command line is bundled: it ships ' +
        'what it uses.',
      severity: 'error',
      from: { path: '^src/', pathNot: cli },
      to: {
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'unknown', 'undetermined'],
        dependencyTypesNot: ['type-only', 'npm-peer'],
      },
    },
    { name: 'resolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.build.json' },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: { conditionNames: ['import', 'require', 'node', 'default', 'types'] },
  },
};
