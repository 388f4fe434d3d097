import { DOCS } from '../../../common/errors.js';
import { DEFAULT_DIMENSION } from '../../../contract/key.js';
import { warnOnce } from '../../../common/warnings.js';
import { Aside } from './aside.js';
import type { Commands } from '../clients/commands.js';
import { escapeName, ownerText, type KeyText } from '../../keys.js';
import {
  bannedChange,
  CHANGES_LIFE_MS,
  isAutomatic,
  MAX_CHANGES,
  struckChange,
  type Change,
} from '../../journal.js';
import { clearTimeout, setTimeout } from '../../../common/real-time.js';
import type { BanNote } from '../../../contract/ban-options.js';
import type { Reply } from '../../../contract/reply.js';
import type { Subject } from '../../../contract/store.js';

/** Limits of the stored data. `docs/redis.md` lists them. */
export const MAX_RECORDED_BANS = 100_000;

/** Limits of the memory of this process: bans recorded in Redis, and bans that wait for their record. */
const MAX_REMEMBERED_BANS = 10_000;
const MAX_WAITING_BANS = 10_000;

/** The time after which a banned key that still sends requests is recorded again, ms: the index may have been deleted meanwhile. */
const RECORD_AGAIN_MS = 60_000;

/** The most bans per call. */
const MAX_BANS_PER_CALL = 100;

/** The pause before a failed record is repeated, ms. */
const RETRY_PAUSE_MS = 5000;

/** The arguments before those of the bans. */
export const BOOK_BOUNDS = [MAX_RECORDED_BANS, MAX_CHANGES, CHANGES_LIFE_MS].map(String);

/**
 * The keys of the index, the notes, the log of operators, the seal, and the log of automatic changes. Without a colon between the braces, a
 * key is never a limiter's. All keys are in one cluster slot.
 */
export function bookKeys(
  prefix: string,
): [index: string, notes: string, log: string, seal: string, automatic: string] {
  const head = `${prefix}:{bans}`;
  return [head, `${head}:notes`, `${head}:log`, `${head}:whole`, `${head}:automatic`];
}

const UNLISTED_WARNING =
  'The user of this Redis client may not record bans in their index. `headgate list --banned` may miss them; `--scan` finds them. ' +
  `${DOCS}/failure.md lists the permissions.`;

/** The keys of the log of automatic changes, and of the last options of limiters, in the same slot. */
export function configurationKeys(prefix: string, names: readonly string[]): string[] {
  const [head, , , , automatic] = bookKeys(prefix);
  return [automatic, ...names.map((name) => `${head}:options:${escapeName(name)}`)];
}

/** The arguments that keep or delete the note of the key's earlier ban. */
const KEEP_NOTE = '';
const DELETE_NOTE = '-';

/** The arguments of one ban for `note-bans.lua`. A length of 0 ms ends the ban. Without a note, the note of the earlier ban stays. */
export function bookArgs(who: string, length: number, note?: BanNote, change?: Change): string[] {
  return [who, String(length), note ? noteArg(note) : KEEP_NOTE, change ? logArg(change) : ''];
}

/** The arguments that log a change without a ban. A blank name matches no entry of the index. */
export const logArgs = (change: Change): string[] => bookArgs(' ', 0, undefined, change);

function logArg(change: Change): string {
  return `${isAutomatic(change) ? '*' : ''}${JSON.stringify(change)}`;
}

function noteArg({ by, reason }: BanNote): string {
  return by === null && reason === null ? DELETE_NOTE : JSON.stringify({ by, reason });
}

/**
 * Records bans in Redis, beside the decisions: in a cluster, no script can write both a ban's key and an index of all bans. If a ban cannot
 * be recorded, the seal of the index is broken, so that readers know that the index is incomplete.
 */
export class BanBook {
  readonly #aside: Aside;
  readonly #breaking: Aside;
  readonly #keys: readonly string[];
  readonly #text: KeyText;
  /** The end and the time of record of each recorded ban, by the store's clock. The oldest comes first. */
  readonly #known = new Map<string, { readonly until: number; readonly at: number }>();
  #waiting: string[][] = [];
  /** Whether a ban is missing in the index and will not be added. */
  #hasMissed = false;
  #isSending = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(commands: Commands, prefix: string, text: KeyText) {
    this.#text = text;
    this.#aside = new Aside(commands, 'note-bans');
    this.#breaking = new Aside(commands, 'seal-bans');
    this.#keys = bookKeys(prefix);
  }

  /** Records the ban in a reply of the store, unless it was recorded recently. */
  learn(subject: Subject, { now, ban }: Reply): void {
    const who = this.#bannedBy(subject);
    const until = now + Math.abs(ban);
    const known = this.#known.get(who);
    if (ban > 0 && known && known.until >= until && known.at + RECORD_AGAIN_MS > now) return;
    this.#known.delete(who);
    this.#known.set(who, { until, at: now });
    if (this.#known.size > MAX_REMEMBERED_BANS) this.#known.delete(this.#known.keys().next().value!);
    // A ban that began earlier may have been made by hand, so the ban's note must stay.
    const logged = ban > 0 ? '' : logArg(struckChange(who, -ban));
    this.#note([who, String(until - now), ban > 0 ? KEEP_NOTE : DELETE_NOTE, logged]);
  }

  /** Records a ban by the program; with 0 ms, its end. @param left the rest of the ban before, ms */
  set(subject: Subject, length: number, left: number, note: BanNote): void {
    const who = this.#bannedBy(subject);
    this.#known.delete(who);
    this.#note(bookArgs(who, length, note, bannedChange(who, length, left, note)));
  }

  /** Logs a change other than a ban. */
  log(change: Change): void {
    this.#note(logArgs(change));
  }

  #bannedBy({ set, key }: Subject): string {
    return ownerText(set, key, set.dimensions?.banBy ?? DEFAULT_DIMENSION, this.#text);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #note(args: string[]): void {
    if (this.#waiting.length < MAX_WAITING_BANS) this.#waiting.push(args);
    else this.#hasMissed = true;
    if (!this.#timer) this.#send();
  }

  /** Sends one call at a time. Bans in the meantime go with the next call. */
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
    const some = this.#waiting.splice(0, MAX_BANS_PER_CALL);
    this.#isSending = true;
    this.#aside.send(this.#keys, [...BOOK_BOUNDS, ...some.flat()], (isDone) => {
      if (!isDone) this.#waiting.unshift(...some);
      this.#answered(isDone || !this.#aside.isPermitted);
    });
  }

  #break(): void {
    if (!this.#breaking.isPermitted) {
      warnOnce('HEADGATE_BANS_UNKNOWN', UNLISTED_WARNING);
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
    else this.#timer = setTimeout(() => this.#again(), RETRY_PAUSE_MS).unref();
  }

  #again(): void {
    this.#timer = undefined;
    this.#send();
  }
}
