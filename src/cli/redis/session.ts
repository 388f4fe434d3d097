import type { BanOptions } from '../../contract/ban-options.js';
import { toMilliseconds } from '../../common/duration.js';
import { ScriptCalls } from '../../stores/redis/calls/script-calls.js';
import { commandsOf } from '../../stores/redis/clients/clients.js';
import type { Commands } from '../../stores/redis/clients/commands.js';
import { compileHashing, type KeyHashing } from '../../stores/redis/secret-keys.js';
import { openStore } from '../../stores/redis/redis.js';
import { BAN_TAG, hashedText } from '../../stores/keys.js';
import { argsOf, recordsSign, timeToldBy } from '../../stores/redis/calls/plans.js';
import { assemble, type Script } from '../../stores/redis/scripts.js';
import { costArg, decode } from '../../stores/redis/calls/wire.js';
import { holdsSlots, type PolicySet, type Reply } from '../../contract/store.js';
import { OVERRIDE_TAG } from '../../contract/overrides.js';
import type { Options } from '../command.js';
import { faultOfSecret } from '../../common/secret.js';
import { CliError, usageError } from '../errors.js';
import { printable } from '../format.js';
import { readText, type Io } from '../io.js';
import { limitersOn, type Limiters } from '../limiters.js';
import { parseAddress, within, type Target } from './address.js';
import { connect, explain } from './connection.js';
import type { Connection } from './packages.js';

/**
 * Ban options for bans by hand, which do not use the service's options. With the longest spans, they do not shorten the service's memory of
 * denials and earlier bans. The service applies its own spans.
 */
export const LENIENT: BanOptions = { within: '366d', max: '366d' };

/** The number of keys per script call, which then takes well under a millisecond. */
const KEYS_PER_CALL = 50;

/** The reply of PTTL for a missing key. */
export const NO_KEY = -2;

/** The error for a key of Headgate that another program has written. */
export class OtherKeyError extends CliError {}

function rethrow(error: unknown, keys: readonly string[]): never {
  if (!/WRONGTYPE/.test(String(error))) throw error;
  const named = keys.slice(0, 4).map((key) => printable(key, 100));
  const what = named.length > 1 ? `one of the keys ${named.join(', ')}` : `the key ${named.join()}`;
  throw new OtherKeyError(
    'FAILED',
    `${what} has a value that is not Headgate's (WRONGTYPE). Find out what wrote it and delete it, or write the right --prefix.`,
    error,
  );
}

/** A connection, and the limiters on it. */
export class Session {
  readonly limiters: Limiters;
  readonly commands: Commands;
  readonly prefix: string;
  readonly target: Target;
  /** The format of keys, and the mark of the secret. */
  readonly hashing: KeyHashing;
  readonly #connection: Connection;
  readonly #calls: ScriptCalls;

  constructor(connection: Connection, prefix: string, target: Target, hashing: KeyHashing) {
    // Each limiter gets its own store, because limiters of one name may have different policies here.
    const store = { prefix, localDenials: false, publish: false } as const;
    this.limiters = limitersOn(() => openStore(connection.client, store, hashing), target.timeout);
    this.commands = commandsOf(connection.client);
    this.#connection = connection;
    this.hashing = hashing;
    this.#calls = new ScriptCalls(this.commands, undefined);
    this.prefix = prefix;
    this.target = target;
  }

  /**
   * Looks at the state of many keys at once, like `peek` with a cost of 1. Takes the parts before the tag of their Redis keys, so that
   * hashed keys work, too.
   *
   * @returns for each head, the store's answer or its error
   */
  async look(set: PolicySet, heads: readonly string[]): Promise<(Reply | Error)[]> {
    const together = this.commands.cluster ? 1 : KEYS_PER_CALL;
    const calls: Promise<(Reply | Error)[]>[] = [];
    for (let at = 0; at < heads.length; at += together)
      calls.push(this.#look(set, heads.slice(at, at + together)));
    return (await Promise.all(calls)).flat();
  }

  /** @param serverTime the server's time, if this machine's time is too far from it for a calendar policy */
  async #look(set: PolicySet, heads: readonly string[], serverTime?: number): Promise<(Reply | Error)[]> {
    const { policies, ban } = set;
    const ids = [...(ban ? [BAN_TAG] : []), ...policies.map(({ id }) => id)];
    const keys = heads.flatMap((head) => ids.map((id) => `${head}}${id}`));
    if (set.overrides) keys.push(...heads.map((head) => `${head}}${OVERRIDE_TAG}`));
    const { evaluateArgs } = argsOf(set, false, serverTime ?? Date.now());
    const args = [...evaluateArgs, costArg(1, true)];
    if (holdsSlots(set)) args.push(...heads.map(() => ''));
    if (set.overrides) args.push(recordsSign(set));
    const kernels = policies.map(({ kernel }) => kernel);
    const script = assemble('evaluate', kernels, ban !== undefined, set.overrides !== undefined);
    let reply: unknown;
    try {
      reply = await this.run(script, keys, args);
    } catch (error) {
      const told = timeToldBy(error);
      if (told === undefined || serverTime !== undefined) throw error;
      return this.#look(set, heads, told);
    }
    return decode(reply, heads.length, set);
  }

