import { Aside } from './aside.js';
import type { Commands } from './clients.js';
import { DEFAULT_DIMENSION } from '../dimensions.js';
import { escapeName, escapeWho, whoOf } from './keys.js';
import type { Reply, Subject } from './store.js';

/** Bounds of what is stored. `docs/redis.md` tells them. */
export const MOST_BANS = 100_000;
const MOST_LOGGED = 10_000;
const LOG_LIFE = 90 * 24 * 60 * 60 * 1000;

/** Bans of which this process knows that they are noted, and those that wait to be. */
const MOST_KNOWN = 10_000;
const MOST_WAITING = 10_000;

/** Bans of one call. */
const TOGETHER = 100;

/** The arguments before those of the bans. */
export const BOOK_BOUNDS = [MOST_BANS, MOST_LOGGED, LOG_LIFE].map(String);

/** The index, the notes and the log: no limiter's, as there is no colon between the braces. In one cluster slot. */
export function bookKeys(prefix: string): [index: string, notes: string, log: string] {
  const head = `${prefix}:{bans}`;
  return [head, `${head}:notes`, `${head}:log`];
}

/** Who is banned, as the book has it: what stands between the braces of the state's keys. */
export function bookEntry(name: string, key: string, by = DEFAULT_DIMENSION): string {
  return `${escapeName(name)}:${escapeWho(by, key)}`;
}

function bannedBy({ set, key }: Subject): string {
  return whoOf(set, key, set.dimensions?.banBy ?? DEFAULT_DIMENSION);
}

/** Who did it, and why. */
export interface BanNote {
  readonly by: string | null;
  readonly reason: string | null;
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

/** What becomes of the note of an earlier ban of the same key. */
const KEEP = '';
const DROP = '-';

/** A ban's arguments for `note-bans.lua`: its end is one of 0 ms. Without a note, that of the ban before it goes. */
export function bookArgs(who: string, length: number, note?: BanNote, entry?: LoggedBan): string[] {
  return [who, String(length), note ? JSON.stringify(note) : DROP, entry ? JSON.stringify(entry) : ''];
}

/**
 * Notes bans beside the decisions: in a cluster no script could write both the ban's key and an index of all of them. What
 * could not be noted when a ban began is noted when the banned key asks next, by whichever process hears it.
 */
export class BanBook {
  readonly #aside: Aside;
  readonly #keys: readonly string[];
  /** Until when a ban is noted, by the store's time, oldest first. */
  readonly #known = new Map<string, number>();
  #waiting: string[][] = [];
  #isSending = false;

  constructor(commands: Commands, prefix: string) {
    this.#aside = new Aside(commands, 'note-bans');
    this.#keys = bookKeys(prefix);
  }

  /** Notes the ban that a reply of the store tells, unless it is noted already. */
  learn(subject: Subject, { now, ban }: Reply): void {
    const who = bannedBy(subject);
    const length = Math.abs(ban);
    if (ban > 0 && (this.#known.get(who) ?? 0) >= now + length) return;
    this.#known.delete(who);
    this.#known.set(who, now + length);
    if (this.#known.size > MOST_KNOWN) this.#known.delete(this.#known.keys().next().value!);
    // One that began before may have been made by hand, with a note.
    this.#note([who, String(length), ban > 0 ? KEEP : DROP, '']);
  }

  /** Notes a ban, or with 0 ms its end, by the program. */
  set(subject: Subject, length: number): void {
    const who = bannedBy(subject);
    this.#known.delete(who);
    const action = length > 0 ? 'ban' : 'unban';
    const nobody = { by: null, reason: null };
    const entry = { action, who, keys: 1, forMs: length, from: 'program', ...nobody } as const;
    this.#note(bookArgs(who, length, undefined, entry));
  }

  #note(args: string[]): void {
    if (!this.#aside.isPermitted || this.#waiting.length >= MOST_WAITING) return;
    this.#waiting.push(args);
    if (!this.#isSending) this.#send();
  }

  /** One call at a time: what comes meanwhile goes with the next. */
  #send(): void {
    if (this.#waiting.length === 0) return;
    this.#isSending = true;
    const args = [...BOOK_BOUNDS, ...this.#waiting.splice(0, TOGETHER).flat()];
    this.#aside.send(this.#keys, args, (isDone) => {
      this.#isSending = false;
      // What is lost is noted when its key asks next.
      if (!isDone) this.#known.clear();
      if (isDone) this.#send();
      else this.#waiting = [];
    });
  }
}
