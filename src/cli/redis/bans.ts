import { compileBan, type BanNote } from '../../contract/ban-options.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { BOOK_BOUNDS, bookArgs, bookKeys, type LoggedBan } from '../../stores/redis/ban-book.js';
import { BAN_TAG, escapeScope, escapeWho, type Hash } from '../../stores/keys.js';
import { assemble } from '../../stores/redis/scripts.js';
import type { PolicySet } from '../../contract/store.js';
import { readBan } from './layouts.js';
import { Looker } from './look.js';
import { LENIENT, OtherKeyError, type Session } from './session.js';

/** What a server knows of the bans of one key. */
export interface BanState {
  /** ms; 0: it is not banned. */
  readonly bannedForMs: number;
  /** Denials that were counted towards the next ban. */
  readonly denials: number;
  /** ms, of the last ban by denials; 0: there was none. */
  readonly lastBanMs: number;
}

/** A ban to be made, or with 0 ms to be ended. */
export interface BanChange {
  /** Whose: see {@link Bans.head}. */
  readonly head: string;
  /** ms */
  readonly duration: number;
  /** Absent: what there is stays. */
  readonly note?: BanNote;
}

/** An entry of the log of bans by hand. */
export type LogEntry = LoggedBan & { readonly at: string };

/** A ban that ends so little sooner or later is the same, ms. */
export const SAME = 1000;

/** How many are changed at a time. */
const TOGETHER = 500;

/** The bans of any scopes and keys, also of those whose hash alone is known. */
export class Bans {
  readonly #session: Session;
  readonly #looker: Looker;
  readonly #set: PolicySet;

  constructor(session: Session) {
    this.#session = session;
    this.#looker = new Looker(session);
    this.#set = { name: '', policies: [], ban: compileBan(LENIENT), timeout: session.target.timeout };
  }

  /** What stands before the tag in the Redis keys of a key. */
  head(name: string | Hash, key: string | Hash, dimension = DEFAULT_DIMENSION): string {
    const who = escapeWho(dimension, key, this.#session.keyText);
    return `${this.#session.prefix}:{${escapeScope(name)}:${who}`;
  }

  /** For how long each is banned, ms; 0: it is not. */
  async left(heads: readonly string[]): Promise<number[]> {
    const replies = await this.#looker.look(this.#set, heads);
    return replies.map((reply) => {
      if (reply instanceof Error) throw reply;
      return reply.ban;
    });
  }

  /** All that is known of one. */
  async stateOf(head: string): Promise<BanState> {
    const [value, [reply]] = await Promise.all([
      this.#session.call('GET', `${head}}${BAN_TAG}`),
      this.#looker.look(this.#set, [head]),
    ]);
    if (reply instanceof Error) throw reply;
    const { now, ban } = reply!;
    return { bannedForMs: ban, ...readBan(value as string | null, now) };
  }

  /**
   * Bans for `duration` ms each; 0: ends the ban and forgets what led to it. Then notes that, and logs it as one thing.
   *
   * @param done absent: it is not worth an entry in the log
   * @returns why it could not be noted; undefined if it was
   */
  async set(wanted: readonly BanChange[], done?: Omit<LoggedBan, 'from'>): Promise<string | undefined> {
    const script = assemble('set-ban', [], true);
    const params = Object.values(this.#set.ban!).map(String);
    let unnoted: string | undefined;
    for (let at = 0; at < wanted.length; at += TOGETHER) {
      const some = wanted.slice(at, at + TOGETHER);
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

  /** Notes what is so already. */
  async note(changes: readonly BanChange[], done?: LoggedBan): Promise<void> {
    await this.#write(
      changes.flatMap(({ head, duration, note }, i) => {
        return bookArgs(this.#who(head), duration, note, i === 0 ? done : undefined);
      }),
    );
  }

  /** Logs what was done to many keys. @returns as `set` */
  async logOf(done: LoggedBan): Promise<string | undefined> {
    // No key's entry in the index is blank.
    return this.#write(bookArgs(' ', 0, undefined, done)).then(
      () => undefined,
      (error: unknown) => (error as Error).message,
    );
  }

  async #write(args: readonly string[]): Promise<void> {
    const script = assemble('note-bans', [], false);
    await this.#session.run(script, bookKeys(this.#session.prefix), ['', ...BOOK_BOUNDS, ...args]);
  }

  /** Who made each ban by hand, and why; null of the others. */
  async notes(heads: readonly string[]): Promise<(BanNote | null)[]> {
    if (heads.length === 0) return [];
    const [, notes] = bookKeys(this.#session.prefix);
    try {
      const texts = await this.#session.call('HMGET', notes, ...heads.map((head) => this.#who(head)));
      return (texts as (string | null)[]).map(noteOf);
    } catch (error) {
      // Bans can be told without them.
      if (error instanceof OtherKeyError || /NOPERM/.test(String(error))) return heads.map(() => null);
      throw error;
    }
  }

  /** What was done by hand, the newest first. */
  async *log(): AsyncGenerator<LogEntry> {
    const [, , log] = bookKeys(this.#session.prefix);
    let end = '+';
    for (;;) {
      const page = await this.#session.call('XREVRANGE', log, end, '-', 'COUNT', String(TOGETHER));
      const entries = page as [id: string, fields: string[]][];
      for (const [id, [, text]] of entries) {
        const at = new Date(Number(id.split('-')[0])).toISOString();
        yield { at, ...(JSON.parse(text!) as LoggedBan) };
      }
      if (entries.length < TOGETHER) return;
      end = `(${entries.at(-1)![0]}`;
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
