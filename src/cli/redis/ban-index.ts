import { randomBytes } from 'node:crypto';
import { bookKeys } from '../../stores/redis/operators/ban-book.js';
import { BAN_TAG, escapeName, parseOwnerText } from '../../stores/keys.js';
import { assemble } from '../../stores/redis/scripts.js';
import { Bans, type BanChange } from './bans.js';
import { KEYS_PER_STEP, type FoundKey, type ScanOptions } from './scan.js';
import type { Session } from './session.js';

/** The time for which the index counts as complete, ms. A process may stop between a ban and its record. */
const DAY = 24 * 60 * 60 * 1000;

/** The time limit of a search of all keys, ms. */
const HOUR = 60 * 60 * 1000;

/** The index of bans, and whether the index is complete. */
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

  /** Whether the index is complete. Also false for a user without permission to read the index. */
  async isWhole(): Promise<boolean> {
    try {
      const seal = this.#session.call('GET', this.#seal);
      const [state, member] = await Promise.all([seal, this.#session.call('ZSCORE', this.#index, '')]);
      return state === 'whole' && member !== null;
    } catch {
      return false;
    }
  }

  /** The bans in the index, of one limiter or of all. Some may have ended. */
  async *keys(name: string | undefined, { progress, signal }: ScanOptions): AsyncGenerator<FoundKey[]> {
    const { prefix } = this.#session;
    const size = Number(await this.#session.call('ZCARD', this.#index));
    let cursor = '0';
    let seen = 0;
    do {
      const step = await this.#session.call('ZSCAN', this.#index, cursor, 'COUNT', String(KEYS_PER_STEP));
      const [next, members] = step as [string, string[]];
      yield members.flatMap((who, i) => {
        const whose = i % 2 === 0 ? parseOwnerText(who) : undefined;
        if (!whose || (name !== undefined && whose.scope !== escapeName(name))) return [];
        const head = `${prefix}:{${who}`;
        return [{ ...whose, head, id: BAN_TAG, redisKey: `${head}}${BAN_TAG}` }];
      });
      cursor = String(next);
      seen += members.length / 2;
      progress?.(cursor === '0' ? 1 : Math.min(1, seen / size));
    } while (cursor !== '0' && !signal?.aborted);
  }

  /** Begins to seal the index, before all keys are searched. No effect if the index is already complete, or may not be written. */
  async beginSeal(): Promise<Sealing> {
    const bans = new Bans(this.#session);
    const token = randomBytes(9).toString('base64url');
    const run = (life: number, ...rest: string[]): Promise<unknown> =>
      this.#session.run(
        assemble('seal-bans', [], false),
        [this.#seal, this.#index],
        ['', token, String(life), ...rest],
      );
    let isOpen = (await run(HOUR).catch(() => 0)) === 1;
    return {
      async note(found) {
        if (isOpen && found.length > 0) await bans.note(found).catch(() => (isOpen = false));
      },
      async end() {
        if (isOpen) await run(DAY, 'whole').catch(() => undefined);
      },
    };
  }
}

/** Records the bans that a search finds, and seals the index at its end. Errors are ignored: the next search covers all keys, too. */
export interface Sealing {
  note(found: readonly BanChange[]): Promise<void>;
  end(): Promise<void>;
}
