// A view of a store that hashes keys, with the keys of the trace in place of their hashes.
import { keyedHash } from '../../src/common/secret.js';
import { KEYS, type View } from './views.js';

/** The view, unchanged without a secret. */
export function unhashed(view: View, secret: string | undefined): View {
  if (secret === undefined) return view;
  const hash = keyedHash(secret, 'keys');
  // Redis hashes a key alone, and a database together with its dimension.
  const names = new Map(
    [...KEYS, ''].flatMap((key) =>
      ['', '%@account=', '%@org='].map((mark) => [hash(mark + key).toString('base64url'), key] as const),
    ),
  );
  const nameOf = (text: string) => names.get(text) ?? text;
  const read = (_: string, value: unknown): unknown => {
    if (typeof value === 'string') return value.replace(/hmac:([\w-]+)/, (_, text: string) => nameOf(text));
    const isHash = typeof value === 'object' && value !== null && 'hash' in value;
    return isHash ? nameOf(value.hash as string) : value;
  };
  const named = <T>(found: T): T => JSON.parse(JSON.stringify(found), read) as T;
  return {
    ...view,
    // The log has a hash in place of the key that was changed, so the page does not find its changes.
    ...(view.changes && { changes: 'of all keys' }),
    key: async (key, dimension) => named(await view.key(key, dimension)),
    limited: async () => named(await view.limited()),
    bans: async () => named(await view.bans()),
  };
}
