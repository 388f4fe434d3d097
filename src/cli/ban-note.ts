import type { Command } from 'commander';
import type { BanNote } from '../stores/ban-book.js';
import { usageError } from './errors.js';
import type { Io } from './io.js';

export interface NoteOptions {
  readonly reason?: string;
  readonly by?: string;
}

const LONGEST_REASON = 500;
const LONGEST_BY = 100;

/** Options of the commands that change bans: what others are told of it later. */
export function addNoteOptions(command: Command): Command {
  return command
    .option('--reason <text>', 'why, for those who look at the ban later')
    .option('--by <name>', 'who does it (env: HEADGATE_BY; else the user of the system)');
}

/** @throws CliError `USAGE` for a text that is too long */
export function noteOf({ reason, by }: NoteOptions, { env }: Io): BanNote {
  check('--reason', reason, LONGEST_REASON);
  check('--by', by, LONGEST_BY);
  const user = by ?? env.HEADGATE_BY ?? env.SUDO_USER ?? env.USER;
  return { by: user?.slice(0, LONGEST_BY) ?? null, reason: reason ?? null };
}

function check(option: string, text: string | undefined, longest: number): void {
  if (text !== undefined && text.length > longest)
    throw usageError(`${option}: write at most ${longest} characters.`);
}
