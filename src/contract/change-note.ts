import { invalidOption } from '../common/errors.js';
import { checkShape } from '../common/validate.js';

/** The operator of a change by hand, and the reason. Operators see both in `headgate list` and `headgate log`. */
export interface ChangeNoteOptions {
  /** The operator: 1 to 100 characters, not all blank. */
  by?: string | undefined;
  /** The reason: 1 to 500 characters, not all blank. */
  reason?: string | undefined;
}

/** The operator and the reason of a change, each `null` if not given. */
export interface ChangeNote {
  /** The operator. */
  readonly by: string | null;
  /** The reason. */
  readonly reason: string | null;
}

export const NO_NOTE: ChangeNote = { by: null, reason: null };

/** The most characters of each text of a note. */
export const NOTE_LENGTHS = { by: 100, reason: 500 } as const;

/** A note without the fields that were not given. */
export const givenIn = ({ by, reason }: ChangeNote): ChangeNoteOptions => ({
  ...(by !== null && { by }),
  ...(reason !== null && { reason }),
});

/** Checks an operator and a reason. @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` */
export function checkNote(what: string, note: ChangeNoteOptions): ChangeNote {
  checkShape(what, note, ['by', 'reason']);
  const text = (field: keyof ChangeNoteOptions): string | null => {
    const value: unknown = note[field];
    if (value === undefined) return null;
    if (typeof value === 'string' && value.trim() !== '' && value.length <= NOTE_LENGTHS[field]) return value;
    throw invalidOption(field, value, `Pass 1 to ${NOTE_LENGTHS[field]} characters that are not all blank.`);
  };
  return { by: text('by'), reason: text('reason') };
}
