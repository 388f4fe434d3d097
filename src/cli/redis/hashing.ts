import { faultOfSecret } from '../../common/secret.js';
import { hashedText } from '../../stores/keys.js';
import { compileHashing, type KeyHashing } from '../../stores/redis/hash-keys.js';
import { usageError } from '../errors.js';
import type { Options } from '../command.js';
import { readText, type Io } from '../io.js';

type HashOptions = Pick<Options, 'hashKeysFile'>;

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

/** The secret by which limiters hash keys, if they do. A file may end with a line feed. @throws CliError `USAGE` */
export function secretOf({ hashKeysFile: file }: HashOptions, io: Io): string | undefined {
  const where = file === undefined ? VARIABLE : '--hash-keys-file';
  const secret = file === undefined ? io.env[VARIABLE] || undefined : readText(where, file, io).trim();
  const fault = secret === undefined ? undefined : faultOfSecret(secret);
  if (fault !== undefined) throw usageError(`${where}: ${fault}`);
  return secret;
}
