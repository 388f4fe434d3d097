import type { ChangeNote } from '../../contract/change-note.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { Reply } from '../../contract/reply.js';
import type { PolicySet } from '../../contract/store.js';
import { admits, waitOf } from '../../contract/verdicts.js';
import type { JournalEntry } from '../../stores/journal.js';

/** The log entry of a ban. @param left the rest of the ban before, ms */
export function bannedChange(who: string, forMs: number, left: number, note: ChangeNote): JournalEntry {
  return {
    ...note,
    ...({ action: forMs > 0 ? 'ban' : 'unban', who, keys: 1, forMs, from: 'program' } as const),
    ...(left > 0 && { before: left }),
    ...(forMs > 0 && { after: forMs }),
  };
}

/** The log entry of a ban that a denial started. Its reason names the denying policies, because no operator gives one. */
export function struckChange(who: string, { policies, dimensions }: PolicySet, reply: Reply): JournalEntry {
  const banBy = dimensions?.banBy ?? DEFAULT_DIMENSION;
  const names = policies.flatMap(({ name, by, shadow, isHidden }, i) =>
    by === banBy && !shadow && !isHidden && !admits(waitOf(reply.verdicts, i)) ? [name] : [],
  );
  const reason = names.length > 0 ? `denied by policy ${names.join(', ')}` : null;
  const forMs = -reply.ban;
  return { action: 'ban', who, keys: 1, forMs, by: null, reason, from: 'denials', after: forMs };
}
