import type { RedisClient } from '../../stores/clients.js';
import { CliError, failure, usageError } from '../errors.js';
import { showAddress, type Address } from './address.js';
import { openIoredis } from './ioredis.js';
import { openNodeRedis } from './node-redis.js';
import { loadPackage } from './packages.js';
import { within } from './within.js';

/** One server that holds keys. */
export interface Node {
  /** Sends one command that concerns this server alone. */
  send(command: readonly string[]): Promise<unknown>;
}

/** What the commands need of a client beyond what the store does with it. */
export interface Connection {
  readonly client: RedisClient;
  /** The servers that hold keys: of a cluster its primaries. */
  nodes(): Promise<readonly Node[]>;
  /** ms; -1: the key does not expire, -2: there is none. */
  pttl(key: string): Promise<number>;
  del(key: string): Promise<unknown>;
  close(): void;
}

/** How to connect. */
export interface Target {
  readonly address: Address;
  readonly cluster: boolean;
  /** The name by which sentinels know the primary; `address` is then a sentinel's. */
  readonly sentinel: string | undefined;
  /** How long to wait for an answer, ms. */
  readonly timeout: number;
}

/**
 * Connects with the first client package that is there.
 *
 * @throws CliError `UNREACHABLE`, `FAILED`, `USAGE`: what is the matter with the server
 */
export async function connect(target: Target, cwd: string): Promise<Connection> {
  const { address, cluster, sentinel } = target;
  if (cluster && address.database !== 0) {
    throw usageError('--redis: a cluster has only database 0. Write the URL without a number at its end.');
  }
  if (cluster && sentinel !== undefined) {
    throw usageError(
      '--sentinel and --cluster: sentinels watch servers without a cluster. Write one of them.',
    );
  }
  const { name, module } = loadPackage(cwd, sentinel === undefined ? undefined : ['ioredis', 'iovalkey']);
  const open = name === 'redis' ? openNodeRedis : openIoredis;
  const connection = await open(module, target);
  try {
    if (!cluster) await within(target, refuseClusterNode(connection));
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** A node of a cluster shows, and takes, a part of the keys only. */
async function refuseClusterNode(connection: Connection): Promise<void> {
  const [node] = await connection.nodes();
  let info: unknown;
  try {
    info = await node?.send(['INFO', 'cluster']);
  } catch {
    // Not everybody may, and not every proxy can: then commands will tell.
  }
  if (/cluster_enabled:1/.test(String(info))) throw notACluster();
}

function notACluster(): CliError {
  return usageError('--redis: this server is a node of a cluster. Add --cluster.');
}

const NETWORK =
  /ECONN|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|EPIPE|Connection is closed|Socket closed|SocketClosed|TLS|certificate|All sentinels are unreachable|startup nodes|refresh slots|Connection timeout/i;

/** What a user can do about an error of a server or of its client. */
const REMEDIES: readonly [RegExp, string][] = [
  [/^NOAUTH|NOAUTH Auth/, 'The server wants a password: redis://:password@host:port, or user:password@.'],
  [/WRONGPASS|invalid password|invalid username/i, 'The server refuses the user or the password.'],
  [/NOPERM/, "The user may not do that: see which commands and keys the server's ACL gives it."],
  [
    /ERR Client sent AUTH|AUTH .*without any password/i,
    'The server has no password: leave it out of the URL.',
  ],
  [/DB index|invalid DB/i, 'The server has no database of that number.'],
  [/READONLY/, 'The server is a replica: name its primary.'],
  [/cluster support disabled|cluster slots/i, 'The server is not a cluster: leave --cluster out.'],
  [/Unknown Redis command called from script/i, 'Headgate needs Redis 7.0 or later, or Valkey.'],
];

/** Puts what a client or a server failed with in words that help. */
export function explain(error: unknown, { address }: Target): unknown {
  if (!(error instanceof Error) || error instanceof CliError) return error;
  const text = textsOf(error).join(': ');
  if (/^MOVED|^CROSSSLOT/.test(error.message)) return notACluster();
  const remedy = REMEDIES.find(([symptom]) => symptom.test(text))?.[1];
  if (remedy !== undefined) return failure(`${showAddress(address)}: ${error.message}. ${remedy}`, error);
  if (!NETWORK.test(text)) return error;
  const message = `${showAddress(address)} cannot be reached: ${text}. Is the URL right, and the server up?`;
  return new CliError('UNREACHABLE', message, error);
}

/** The messages of an error and of what led to it, each once. */
function textsOf(error: unknown): string[] {
  const texts = new Set<string>();
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    // Several addresses were tried.
    const tried = at instanceof AggregateError ? at.errors.map(String) : [at.message];
    for (const text of tried) if (text !== '') texts.add(text.replace(/^Error: /, ''));
  }
  return [...texts];
}
