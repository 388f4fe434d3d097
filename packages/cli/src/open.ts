import {
  createAdmin,
  faultOfSecret,
  exactMilliseconds,
  type Admin,
  type AdminOptions,
  type AdminSource,
} from 'headgate/admin';
import type { Options as Shared } from './command.js';
import { orUsage, usageError } from './errors.js';
import { readText, warn, type Io } from './io.js';
import { parseAddress, type Target } from './redis/address.js';
import { connect, explain, type Connected } from './redis/connection.js';
import { withFile } from './sqlite/file.js';

type Options = Omit<Shared, 'name'>;

/** An environment variable, because every user of a machine can see arguments. */
const VARIABLE = 'HEADGATE_HASH_KEYS';

/**
 * Uses the state that the options name: a client or a database, with the options for `createAdmin`.
 *
 * @param connectMs the time in which the server was connected and answered, ms
 */
type Use = (source: AdminSource, settings: AdminOptions, connectMs: number) => Promise<void>;

/** Opens the state that the options name, and closes it when `use` has ended. @throws CliError of the connection, or an explained error of `use` */
export const withAdmin = (options: Options, io: Io, use: (admin: Admin) => Promise<void>): Promise<void> =>
  withState(options, io, (source, settings) => use(createAdmin(source, settings)));

/** Like `withAdmin`, with the warnings about the name of the limiter. */
export const withNamed = (
  options: Options & Pick<Shared, 'name'>,
  io: Io,
  use: (admin: Admin) => Promise<void>,
): Promise<void> =>
  withAdmin(options, io, async (admin) => {
    const { name } = options;
    if (name !== undefined) warn(io, (await admin.limiters({ name })).warnings);
    await use(admin);
  });

/** Like `withAdmin`, for commands that need the state itself. @param reconnects whether a lost connection is opened again */
export async function withState(options: Options, io: Io, use: Use, reconnects = false): Promise<void> {
  const { sqlite, redis, cluster, sentinel, prefix } = options;
  if (sqlite === undefined) return withServer(options, io, use, reconnects);
  if (redis !== undefined || cluster || sentinel !== undefined)
    throw usageError(
      '--sqlite names a file, and --redis, --cluster and --sentinel a server. Pass one of them.',
    );
  if (prefix !== undefined)
    throw usageError('--prefix: a file of SQLite has no prefix. Omit --prefix, or pass --redis.');
  const settings = { ...secretOf(options, io), timeout: timeoutOf(options), from: 'cli' } as const;
  await withFile(sqlite, io, async (database) => use(database, settings, 0));
}

async function withServer(options: Options, io: Io, use: Use, reconnects = false): Promise<void> {
  const target = { ...targetOf(options, io), reconnects };
  const { prefix = 'hg' } = options;
  checkPrefix(prefix);
  const settings = { prefix, ...secretOf(options, io), timeout: target.timeout, from: 'cli' } as const;
  let connection: Connected | undefined;
  try {
    connection = await connect(target, io.cwd);
    await use(connection.client, settings, connection.connectMs);
  } catch (error) {
    throw explain(error, target);
  } finally {
    connection?.close();
  }
}

function targetOf(options: Options, { env }: Io): Target {
  const { redis, cluster = false, sentinel } = options;
  const url = redis ?? env.REDIS_URL;
  if (url === undefined || url === '') {
    throw usageError(
      '--redis: missing. Pass --redis redis://127.0.0.1:6379, set REDIS_URL, or pass --sqlite with the file of a sqliteStore.',
    );
  }
  return { address: parseAddress(url), cluster, sentinel, timeout: timeoutOf(options) };
}

/** The time limit for an answer, ms. @throws CliError `USAGE` */
export function timeoutOf({ timeout }: Options): number {
  return orUsage(
    () => exactMilliseconds('--timeout', timeout, { most: 60_000 }),
    () =>
      `--timeout: ${JSON.stringify(timeout)} is not a time from 1ms to 1m. Pass a time such as 500ms or 10s.`,
  );
}

function checkPrefix(prefix: string): void {
  if (!/^[\x21-\x7a\x7c\x7e]{1,64}$/.test(prefix)) {
    throw usageError(
      '--prefix: pass 1 to 64 printable ASCII characters without braces, as in redisStore({ prefix }).',
    );
  }
}

/** The limiters' secret for hashing keys, if any. A file may end with a line feed. @throws CliError `USAGE` */
function secretOf({ hashKeysFile: file }: Options, io: Io): { hashKeys?: string } {
  const where = file === undefined ? VARIABLE : '--hash-keys-file';
  const secret = file === undefined ? io.env[VARIABLE] || undefined : readText(where, file, io).trim();
  if (secret === undefined) return {};
  const fault = faultOfSecret(secret);
  if (fault !== undefined) throw usageError(`${where}: ${fault}`);
  return { hashKeys: secret };
}
