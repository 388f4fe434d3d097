import { custom } from '../../common/options.js';
import { checkSecret, keyedHash } from '../../common/secret.js';
import { hashedText } from '../keys.js';

/**
 * The notation of keys in a database. Names of limiters are not hashed.
 *
 * @param option the option with the secret, for errors @param secret `false` leaves keys readable
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function nameBy(option: string, secret: string | false | undefined): (key: string) => string {
  if (secret === false) return (key) => key;
  const hash = keyedHash(checkSecret(option, secret), 'keys');
  return (key) =>
    key.replace(
      /^\{([^{}:]*:)?(.*)\}/s,
      (_, scope: string | undefined, who: string) =>
        `{${scope ?? ''}${hashedText(hash(who).toString('base64url'))}}`,
    );
}

/** The option `hashKeys` of a store. Its value is the function of {@link nameBy}. */
export const hashKeysOption = () =>
  custom<string | false, ReturnType<typeof nameBy>>(
    'a secret, or `false`',
    (option, secret) => nameBy(option, secret as string | false),
    false,
  );
