import type { IPv6 } from 'ipaddr.js';
import type { ChangeNote } from '../contract/change-note.js';
import { parseEntry, type Network } from '../http/lists.js';
import { parseOwnerText } from '../stores/keys.js';
import type { JournalEntry } from '../stores/journal.js';

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
  return (own.address as IPv6).match(whole.address, whole.prefix);
}

function networkOf(text: string): Network | undefined {
  try {
    const entry = parseEntry('key', text);
    return typeof entry === 'string' ? undefined : entry;
  } catch {
    return undefined;
  }
}
