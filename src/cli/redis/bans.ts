import { compileBan } from '../../ban.js';
import { BAN_TAG, escapeKey, escapeName, type Hash } from '../../stores/keys.js';
import { assemble } from '../../stores/scripts.js';
import type { PolicySet } from '../../stores/store.js';
import { readBan } from './layouts.js';
import { Looker } from './look.js';
import { LENIENT, type Session } from './session.js';

/** What a server knows of the bans of one key. */
export interface BanState {
  /** ms; 0: it is not banned. */
  readonly bannedForMs: number;
  /** Denials that were counted towards the next ban. */
  readonly denials: number;
  /** ms, of the last ban by denials; 0: there was none. */
  readonly lastBanMs: number;
}

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
  head(name: string | Hash, key: string | Hash): string {
    const scope = typeof name === 'string' ? escapeName(name) : `%#${name.hash}`;
    return `${this.#session.prefix}:{${scope}:${typeof key === 'string' ? escapeKey(key) : `%#${key.hash}`}`;
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
    const { connection } = this.#session;
    const [value, [reply]] = await Promise.all([
      this.#session.ask(connection.get(`${head}}${BAN_TAG}`)),
      this.#looker.look(this.#set, [head]),
    ]);
    if (reply instanceof Error) throw reply;
    const { now, ban } = reply!;
    return { bannedForMs: ban, ...readBan(value, now) };
  }

  /** Bans for `duration` ms each; 0: ends the ban and forgets what led to it. */
  async set(wanted: readonly { readonly head: string; readonly duration: number }[]): Promise<void> {
    const script = assemble('set-ban', [], true);
    const params = Object.values(this.#set.ban!).map(String);
    for (let at = 0; at < wanted.length; at += TOGETHER) {
      const calls = wanted.slice(at, at + TOGETHER).map(({ head, duration }) => {
        return this.#session.run(script, [`${head}}${BAN_TAG}`], ['', String(duration), ...params]);
      });
      await Promise.all(calls);
    }
  }
}
