import type { Command } from 'commander';
import { checkNote, NOTE_LENGTHS, type BanNote } from '../contract/ban-options.js';
import type { Io } from './io.js';

export interface NoteOptions {
  readonly reason?: string;
  readonly by?: string;
}

/** Options of the commands that change bans: notes for others to read later. */
export function addNoteOptions(command: Command): Command {
  return command
    .option('--reason <text>', 'why, for those who look at it later')
    .option('--by <name>', 'who does it (env: HEADGATE_BY; default: the user of the system)');
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` for a text that is blank, or too long */
export function noteOf({ reason, by }: NoteOptions, { env }: Io): BanNote {
  const user = env.HEADGATE_BY || env.SUDO_USER || env.USER;
  const note = checkNote('--by, --reason', {
    ...(by !== undefined && { by }),
    ...(reason !== undefined && { reason }),
  });
  return { ...note, by: note.by ?? (user?.slice(0, NOTE_LENGTHS.by) || null) };
}
