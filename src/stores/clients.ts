import { invalidOption } from '../errors.js';

/** What `redisStore` takes of an ioredis `Redis` or `Cluster` (5 or 6), or of iovalkey's. */
export interface IoredisLike {
  readonly status: string;
  evalsha(sha: string, keyCount: number, ...args: string[]): Promise<unknown>;
  eval(source: string, keyCount: number, ...args: string[]): Promise<unknown>;
}

/** The two commands that the store needs, whatever the client. */
export interface Commands {
  evalsha(sha: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  eval(source: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` if it has not the methods of a client that Headgate knows */
export function commandsOf(client: IoredisLike): Commands {
  if (typeof (client as Partial<IoredisLike> | null)?.evalsha !== 'function') {
    throw invalidOption(
      'redisStore: client',
      client,
      'Pass an ioredis client: new Redis(url) or new Cluster([...]).',
    );
  }
  return {
    evalsha: (sha, keys, args) => client.evalsha(sha, keys.length, ...keys, ...args),
    eval: (source, keys, args) => client.eval(source, keys.length, ...keys, ...args),
  };
}
