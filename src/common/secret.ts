import { createHmac, createSecretKey } from 'node:crypto';
import { HeadgateError } from './errors.js';

const MIN_SECRET_LENGTH = 16;

/** The correction that every message about a secret ends with. */
const FIX = `Use a secret of ${MIN_SECRET_LENGTH} characters or more, the same in all processes: node -p "crypto.randomBytes(32).toString('base64')" makes one.`;

/** Describes the fault of a secret without quoting the secret. @returns undefined if the secret is valid */
export function faultOfSecret(secret: unknown): string | undefined {
  if (secret === undefined) return `undefined. Is the environment variable set? ${FIX}`;
  if (typeof secret !== 'string') return `not a string. ${FIX}`;
  if (secret.trim() !== secret)
    return 'begins or ends with white space, such as a line end. Pass secret.trim().';
  return secret.length < MIN_SECRET_LENGTH ? `only ${secret.length} characters. ${FIX}` : undefined;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless it is a string of 16 characters or more */
export function checkSecret(option: string, secret: unknown): string {
  const fault = faultOfSecret(secret);
  if (fault !== undefined) throw new HeadgateError('HEADGATE_INVALID_OPTION', `${option}: ${fault}`);
  return secret as string;
}

/** The bytes of a hash that are kept. Without the secret an attacker cannot search for collisions, so half of the hash is enough. */
const HASH_BYTES = 16;

/**
 * Makes a hash function (HMAC-SHA256, cut to 16 bytes). An attacker without the secret can neither recover a text nor check a guess.
 *
 * @param purpose separates uses of one secret: two purposes give unrelated hashes of the same text
 */
export function keyedHash(secret: string, purpose: string): (text: string) => Buffer {
  const key = createSecretKey(createHmac('sha256', secret).update(`headgate ${purpose}`).digest());
  return (text) =>
    createHmac('sha256', key).update(Buffer.from(text, 'utf16le')).digest().subarray(0, HASH_BYTES);
}
