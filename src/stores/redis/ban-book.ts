import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { warnOnce } from '../../common/warnings.js';
import { Aside } from './aside.js';
import type { Commands } from './clients/commands.js';
import { escapeName, escapeWho, whoOf, type KeyText } from '../keys.js';
import { clearTimeout, setTimeout } from '../../common/real-time.js';
import type { BanNote } from '../../contract/ban-options.js';
import type { Reply, Subject } from '../../contract/store.js';

/** Bounds of what is stored. `docs/redis.md` tells them. */
export const MOST_BANS = 100_000;
const MOST_LOGGED = 10_000;
const LOG_LIFE = 90 * 24 * 60 * 60 * 1000;

/** Bans of which this process knows that they are noted, and those that wait to be. */
const MOST_KNOWN = 10_000;
const MOST_WAITING = 10_000;

/** A banned key that still asks is noted again after so long, ms: the index may have been deleted meanwhile. */
const AGAIN = 60_000;

/** Bans of one call. */
const TOGETHER = 100;

/** What could not be noted is noted so much later, ms. */
const LATER = 5000;

/** The arguments before those of the bans. */
export const BOOK_BOUNDS = [MOST_BANS, MOST_LOGGED, LOG_LIFE].map(String);

/** The index, the notes, the log and the seal: no limiter's, as there is no colon between the braces. In one cluster slot. */
export function bookKeys(prefix: string): [index: string, notes: string, log: string, seal: string] {
  const head = `${prefix}:{bans}`;
  return [head, `${head}:notes`, `${head}:log`, `${head}:whole`];
}

/** Who is banned, as the book has it: what stands between the braces of the state's keys. */
export function bookEntry(name: string, key: string, by: string, text: KeyText): string {
  return `${escapeName(name)}:${escapeWho(by, key, text)}`;
}

/** An entry of the log. */
export interface LoggedBan extends BanNote {
  readonly action: 'ban' | 'unban' | 'import';
  /** As in {@link bookEntry}: a key, or a network; of an import an empty one. */
  readonly who: string;
  /** How many keys. */
  readonly keys: number;
  /** ms; 0 of an unban, and of an import, whose bans have their own. */
  readonly forMs: number;
  /** `program`: by `limiter.ban` or `limiter.unban`. */
  readonly from: 'cli' | 'program';
}

const UNKNOWN =
  'The user of this Redis client may not note bans in their index: `headgate list --banned` may not show them, and `--scan` does. ' +
  'docs/failure.md lists the permissions.';

/** What becomes of the note of an earlier ban of the same key. */
const KEEP = '';
const DROP = '-';

/** A ban's arguments for `note-bans.lua`: its end is one of 0 ms. Without a note, that of the ban before it stays. */
export function bookArgs(who: string, length: number, note?: BanNote, entry?: LoggedBan): string[] {
  return [who, String(length), note ? noteArg(note) : KEEP, entry ? JSON.stringify(entry) : ''];
}

function noteArg({ by, reason }: BanNote): string {
  return by === null && reason === null ? DROP : JSON.stringify({ by, reason });
}

/**
 * Notes bans beside the decisions: in a cluster no script could write both the ban's key and an index of all of them. A ban
 * that cannot be noted at all breaks the seal of the index, so that nobody takes the index for whole.
 */
export class BanBook {
  readonly #aside: Aside;
  readonly #breaking: Aside;
  readonly #keys: readonly string[];
  readonly #text: KeyText;
  /** Until when a ban lasts, and when it was noted, by the store's time, oldest first. */
  readonly #known = new Map<string, { readonly until: number; readonly at: number }>();
  #waiting: string[][] = [];
  /** Some ban is not in the index, and will not be. */
  #hasMissed = false;
  #isSending = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(commands: Commands, prefix: string, text: KeyText) {
    this.#text = text;
    this.#aside = new Aside(commands, 'note-bans');
    this.#breaking = new Aside(commands, 'seal-bans');
    this.#keys = bookKeys(prefix);
  }

  /** Notes the ban that a reply of the store tells, unless it was noted lately. */
  learn(subject: Subject, { now, ban }: Reply): void {
    const who = this.#bannedBy(subject);
    const until = now + Math.abs(ban);
    const known = this.#known.get(who);
    if (ban > 0 && known && known.until >= until && known.at + AGAIN > now) return;
    this.#known.delete(who);
    this.#known.set(who, { until, at: now });
    if (this.#known.size > MOST_KNOWN) this.#known.delete(this.#known.keys().next().value!);
    // One that began before may have been made by hand, with a note.
    this.#note([who, String(until - now), ban > 0 ? KEEP : DROP, '']);
  }

  /** Notes a ban, or with 0 ms its end, by the program. */
  set(subject: Subject, length: number, note: BanNote): void {
    const who = this.#bannedBy(subject);
    this.#known.delete(who);
    const action = length > 0 ? 'ban' : 'unban';
    const entry = { action, who, keys: 1, forMs: length, from: 'program', ...note } as const;
    this.#note(bookArgs(who, length, note, entry));
  }

  #bannedBy({ set, key }: Subject): string {
    return whoOf(set, key, set.dimensions?.banBy ?? DEFAULT_DIMENSION, this.#text);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #note(args: string[]): void {
    if (this.#waiting.length < MOST_WAITING) this.#waiting.push(args);
    else this.#hasMissed = true;
    if (!this.#timer) this.#send();
  }

  /** One call at a time: what comes meanwhile goes with the next. */
  #send(): void {
    if (this.#isSending) return;
    if (!this.#aside.isPermitted && this.#waiting.length > 0) {
      this.#waiting = [];
      this.#hasMissed = true;
    }
    if (this.#hasMissed) this.#break();
    else if (this.#waiting.length > 0) this.#write();
  }

  #write(): void {
    const some = this.#waiting.splice(0, TOGETHER);
    this.#isSending = true;
    this.#aside.send(this.#keys, [...BOOK_BOUNDS, ...some.flat()], (isDone) => {
      if (!isDone) this.#waiting.unshift(...some);
      this.#answered(isDone || !this.#aside.isPermitted);
    });
  }

  #break(): void {
    if (!this.#breaking.isPermitted) {
      warnOnce('HEADGATE_BANS_UNKNOWN', UNKNOWN);
      return;
    }
    this.#hasMissed = false;
    this.#isSending = true;
    this.#breaking.send([this.#keys[3]!], [], (isDone) => {
      if (!isDone) this.#hasMissed = true;
      this.#answered(isDone);
    });
  }

  #answered(goesOn: boolean): void {
    this.#isSending = false;
    if (goesOn) this.#send();
    else this.#timer = setTimeout(() => this.#again(), LATER).unref();
  }

  #again(): void {
    this.#timer = undefined;
    this.#send();
  }
}
