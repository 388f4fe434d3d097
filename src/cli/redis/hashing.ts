import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { faultOfSecret } from '../../common/secret.js';
import { hashedText } from '../../stores/keys.js';
import { compileHashing, type KeyHashing } from '../../stores/redis/secret-keys.js';
import { usageError } from '../errors.js';
import type { Io } from '../io.js';

export interface HashOptions {
  readonly hashKeysFile?: string;
}

/** An environment variable, because every user of a machine can see arguments. */
const VARIABLE = 'HEADGATE_HASH_KEYS';

/**
 * How the limiters write keys. A key in the form that `list` shows, `hmac:...`, stands for the key with that hash.
 *
 * @throws CliError `USAGE`
 */
export function hashingOf(options: HashOptions, io: Io): KeyHashing {
  const secret = secretOf(options, io);
  if (secret === undefined) return compileHashing(false);
  const { text, mark } = compileHashing(secret);
  return {
    text: (key) => (/^hmac:[\w-]{22}$/.test(key) ? hashedText(key.slice('hmac:'.length)) : text(key)),
    mark,
  };
}

/** The secret by which limiters hash keys, if they do. @throws CliError `USAGE` */
export function secretOf({ hashKeysFile }: HashOptions, io: Io): string | undefined {
  const given = findSecret(hashKeysFile, io);
  if (given === undefined) return undefined;
  const [where, secret] = given;
  const fault = faultOfSecret(secret);
  if (fault !== undefined) throw usageError(`${where}: ${fault}`);
  return secret;
}

/** The secret, and where it was written. The file may end with a line feed. */
function findSecret(file: string | undefined, { cwd, env }: Io): [where: string, secret: string] | undefined {
  if (file === undefined) {
    const secret = env[VARIABLE];
    return secret === undefined || secret === '' ? undefined : [VARIABLE, secret];
  }
  try {
    return ['--hash-keys-file', readFileSync(resolve(cwd, file), 'utf8').trim()];
  } catch (error) {
    throw usageError(`--hash-keys-file: it cannot be read: ${(error as Error).message}.`);
  }
}
