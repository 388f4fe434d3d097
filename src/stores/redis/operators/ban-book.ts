import { bannedChange, struckChange } from '../../../features/bans/ban-operations.js';
import { DOCS } from '../../../common/errors.js';
import { DEFAULT_DIMENSION } from '../../../contract/key.js';
import { warnOnce } from '../../../common/warnings.js';
import { BestEffort } from './best-effort.js';
import type { Commands } from '../clients/commands.js';
import { escapeName, ownerText, type KeyText } from '../../keys.js';
import { CHANGES_LIFE_MS, isAutomatic, MAX_CHANGES, type JournalEntry } from '../../journal.js';
import { clearTimeout, setTimeout } from '../../../common/real-time.js';
import { NO_NOTE, type ChangeNote } from '../../../contract/change-note.js';
import type { Reply } from '../../../contract/reply.js';
import type { Subject } from '../../../contract/store.js';

/** The most entries in an index. `docs/redis.md` lists it. */
export const MAX_RECORDED_BANS = 100_000;

/** The most changes that wait for their record in this process. Later ones are not recorded. */
const MAX_WAITING_CHANGES = 10_000;

const MAX_CHANGES_PER_CALL = 100;

/** The pause before a failed record is repeated, ms. */
const RETRY_PAUSE_MS = 5000;

/** The arguments before those of the changes. */
export const BOOK_BOUNDS = [MAX_RECORDED_BANS, MAX_CHANGES, CHANGES_LIFE_MS].map(String);

/**
 * The keys of the index of bans, by which a search finds most bans at once; the notes; the log of operators; the mark by which an earlier
 * version trusts the index; the log of automatic changes. Without a colon between the braces, a key is never a limiter's. All keys are in
 * one cluster slot.
 */
export function bookKeys(
  prefix: string,
): [index: string, notes: string, log: string, trusted: string, automatic: string] {
  const head = `${prefix}:{bans}`;
  return [head, `${head}:notes`, `${head}:log`, `${head}:whole`, `${head}:automatic`];
}

const UNRECORDED_WARNING =
  'The user of this Redis client may not record changes. Bans are in force, but the log of changes and the notes of bans miss them. ' +
  `${DOCS}/redis.md lists the permissions.`;

/** The keys of the log of automatic changes, and of the last options of limiters, in the same slot. */
export function configurationKeys(prefix: string, names: readonly string[]): string[] {
  const [head, , , , automatic] = bookKeys(prefix);
  return [automatic, ...names.map((name) => `${head}:options:${escapeName(name)}`)];
}

/** The arguments that keep or delete the note of the key's earlier ban. */
const KEEP_NOTE = '';
const DELETE_NOTE = '-';

/** The arguments of one change for `note-changes.lua`. A length of 0 ms ends the ban. Without a note, the note of the earlier ban stays. */
export function bookArgs(who: string, length: number, note?: ChangeNote, change?: JournalEntry): string[] {
  return [
    who,
    String(length),
    note ? noteArg(note) : KEEP_NOTE,
    change ? `${isAutomatic(change) ? '*' : ''}${JSON.stringify(change)}` : '',
  ];
}

/** The arguments that log a change without a ban. A blank name matches no entry of the index. */
export const logArgs = (change: JournalEntry): string[] => bookArgs(' ', 0, undefined, change);

function noteArg({ by, reason }: ChangeNote): string {
  return by === null && reason === null ? DELETE_NOTE : JSON.stringify({ by, reason });
}

/**
 * Records bans and logs changes in Redis, beside the decisions: in a cluster, no script can write both a ban's key and a log of all bans.
 * Operators find bans by their keys, so a ban that cannot be recorded only lacks its note and its entry in the log.
 */
export class BanBook {
  readonly #aside: BestEffort;
  readonly #keys: readonly string[];
  readonly #text: KeyText;
  #waiting: string[][] = [];
  #isSending = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(commands: Commands, prefix: string, text: KeyText) {
    this.#text = text;
    this.#aside = new BestEffort(commands, 'note-changes');
    this.#keys = bookKeys(prefix);
  }

  struck(subject: Subject, reply: Reply): void {
    const who = this.#bannedBy(subject);
    this.#note(bookArgs(who, -reply.ban, NO_NOTE, struckChange(who, subject.set, reply)));
  }

  /** Records a ban by the program; with 0 ms, its end. @param left the rest of the ban before, ms */
  set(subject: Subject, length: number, left: number, note: ChangeNote): void {
    const who = this.#bannedBy(subject);
    this.#note(bookArgs(who, length, note, bannedChange(who, length, left, note)));
  }

  log(change: JournalEntry): void {
    this.#note(logArgs(change));
  }

  #bannedBy({ set, key }: Subject): string {
    return ownerText(set, key, set.dimensions?.banBy ?? DEFAULT_DIMENSION, this.#text);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #note(args: string[]): void {
    if (this.#waiting.length < MAX_WAITING_CHANGES) this.#waiting.push(args);
    if (!this.#timer) this.#send();
  }

  /** Sends one call at a time. Changes in the meantime go with the next call. */
  #send(): void {
    if (this.#isSending || this.#waiting.length === 0) return;
    if (!this.#aside.isPermitted) {
      this.#waiting = [];
      warnOnce('HEADGATE_BANS_UNKNOWN', UNRECORDED_WARNING);
      return;
    }
    const some = this.#waiting.splice(0, MAX_CHANGES_PER_CALL);
    this.#isSending = true;
    this.#aside.send(this.#keys, [...BOOK_BOUNDS, ...some.flat()], (isDone) => {
      this.#isSending = false;
      if (!isDone) this.#waiting.unshift(...some);
      if (isDone || !this.#aside.isPermitted) this.#send();
      else this.#timer = setTimeout(() => this.#again(), RETRY_PAUSE_MS).unref();
    });
  }

  #again(): void {
    this.#timer = undefined;
    this.#send();
  }
}
