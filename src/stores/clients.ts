import { HeadgateError, invalidOption } from '../errors.js';
import { IoredisCommands, type IoredisLike } from './clients/ioredis.js';
import { NodeRedisCommands, type NodeRedisLike } from './clients/node-redis.js';

/** The clients that `redisStore` takes: they are told apart by their methods. */
export type RedisClient = IoredisLike | NodeRedisLike;

/** Takes what came of a call, once: its reply, or an error and nothing else. */
export type Done = (error: Error | undefined, reply?: unknown) => void;

/** Is told that a call is being written, and returns its deadline. */
export type Written = () => string;

/** One server that holds keys. */
export interface Server {
  /** Tells it from the others of a cluster: `host:port`. */
  readonly name: string;
  /** Sends one command that concerns this server alone. */
  send(command: readonly string[]): Promise<unknown>;
}

/** Something about a client's options that puts limits at risk. */
export interface Hazard {
  readonly level: 'warning' | 'error';
  readonly message: string;
}

/** What the store needs of a client. Nothing here is sent before the client is ready, nor again after it has been written. */
export interface Commands {
  /** Whether the keys of one call must be in one slot. */
  readonly cluster: boolean;
  /** Puts what `send` sends on the wire in as few writes as it can. */
  together(send: () => void): void;
  /** Whether commands can be sent at once. */
  ready(): boolean;
  /** Resolves the next time that the client is ready. */
  whenReady(): Promise<void>;
  /** Resolves when the client is ready, if it is about to be. @throws HeadgateError `HEADGATE_STORE_AWAY` if not */
  connected(): Promise<void>;
  /** The servers that hold keys: of a cluster its primaries. */
  servers(): readonly Server[];
  /** The name of the server of a cluster that holds a key; undefined if there is no cluster, or the client is not ready. */
  serverOf(key: string): string | undefined;
  hazards(): Hazard[];
  /** `script` is a text, or its hash. `args[0]` is the call's deadline: what `written` returns, when the call is written. */
  run(
    command: 'eval' | 'evalsha',
    script: string,
    keys: readonly string[],
    args: string[],
    written: Written,
    done: Done,
  ): void;
}

/** One per client, however many stores use it: it listens to the client's events. */
const known = new WeakMap<RedisClient, Commands>();

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` if it has not the methods of a client that Headgate knows */
export function commandsOf(client: RedisClient): Commands {
  const existing = typeof client === 'object' && client !== null ? known.get(client) : undefined;
  if (existing) return existing;
  const commands = recognise(client);
  known.set(client, commands);
  return commands;
}

function recognise(client: RedisClient): Commands {
  const given = client as Partial<IoredisLike & NodeRedisLike> | null | undefined;
  if (typeof given?.evalsha === 'function' && typeof given.status === 'string')
    return new IoredisCommands(client as IoredisLike);
  if (typeof given?.evalSha !== 'function' || typeof given.isOpen !== 'boolean')
    throw invalidOption('redisStore: client', client, `Pass a client: ${ACCEPTED}.`);
  const isRecent = 'withCommandOptions' in given;
  // What stands for several connections to a server has no database of its own to select.
  if (isRecent && ('slots' in given || 'select' in given))
    return new NodeRedisCommands(client as NodeRedisLike);
  throw refusal(given);
}

const ACCEPTED =
  'new Redis(url) or new Cluster([...]) of ioredis or iovalkey, createClient() or createCluster() of redis';

/** The error for what has a client's methods, and would count requests twice or is not known not to. */
function refusal(client: object): HeadgateError {
  const why =
    'use' in client
      ? 'a client of createSentinel() sends a call again whose connection broke, so that requests would be counted twice. ' +
        'For Sentinel pass new Redis({ sentinels, name }) of ioredis or iovalkey.'
      : 'execute' in client
        ? 'a pool of createClientPool() holds calls back until one of its clients is free. Pass one createClient(): it takes any ' +
          'number of decisions at a time.'
        : !('withCommandOptions' in client)
          ? `redis 4 is too old. Install version 5 or later, or pass another client: ${ACCEPTED}.`
          : `this kind of client has not been tested for calls that are counted twice. Pass ${ACCEPTED}.`;
  return new HeadgateError('HEADGATE_INVALID_OPTION', `redisStore: client: ${why}`);
}
