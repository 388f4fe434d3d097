import { checkSecret, keyedHash } from '../../common/secret.js';
import { escapeKey, hashedText, type KeyText } from '../keys.js';

/** The way in which a store writes keys. */
export interface KeyHashing {
  readonly text: KeyText;
  /** Lets processes compare their secrets. Undefined if keys are not hashed. */
  readonly mark: string | undefined;
}

/** @param secret `false` to leave keys as they are @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function compileHashing(secret: string | false): KeyHashing {
  if (secret === false) return { text: escapeKey, mark: undefined };
  const hash = keyedHash(checkSecret('redisStore.hashKeys', secret), 'keys');
  const text: KeyText = (key) => hashedText(hash(key).toString('base64url'));
  return { text, mark: keyedHash(secret, 'mark')('').toString('base64url').slice(0, 8) };
}
