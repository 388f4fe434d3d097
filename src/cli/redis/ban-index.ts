import { randomBytes } from 'node:crypto';
import { bookKeys } from '../../stores/redis/ban-book.js';
import { parseWho, type StateKey } from '../../stores/keys.js';
import { assemble } from '../../stores/redis/scripts.js';
import { Bans, type BanChange } from './bans.js';
import { STEP, type ScanOptions } from './scan.js';
import type { Session } from './session.js';

/** For how long the index counts as whole, ms. A process may end between a ban and its note. */
const DAY = 24 * 60 * 60 * 1000;

/** So long may it take to look at all keys, ms. */
const HOUR = 60 * 60 * 1000;

/** Who is in the index of bans, and whether that is everybody. */
export class BanIndex {
  readonly #session: Session;
  readonly #index: string;
  readonly #seal: string;

  constructor(session: Session) {
    this.#session = session;
    const [index, , , seal] = bookKeys(session.prefix);
    this.#index = index;
    this.#seal = seal;
  }

  /** False, too, for a user who may not read it. */
  async isWhole(): Promise<boolean> {
    try {
      const seal = this.#session.call('GET', this.#seal);
      const [state, member] = await Promise.all([seal, this.#session.call('ZSCORE', this.#index, '')]);
      return state === 'whole' && member !== null;
    } catch {
      return false;
    }
  }

  /** Whose bans are noted; some may be over. */
  async *heads({ progress, signal }: ScanOptions): AsyncGenerator<Omit<StateKey, 'id'>[]> {
    const { prefix } = this.#session;
    const size = Number(await this.#session.call('ZCARD', this.#index));
    let cursor = '0';
    let seen = 0;
    do {
      const step = await this.#session.call('ZSCAN', this.#index, cursor, 'COUNT', String(STEP));
      const [next, members] = step as [string, string[]];
      yield members.flatMap((who, i) => {
        const whose = i % 2 === 0 ? parseWho(who) : undefined;
        return whose ? [{ ...whose, head: `${prefix}:{${who}` }] : [];
      });
      cursor = String(next);
      seen += members.length / 2;
      progress?.(cursor === '0' ? 1 : Math.min(1, seen / size));
    } while (cursor !== '0' && !signal?.aborted);
  }

  /** For those who look at all keys. Nothing is sealed if the index is whole, or may not be written. */
  async beginSeal(): Promise<Sealing> {
    const token = randomBytes(9).toString('base64url');
    const begun = await this.#run(token, HOUR).catch(() => 0);
    return new Sealing(
      new Bans(this.#session),
      begun === 1 ? () => this.#run(token, DAY, 'whole') : undefined,
    );
  }

  #run(token: string, life: number, ...rest: string[]): Promise<unknown> {
    const args = ['', token, String(life), ...rest];
    return this.#session.run(assemble('seal-bans', [], false), [this.#seal, this.#index], args);
  }
}

/** Notes what is found, and says that it was all. What it fails with matters to nobody: the next one looks at all keys, too. */
export class Sealing {
  readonly #bans: Bans;
  #end: (() => Promise<unknown>) | undefined;

  constructor(bans: Bans, end: (() => Promise<unknown>) | undefined) {
    this.#bans = bans;
    this.#end = end;
  }

  async note(found: readonly BanChange[]): Promise<void> {
    if (this.#end && found.length > 0) await this.#bans.note(found).catch(() => (this.#end = undefined));
  }

  async end(): Promise<void> {
    await this.#end?.().catch(() => undefined);
  }
}
