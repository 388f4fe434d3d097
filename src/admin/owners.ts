import { DEFAULT_DIMENSION } from '../contract/key.js';
import { isOfFeature } from '../features/features.js';
import {
  ALL_KEYS,
  BAN_TAG,
  escapeName,
  isLine,
  isReset,
  keyTextOf,
  kindOfHash,
  parseOwnerText,
  tenantTextOf,
  type Hash,
  type KeyText,
  type StateKey,
} from '../stores/keys.js';

export type { Hash } from '../stores/keys.js';

export { kindOfHash } from '../stores/keys.js';

/** The owner of state: a key of a limiter. Of a name or a key, possibly only the hash is known. */
export interface Owner extends Omit<StateKey, 'head' | 'id'> {
  /** The owner text: the limiter's name and the key in the notation of the store. */
  readonly text: string;
}

/** The state of one policy of one key, or its ban, as a search finds it. */
export interface FoundKey {
  readonly owner: Owner;
  /** As in `StateKey`: `CompiledPolicy.id`, or the tag of bans. */
  readonly id: string;
}

/** The key of a value that a feature keeps, as `FoundKey`. */
export interface KeptKey extends Pick<FoundKey, 'id'> {
  readonly owner: Pick<Owner, 'text'>;
}

/** Whether state with an id is the charge of a policy, by which a key may be denied. */
export const isCharge = (id: string): boolean =>
  id !== BAN_TAG && !isOfFeature(id) && !isReset({ id }) && !isLine(id);

/** The owner of a record, as operators see it. Of a name or a key, possibly only the hash is known. */
export interface Whose {
  /** The limiter's name. */
  readonly name: string | Hash;
  /** The key. Absent for all keys of the limiter. */
  readonly key?: string | Hash;
  /** The dimension. Absent for the default dimension. */
  readonly dimension?: string;
  /** With `slotBy`: the dimension and the key within which the key is counted. */
  readonly within?: string;
}

/** The owner of the state of a key. */
export interface WhoseKey extends Whose {
  /** The key, or its hash. */
  readonly key: string | Hash;
}

/** The identity of a key of a limiter, by the parts. */
export const identityOf = ({ name, dimension = DEFAULT_DIMENSION, key, within }: Whose): string =>
  JSON.stringify([name, dimension, key, within]);

export function whoseState({ name, key, by, slot }: Owner): WhoseKey {
  return {
    name,
    key,
    ...(by !== DEFAULT_DIMENSION && { dimension: by }),
    ...(slot && { within: withinOf(slot) }),
  };
}

/** Parses an owner text. Returns `undefined` for another limiter than the wanted one. */
export function whoseOf(text: string, name: string | undefined): Whose | undefined {
  const isAll = text.endsWith(`:${ALL_KEYS}`);
  const owner = parseOwnerText(isAll ? text.slice(0, -ALL_KEYS.length) : text);
  if (!owner || (name !== undefined && owner.scope !== escapeName(name))) return undefined;
  const { key: _, ...whose } = whoseState({ ...owner, text });
  const known = { ...whose, name: name ?? owner.name };
  return isAll ? known : { ...known, key: owner.key };
}

/** The text of the key within which another key is counted. */
export function withinOf({ by, key = '-' }: NonNullable<StateKey['slot']>): string {
  return `${by} ${typeof key === 'string' ? key : `${kindOfHash(key.hash)}:${key.hash}`}`;
}

/** The owner text of a key in the counts. @param within of a tenant: the dimension and the key of the shared limit */
export function countedOwner(
  {
    name,
    key,
    dimension,
    within,
  }: Readonly<Record<'name' | 'key' | 'dimension', string>> & { readonly within?: string },
  text: KeyText,
): string {
  const head = `${escapeName(name)}:`;
  if (within === undefined) return head + keyTextOf(dimension, key, text);
  const space = within.indexOf(' ');
  const [by, limitKey] = [within.slice(0, space), within.slice(space + 1)];
  return head + tenantTextOf(`${by}/${dimension}`, limitKey, `=${key}`, text);
}
