import type * as Core from '../../../src/index.js';
import type * as Express from '../../../src/http/adapters/express.js';
import type * as Fastify from '../../../src/http/adapters/fastify.js';
import type * as Redis from '../../../src/stores/redis/redis.js';
import type * as Fetch from '../../../src/fetch.js';
import type * as Sqlite from '../../../src/sqlite.js';

/** The package as it is published: built, not transformed on the fly. */
export const headgate = (dist: string) => import(`${dist}/esm/index.js`) as Promise<typeof Core>;
export const headgateRedis = (dist: string) => import(`${dist}/esm/redis.js`) as Promise<typeof Redis>;
export const headgateFetch = (dist: string) => import(`${dist}/esm/fetch.js`) as Promise<typeof Fetch>;
export const headgateSqlite = (dist: string) => import(`${dist}/esm/sqlite.js`) as Promise<typeof Sqlite>;
export const headgateExpress = (dist: string) => import(`${dist}/esm/express.js`) as Promise<typeof Express>;
export const headgateFastify = (dist: string) => import(`${dist}/esm/fastify.js`) as Promise<typeof Fastify>;
