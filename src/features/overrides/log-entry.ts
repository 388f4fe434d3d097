import {
  entryInForce,
  parseEntryNote,
  type EntryNote,
  type OverrideRecord,
  type RecordChange,
} from './contract/records.js';
import type { JournalEntry } from '../../stores/journal.js';

/** The log entry of an override. @returns undefined for the removal of an override that did not exist */
export function loggedChange(
  who: string,
  { entry, duration, note, from, undoes }: RecordChange,
  record: OverrideRecord,
  now: number,
): JournalEntry | undefined {
  const current = entryInForce(record, now);
  const before = current && parseEntryNote(current.json)?.change;
  const isEnd = entry === '';
  if (isEnd && !current) return undefined;
  const written = isEnd ? note : parseEntryNote(entry.slice(entry.lastIndexOf('\t') + 1));
  const { change, by, reason }: Partial<EntryNote> = written ?? {};
  return {
    ...{ action: isEnd ? 'remove' : 'override', who, keys: 1, forMs: duration },
    ...{ by: by ?? null, reason: reason ?? null, from: from ?? 'program' },
    ...(before !== undefined && { before }),
    ...(!isEnd && { after: change }),
    ...(undoes !== undefined && { undoes }),
  };
}
