import { compileBan, type BanNote } from '../../contract/ban-options.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { BOOK_BOUNDS, bookArgs, bookKeys, type LoggedBan } from '../../stores/redis/operators/ban-book.js';
import { BAN_TAG, escapeScope, keyTextOf, type Hash } from '../../stores/keys.js';
import { assemble } from '../../stores/redis/scripts.js';
import type { PolicySet, Reply } from '../../contract/store.js';
import { LENIENT, OtherKeyError, type Session } from './session.js';

/** The bans of one key on a server. */
export interface BanState {
  /** The remaining time of the ban, ms, or 0 if the key is not banned. */
  readonly bannedForMs: number;
  /** Denials that already count towards the next ban. */
  readonly denials: number;
  /** The length of the last ban by denials, ms, or 0 if there was no such ban. */
  readonly lastBanMs: number;
}

/** A ban to create or to end. */
export interface BanChange {
  /** The prefix of the banned key: see {@link Bans.head}. */
  readonly head: string;
  /** The length of the ban, ms. 0 ends the ban. */
  readonly duration: number;
  /** The new note. Absent to keep the earlier note. */
  readonly note?: BanNote;
}

/** The largest difference between the ends of bans that count as the same, ms. */
export const SAME_END_MS = 1000;

/** The number of bans that are changed at a time. */
const BATCH_SIZE = 500;

/** The bans of any scopes and keys, even if only their hash is known. */
export class Bans {
  readonly #session: Session;
  readonly #set: PolicySet;

  constructor(session: Session) {
    this.#session = session;
    this.#set = { name: '', policies: [], ban: compileBan(LENIENT), timeout: session.target.timeout };
  }

  /** The part before the tag in the Redis keys of a key. */
  head(name: string | Hash, key: string | Hash, dimension = DEFAULT_DIMENSION): string {
    const who = keyTextOf(dimension, key, this.#session.hashing.text);
    return `${this.#session.prefix}:{${escapeScope(name)}:${who}`;
  }

  /** For each head, the server's answer or its error. */
  look(heads: readonly string[]): Promise<(Reply | Error)[]> {
    return this.#session.look(this.#set, heads);
  }

  /** The remaining time of each ban, ms, or 0 if the key is not banned. */
  async left(heads: readonly string[]): Promise<number[]> {
    const replies = await this.look(heads);
    return replies.map((reply) => {
      if (reply instanceof Error) throw reply;
      return reply.ban;
    });
  }

  /** All known facts about one key's bans. */
  async stateOf(head: string): Promise<BanState> {
    const [value, [reply]] = await Promise.all([
      this.#session.call('GET', `${head}}${BAN_TAG}`),
      this.look([head]),
    ]);
    if (reply instanceof Error) throw reply;
    const { now, ban } = reply!;
    return { bannedForMs: ban, ...readBan(value as string | null, now) };
  }

  /**
   * Bans for `duration` ms each; 0 ends the ban and removes its history. Then records the change, and logs it as one entry.
   *
   * @param done absent if the change is not logged
   * @returns the reason why the change could not be recorded, or `undefined`
   */
  async set(wanted: readonly BanChange[], done?: Omit<LoggedBan, 'from'>): Promise<string | undefined> {
    const script = assemble('set-ban', [], true);
    const params = Object.values(this.#set.ban!).map(String);
    let unnoted: string | undefined;
    for (let at = 0; at < wanted.length; at += BATCH_SIZE) {
      const some = wanted.slice(at, at + BATCH_SIZE);
      const calls = some.map(({ head, duration }) => {
        return this.#session.run(script, [`${head}}${BAN_TAG}`], ['', String(duration), ...params]);
      });
      await Promise.all(calls);
      await this.note(some, at === 0 && done ? { ...done, from: 'cli' } : undefined).catch(
        (error: unknown) => (unnoted = (error as Error).message),
      );
    }
    return unnoted;
  }

  /** Records bans that already exist. */
  async note(changes: readonly BanChange[], done?: LoggedBan): Promise<void> {
    await this.#write(
      changes.flatMap(({ head, duration, note }, i) => {
        return bookArgs(this.#who(head), duration, note, i === 0 ? done : undefined);
      }),
    );
  }

  /** Logs a change to many keys. @returns as `set` */
  async logOf(done: LoggedBan): Promise<string | undefined> {
    // A blank name matches no entry of the index.
    return this.#write(bookArgs(' ', 0, undefined, done)).then(
      () => undefined,
      (error: unknown) => (error as Error).message,
    );
  }

  async #write(args: readonly string[]): Promise<void> {
    const script = assemble('note-bans', [], false);
    await this.#session.run(script, bookKeys(this.#session.prefix), ['', ...BOOK_BOUNDS, ...args]);
  }

  /** The author and the reason of each ban by hand. Null for all other bans. */
  async notes(heads: readonly string[]): Promise<(BanNote | null)[]> {
    if (heads.length === 0) return [];
    const [, notes] = bookKeys(this.#session.prefix);
    try {
      const texts = await this.#session.call('HMGET', notes, ...heads.map((head) => this.#who(head)));
      return (texts as (string | null)[]).map(noteOf);
    } catch (error) {
      // Bans can be shown without their notes.
      if (error instanceof OtherKeyError || /NOPERM/.test(String(error))) return heads.map(() => null);
      throw error;
    }
  }

  #who(head: string): string {
    return head.slice(this.#session.prefix.length + 2);
  }
}

function noteOf(text: string | null): BanNote | null {
  try {
    return text === null ? null : (JSON.parse(text) as BanNote);
  } catch {
    return null;
  }
}

/** The other values of a ban's state, as written by `algorithms/ban.lua`. */
function readBan(value: string | null, now: number): { denials: number; lastBanMs: number } {
  const numbers = /^\d+( \d+){4}$/.test(value ?? '') ? value!.split(' ').map(Number) : [];
  const [denials = 0, counted = 0, , , lastBanMs = 0] = numbers;
  return { denials: counted > now ? denials : 0, lastBanMs };
}
