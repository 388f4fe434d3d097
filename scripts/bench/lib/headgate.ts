import type * as Core from '../../../src/index.js';
import type * as Redis from '../../../src/stores/redis.js';

/** The package as it is published: built, not transformed on the fly. */
export const headgate = (dist: string) => import(`${dist}/index.js`) as Promise<typeof Core>;
export const headgateRedis = (dist: string) => import(`${dist}/stores/redis.js`) as Promise<typeof Redis>;
