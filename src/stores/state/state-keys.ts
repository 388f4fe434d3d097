import { createHash } from 'node:crypto';
import { HeadgateError } from '../../common/errors.js';
import { setsByDimension, type DimensionSet } from '../../contract/dimension-sets.js';
import { idText } from '../../features/ids/id-rules.js';
import type { Subject } from '../../contract/store.js';
import { factOf } from '../../contract/variant.js';
import { ID_TAG } from '../../features/ids/id-record.js';
import { escapeKey, hashedText, ownerText } from '../keys.js';
import { LAYOUT_VERSION } from './saved-state.js';

/** Texts that are used as keys directly. All others are hashed: databases may refuse or confuse non-ASCII or long keys. */
const PLAIN_KEY = /^[\x21-\x7e]{1,296}$/;

/** The same behind the brace of a key. */
const PLAIN_HEADED_KEY = /^\{[\x21-\x7e]{1,296}$/;

/**
 * The key under which a store keeps the state of a subject of one dimension: printable ASCII, at most 300 characters. Only subjects that
 * share their state have the same key. Case matters in keys, so compare them byte by byte.
 *
 * @throws HeadgateError `HEADGATE_DIMENSIONS` if the subject has keys of several dimensions: see {@link stateKeys}
 */
export function stateKey(subject: Subject): string {
  const [key, ...more] = stateKeys(subject);
  if (key !== undefined && more.length === 0) return key;
  throw severalKeys('stateKey', 'stateKeys');
}

/** The error about a subject with keys of several dimensions. */
export function severalKeys(used: string, instead: string): HeadgateError {
  return new HeadgateError(
    'HEADGATE_DIMENSIONS',
    `${used}: this subject has keys of several dimensions. Use ${instead}, and change their states together.`,
  );
}

/** The beginning of the keys of a set with one key a request. Empty for other sets. */
const headOf = factOf((set) => {
  if (set.dimensions && set.dimensions.names.length > 1) return '';
  const [{ name }] = setsByDimension(set) as [DimensionSet];
  return `{${ownerText(set, 'x', name, () => '')}`;
});

/** The keys of a subject with keys of several dimensions, one for each part of its state. */
export function stateKeys({ set, key }: Subject): string[] {
  const head = typeof key === 'string' && key !== '' ? headOf(set) : '';
  if (head !== '') {
    // Nearly all keys are as short and plain as this.
    const whole = head + escapeKey(key as string);
    if (PLAIN_HEADED_KEY.test(whole)) return [`${whole}}${LAYOUT_VERSION}`];
  }
  return setsByDimension(set).map(
    (part) => `{${plain(ownerText(set, key, part.name, asciiKey))}}${LAYOUT_VERSION}`,
  );
}

/** The key of a request's id, which has a state of its own. Its length is bounded, as all of {@link stateKeys}. */
export function idKey({ set, key }: Subject, id: string): string {
  const [{ name }] = setsByDimension(set) as [DimensionSet];
  return `{${plain(`${ownerText(set, key, name, asciiKey)}}${ID_TAG}${idText(id)}`)}}${LAYOUT_VERSION}`;
}

/** The notation of a key. A key that is not ASCII is hashed alone, so that its limiter and its dimension stay readable. */
function asciiKey(key: string): string {
  return plain(escapeKey(key));
}

/** Hashes texts that cannot be keys. No other key begins with a hash without a colon. */
function plain(who: string): string {
  return PLAIN_KEY.test(who) ? who : hashedText(createHash('sha256').update(who).digest('base64url'));
}
