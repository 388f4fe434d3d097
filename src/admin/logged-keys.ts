import type { ChangeNote } from '../contract/change-note.js';
import { parseEntry, type Network } from '../http/lists.js';
import { parseOwnerText, withScope } from '../stores/keys.js';
import type { JournalEntry } from '../stores/journal.js';
import { whoseOf } from './owners.js';
import type { Published } from './published.js';
import { subjectIn } from './scope.js';
import type { Owner, State } from './state.js';
import { typedKey } from './typed-keys.js';

/**
 * A key that an import banned: its owner text, the length of the ban, and the rest of the ban before, ms; and the note of the ban, if the
 * import has another one.
 */
export type BannedByImport = readonly [who: string, forMs: number, before: number, note?: ChangeNote];

/** The keys of an import. Undefined for other changes, and for an import of too many keys. */
export const importedIn = ({ action, after }: JournalEntry): readonly BannedByImport[] | undefined =>
  action === 'import' && Array.isArray(after) ? (after as BannedByImport[]) : undefined;

/** The network whose keys were changed together, or `undefined`. */
export function networkIn({ who, keys }: Pick<JournalEntry, 'who' | 'keys'>): string | undefined {
  const text = keys === 1 ? undefined : parseOwnerText(who)?.key;
  return typeof text === 'string' && text !== '' ? text : undefined;
}

/** Whether a network contains an address or a smaller network, such as the key of an IPv6 address. */
export function isInNetwork(text: string, network: string): boolean {
  const [own, whole] = [networkOf(text), networkOf(network)];
  if (!own || !whole || own.address.kind() !== whole.address.kind() || own.prefix < whole.prefix)
    return false;
  const [bytes, others] = [own.address.toByteArray(), whole.address.toByteArray()];
  return bytes.every((byte, i) => {
    const bits = Math.min(8, Math.max(0, whole.prefix - 8 * i));
    return (byte ^ others[i]!) >> (8 - bits) === 0;
  });
}

function networkOf(text: string): Network | undefined {
  try {
    const entry = parseEntry('key', text);
    return typeof entry === 'string' ? undefined : entry;
  } catch {
    return undefined;
  }
}

/** A change as one of a key: an import has the length of the key's own ban, ms. */
type OwnChange = Pick<JournalEntry, 'forMs'>;

/** A typed key as a limiter counts it. */
interface Counted {
  readonly key: string;
  /** The owner text. */
  readonly who: string;
}

/**
 * Finds the changes of a typed key: of the literal key, of the keys that limiters make of it, of networks that contain it, and imports.
 *
 * @returns a function of a change, whose result is `undefined` for a change of other keys only
 */
export async function changesOf(
  state: State,
  key: string,
): Promise<(change: JournalEntry) => OwnChange | undefined> {
  const published = await state.published();
  const known = new Map<string, Counted>();
  const isOwn = (who: string): boolean => {
    const whose = whoseOf(who, undefined);
    if (whose === undefined || whose.key === undefined) return false;
    return whose.key === key || countedOf(whose.name)?.who === who;
  };
  function countedOf(name: unknown): Counted | undefined {
    if (typeof name !== 'string') return undefined;
    const found = known.get(name) ?? counted(state, published, name, key);
    known.set(name, found);
    return found;
  }
  return (change) => {
    const imported = importedIn(change);
    if (imported) {
      const own = imported.find(([who]) => isOwn(who));
      return own && { forMs: own[1] };
    }
    const { who, forMs } = change;
    const network = networkIn(change);
    if (network === undefined) return isOwn(who) ? { forMs } : undefined;
    const text = countedOf(whoseOf(who, undefined)?.name)?.key ?? key;
    return network === key || isInNetwork(text, network) ? { forMs } : undefined;
  };
}

/** The key that a limiter makes of a typed key, or the literal key if it makes several, or other ones. */
function counted(state: State, published: Published, name: string, key: string): Counted {
  const own = keyIn(published, name, key);
  const { scope, text }: Owner = state.ownerOf(name, own);
  return { key: own, who: withScope(scope, text) };
}

function keyIn(published: Published, name: string, key: string): string {
  try {
    const [{ keys }] = subjectIn(published, name, typedKey(key, {}));
    return keys.length === 1 ? keys[0]! : key;
  } catch {
    return key;
  }
}
