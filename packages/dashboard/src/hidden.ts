import { createHmac, randomBytes } from 'node:crypto';
import type { Hash } from 'headgate/admin';

export type ShownKey = string | Hash;

/** Makes the form in which the page gets keys. With `hideKeys`, a hash by a secret of this process. */
export type Show = <K extends ShownKey | undefined>(key: K) => K extends undefined ? undefined : ShownKey;

export function showing(hideKeys: boolean): Show {
  if (!hideKeys) return ((key) => key) as Show;
  const secret = randomBytes(32);
  const hash = (text: string): Hash => ({
    hash: createHmac('sha256', secret).update(text).digest('base64url').slice(0, 22),
  });
  return ((key?: ShownKey) => (typeof key === 'string' ? hash(key) : key)) as Show;
}
