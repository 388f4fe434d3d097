import { createHmac, createSecretKey } from 'node:crypto';
import { HeadgateError } from './errors.js';

/** The least number of characters of a secret. */
const SHORTEST = 16;

/** Tells how to make a secret. */
const FIX = `Write a secret of ${SHORTEST} characters or more, the same in all processes: node -p "crypto.randomBytes(32).toString('base64')" makes one.`;

/** Says what is wrong with a secret, without quoting it. Undefined: it is valid. */
export function faultOfSecret(secret: unknown): string | undefined {
  if (secret === undefined) return `it is undefined: is the environment variable set? ${FIX}`;
  if (typeof secret !== 'string') return `that is no string. ${FIX}`;
  if (secret.trim() !== secret)
    return 'it begins or ends with white space, such as the end of a line. Write secret.trim().';
  return secret.length < SHORTEST ? `it has ${secret.length} characters. ${FIX}` : undefined;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless it is a string of 16 characters or more */
export function checkSecret(option: string, secret: unknown): string {
  const fault = faultOfSecret(secret);
  if (fault !== undefined) throw new HeadgateError('HEADGATE_INVALID_OPTION', `${option}: ${fault}`);
  return secret as string;
}

/** How many bytes of a hash are kept. An attacker without the secret cannot search for collisions, so half of the hash is enough. */
const KEPT = 16;

/**
 * Makes a hash function (HMAC-SHA256, cut to 16 bytes). Without the secret nobody can find the text, or check a guess.
 *
 * @param purpose two purposes give unrelated hashes of the same text
 */
export function keyedHash(secret: string, purpose: string): (text: string) => Buffer {
  const key = createSecretKey(createHmac('sha256', secret).update(`headgate ${purpose}`).digest());
  return (text) => createHmac('sha256', key).update(Buffer.from(text, 'utf16le')).digest().subarray(0, KEPT);
}