  /** Runs a script that limiters do not use. */
  run(script: Script, keys: readonly string[], args: string[]): Promise<unknown> {
    const { timeout } = this.target;
    const set: PolicySet = { name: '', policies: [], ban: undefined, timeout };
    const answer = this.#calls.run({ script, keys, args, timeout, asked: [{ set, key: '' }] });
    return this.ask(answer).catch((error: unknown) => rethrow(error, keys));
  }

  /** Runs a command on one key. */
  call(command: string, key: string, ...args: string[]): Promise<unknown> {
    return this.ask(this.#connection.call(command, key, ...args)).catch((error: unknown) =>
      rethrow(error, [key]),
    );
  }

  /** Waits for an answer, within the user's time limit. */
  ask<T>(answer: Promise<T>): Promise<T> {
    return within(this.target, answer);
  }
}

/**
 * Connects, and disconnects when `use` has ended.
 *
 * @throws CliError of the connection, or an explained error of `use`
 */
export async function withRedis(
  options: Options,
  io: Io,
  use: (session: Session) => Promise<void>,
): Promise<void> {
  if (options.sqlite !== undefined) {
    throw usageError(
      '--sqlite: this command shows what only Redis keeps: counts, logs, and which limiters run where. A file has the state alone.',
    );
  }
  const target = targetOf(options, io);
  checkPrefix(options.prefix);
  const hashing = hashingOf(options, io);
  let connection: Connection | undefined;
  try {
    connection = await connect(target, io.cwd);
    await use(new Session(connection, options.prefix, target, hashing));
  } catch (error) {
    throw explain(error, target);
  } finally {
    connection?.close();
  }
}

function targetOf({ redis, cluster = false, sentinel, timeout }: Options, { env }: Io): Target {
  const url = redis ?? env.REDIS_URL;
  if (url === undefined || url === '') {
    throw usageError(
      '--redis: which server? Write --redis redis://127.0.0.1:6379, or set REDIS_URL. Or --sqlite with the file of a sqliteStore.',
    );
  }
  const ms = toMilliseconds('--timeout', timeout);
  if (ms > 60_000) throw usageError("--timeout: write '1ms' to '1m'.");
  return { address: parseAddress(url), cluster, sentinel, timeout: ms };
}

function checkPrefix(prefix: string): void {
  if (!/^[\x21-\x7a\x7c\x7e]{1,64}$/.test(prefix)) {
    throw usageError(
      '--prefix: write 1 to 64 printable ASCII characters without braces, as in redisStore({ prefix }).',
    );
  }
}

/** An environment variable, because every user of a machine can see arguments. */
const VARIABLE = 'HEADGATE_HASH_KEYS';

/**
 * The limiters' format of keys. A key in the form that `list` shows, `hmac:...`, is the key with that hash.
 *
 * @throws CliError `USAGE`
 */
function hashingOf(options: Pick<Options, 'hashKeysFile'>, io: Io): KeyHashing {
  const secret = secretOf(options, io);
  if (secret === undefined) return compileHashing(false);
  const { text, mark } = compileHashing(secret);
  return {
    text: (key) => (/^hmac:[\w-]{22}$/.test(key) ? hashedText(key.slice('hmac:'.length)) : text(key)),
    mark,
  };
}

/** The limiters' secret for hashing keys, if any. A file may end with a line feed. @throws CliError `USAGE` */
export function secretOf({ hashKeysFile: file }: Pick<Options, 'hashKeysFile'>, io: Io): string | undefined {
  const where = file === undefined ? VARIABLE : '--hash-keys-file';
  const secret = file === undefined ? io.env[VARIABLE] || undefined : readText(where, file, io).trim();
  const fault = secret === undefined ? undefined : faultOfSecret(secret);
  if (fault !== undefined) throw usageError(`${where}: ${fault}`);
  return secret;
}
