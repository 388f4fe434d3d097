import { DEFAULT_DIMENSION } from '../contract/key.js';
import { escapeKey, escapeScope, hashedText, keyTextOf, withScope } from '../stores/keys.js';
import type { JournalEntry } from '../stores/journal.js';
import { importedIn, isInNetwork, networkIn } from './entry-keys.js';
import { whoseOf, type WhoseKey } from './owners.js';
import type { Published } from './published.js';
import { subjectIn } from './scope.js';
import type { Owner, State } from './state.js';
import { typedKey, type Subject } from './typed-keys.js';

export const ownersOf = (state: State, name: string, { keys, dimension }: Subject): Owner[] =>
  keys.map((key) => state.ownerOf(name, key, dimension));

/** The owner of a logged key. Undefined if the log has only the hash of the key, and the store needs the key. */
export function ownerIn(state: State, who: string): Owner | undefined {
  const { name, key, dimension } = whoseOf(who, undefined)!;
  try {
    return state.ownerOf(name, key!, dimension);
  } catch {
    return undefined;
  }
}

/** The owner text of a change in the log. A whole network is one entry. */
export function loggedOwner(
  state: State,
  name: string,
  { given, keys, dimension }: Subject,
): { who: string; keys: number } {
  const { scope, text } = state.ownerOf(name, keys.length === 1 ? keys[0]! : given, dimension);
  return { who: withScope(scope, text), keys: keys.length };
}

/** The owner texts of keys in imports, which are compared without parsing them. Imports have no keys within other keys. */
export function loggedTexts(state: State, keys: readonly WhoseKey[]): ReadonlySet<string> {
  return new Set(keys.filter(({ within }) => within === undefined).map((each) => loggedText(state, each)));
}

export function loggedText(state: State, { name, key, dimension = DEFAULT_DIMENSION }: WhoseKey): string {
  // Of a limiter whose name is not ASCII, a file has one hash of both.
  if (typeof name !== 'string' && typeof key !== 'string' && name.hash === key.hash)
    return hashedText(key.hash);
  // A database refuses hashes, which are a part of the text.
  if (typeof name !== 'string' || typeof key !== 'string')
    return `${escapeScope(name)}:${keyTextOf(dimension, key, escapeKey)}`;
  const { scope, text } = state.ownerOf(name, key, dimension);
  return withScope(scope, text);
}

/** A typed key as a limiter counts it. */
interface Counted {
  readonly key: string;
  readonly who: string;
}

/**
 * Finds the changes of a typed key: of the literal key, of the keys that limiters make of it, of networks that contain it, and imports.
 *
 * @returns a function of a change, which returns the length of the key's own change, or undefined for a change of other keys only
 */
export async function changesOf(
  state: State,
  key: string,
): Promise<(change: JournalEntry) => number | undefined> {
  const published = await state.published();
  const known = new Map<string, Counted>();
  const literal = escapeKey(key);
  const isOwn = (who: string): boolean => {
    const whose = whoseOf(who, undefined);
    if (whose === undefined || whose.key === undefined) return false;
    return whose.key === key || countedOf(whose.name)?.who === who;
  };
  /** Whether a key of an import is the own one. Parses only texts that end with it, because a log can have very many. */
  const isOwnIn = (who: string, counted: string | undefined): boolean =>
    who === counted || ((who.endsWith(`:${literal}`) || who.endsWith(`=${literal}`)) && isOwn(who));
  function countedOf(name: unknown): Counted | undefined {
    if (typeof name !== 'string') return undefined;
    const found = known.get(name);
    if (found) return found;
    const own = keyIn(published, name, key);
    const { scope, text } = state.ownerOf(name, own);
    const counted = { key: own, who: withScope(scope, text) };
    known.set(name, counted);
    return counted;
  }
  return (change) => {
    const imported = importedIn(change);
    if (imported) {
      // All keys of an import are of one limiter.
      const counted = countedOf(whoseOf(change.who, undefined)?.name)?.who;
      const [, own] = imported.find(([who]) => isOwnIn(who, counted)) ?? [];
      return own;
    }
    const { who, forMs } = change;
    const network = networkIn(change);
    if (network === undefined) return isOwn(who) ? forMs : undefined;
    const text = countedOf(whoseOf(who, undefined)?.name)?.key ?? key;
    return network === key || isInNetwork(text, network) ? forMs : undefined;
  };
}

/** The key that a limiter makes of a typed key, or the literal key if it makes several, or other ones. */
function keyIn(published: Published, name: string, key: string): string {
  try {
    const [{ keys }] = subjectIn(published, name, typedKey(key, {}));
    return keys.length === 1 ? keys[0]! : key;
  } catch {
    return key;
  }
}
